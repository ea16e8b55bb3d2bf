//! How weights start, from the library's own generator.

use std::sync::Arc;

use crate::spec::POLICY_HEAD;
use crate::{Init, ParamEntry, ParamLayout, Params, Rng};

/// Fills every matrix of the layout. Each has a random stream of its own, so changing one layer leaves the others alone.
pub(crate) fn init_params(init: Init, layout: Arc<ParamLayout>, seed: u64) -> Params {
    let mut params = Params::zeros(Arc::clone(&layout));
    let values = params.values_mut();
    for (i, entry) in layout.entries().iter().enumerate() {
        if let [inputs, outputs] = entry.shape[..] {
            let mut rng = Rng::stream(seed, &[i as u64]);
            let weights = &mut values[entry.range()];
            match init {
                Init::Orthogonal => orthogonal(inputs, outputs, orthogonal_gain(entry), &mut rng, weights),
                Init::Xavier => xavier(inputs, outputs, xavier_gain(entry), &mut rng, weights),
            }
        }
    }
    params
}

fn is_head(entry: &ParamEntry, head: &str) -> bool {
    entry.name.strip_suffix(".weight") == Some(head)
}

fn orthogonal_gain(entry: &ParamEntry) -> f64 {
    if is_head(entry, crate::spec::VALUE_HEAD) {
        1.0
    } else if is_head(entry, POLICY_HEAD) {
        0.01
    } else {
        2_f64.sqrt()
    }
}

fn xavier_gain(entry: &ParamEntry) -> f64 {
    if is_head(entry, POLICY_HEAD) { 0.01 } else { 1.0 }
}

fn xavier(inputs: usize, outputs: usize, gain: f64, rng: &mut Rng, weights: &mut [f32]) {
    let limit = gain * (6.0 / (inputs + outputs) as f64).sqrt();
    for weight in weights {
        *weight = (limit * (2.0 * rng.next_f64() - 1.0)) as f32;
    }
}

/// A random matrix whose shorter side is orthonormal times `gain`, every rotation equally likely.
fn orthogonal(inputs: usize, outputs: usize, gain: f64, rng: &mut Rng, weights: &mut [f32]) {
    let (vectors, len) = (inputs.min(outputs), inputs.max(outputs));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(vectors);
    while basis.len() < vectors {
        // Gram–Schmidt on normal draws. Twice, because once leaves rounding errors in the direction of the others.
        let mut vector: Vec<f64> = (0..len).map(|_| rng.normal()).collect();
        for _ in 0..2 {
            for other in &basis {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
            }
        }
        let norm = dot(&vector, &vector).sqrt();
        // A draw that lies in the span of the others has probability zero; but then it must not become noise.
        if norm > 1e-6 {
            vector.iter_mut().for_each(|x| *x /= norm);
            basis.push(vector);
        }
    }
    for (i, row) in weights.chunks_exact_mut(outputs).enumerate() {
        for (j, weight) in row.iter_mut().enumerate() {
            let value = if inputs < outputs { basis[i][j] } else { basis[j][i] };
            *weight = (gain * value) as f32;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
