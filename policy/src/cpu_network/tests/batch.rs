//! Random batches, and what it is for two implementations to agree on one.

use crate::{Input, Memory, NetworkSpec, ObsDtype, ObsRef, OutputGrads, ParamLayout, Params, Rng};

/// A batch with the gradient of a loss.
pub(super) struct Batch {
    numbers: Vec<f32>,
    bytes: Vec<u8>,
    memory: Option<(Vec<f32>, Vec<bool>)>,
    rows: usize,
    pub(super) grads: OutputGrads,
}

impl Batch {
    pub(super) fn random(spec: &NetworkSpec, steps: usize, columns: usize, seed: u64) -> Self {
        let mut rng = Rng::seed_from(seed);
        let rows = steps * columns;
        let len = rows * spec.obs.obs_len();
        let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
        match spec.obs.obs_dtype() {
            ObsDtype::F32 => numbers.extend((0..len).map(|_| rng.normal() as f32)),
            ObsDtype::U8 => bytes.extend((0..len).map(|_| (rng.next_f64() * 256.0) as u8)),
        }
        let memory = spec.lstm.map(|_| {
            let state = (0..columns * spec.state_len()).map(|_| 0.5 * rng.normal() as f32).collect();
            let starts = (0..rows).map(|_| rng.next_f64() < 0.2).collect();
            (state, starts)
        });
        let mut normals = |len: usize| (0..len).map(|_| rng.normal() as f32).collect();
        let grads = OutputGrads { logits: normals(rows * spec.dist_len), values: normals(rows) };
        Self { numbers, bytes, memory, rows, grads }
    }

    pub(super) fn input(&self) -> Input<'_> {
        let obs = if self.bytes.is_empty() { ObsRef::F32(&self.numbers) } else { ObsRef::U8(&self.bytes) };
        let input = Input::new(obs, self.rows);
        match &self.memory {
            None => input,
            Some((state, starts)) => input.with_memory(Memory { state, starts }),
        }
    }
}

/// Weights and biases none of which is zero, of a size that keeps activations away from saturation.
pub(super) fn random_params(spec: &NetworkSpec, seed: u64) -> Params {
    let mut params = spec.init_params(seed).unwrap();
    let layout = params.layout().clone();
    let mut rng = Rng::seed_from(seed ^ 0x5EED);
    let values = params.values_mut();
    for entry in layout.entries() {
        let inputs: usize = entry.shape.iter().rev().skip(1).product();
        let size = if entry.shape.len() == 1 { 0.1 } else { 1.0 / (inputs as f64).sqrt() };
        values[entry.range()].iter_mut().for_each(|value| *value = (size * rng.normal()) as f32);
    }
    params
}

/// Equal to 1e-5 of the largest number: sums of many terms that cancel have no better relative precision in f32.
pub(super) fn agree(what: &str, expected: &[f32], got: &[f32]) -> Result<(), String> {
    assert_eq!(expected.len(), got.len(), "{what}");
    let scale = expected.iter().fold(1e-3_f32, |max, x| max.max(x.abs()));
    let apart =
        expected.iter().zip(got).position(|(expected, got)| (expected - got).abs() > 1e-5 * scale || got.is_nan());
    match apart {
        None => Ok(()),
        Some(i) => Err(format!("{what}[{i}]: {} and {}, the largest is {scale}", expected[i], got[i])),
    }
}

/// The same for each tensor of a gradient.
pub(super) fn agree_by_tensor(layout: &ParamLayout, expected: &[f32], got: &[f32]) -> Result<(), String> {
    layout.entries().iter().try_for_each(|entry| agree(&entry.name, &expected[entry.range()], &got[entry.range()]))
}
