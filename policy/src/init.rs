//! Weight initialisation.

use std::sync::Arc;

use crate::spec::{POLICY_HEAD, VALUE_HEAD};
use crate::{Init, ParamEntry, ParamLayout, Params, Rng};

impl Init {
    /// The initial weights of any layout, as [`NetworkSpec::init_params`](crate::NetworkSpec::init_params).
    ///
    /// A tensor of two or more dimensions is a matrix, with the last as its columns; other tensors start at
    /// zero. The heads `policy.weight` and `value.weight` and the LSTM tensors `….lstm.input.weight`,
    /// `….lstm.hidden.weight` and `….lstm.bias` are recognised by name. Each matrix has its own random
    /// stream. Equal seeds give equal bits.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pronk_policy::{Init, ParamLayout};
    ///
    /// let layout = ParamLayout::new([("scale.weight", vec![2, 2]), ("scale.bias", vec![2])]);
    /// let params = Init::Orthogonal.params(Arc::new(layout), 0);
    /// assert_eq!(params.get("scale.bias"), Some([0.0, 0.0].as_slice()));
    /// ```
    pub fn params(self, layout: Arc<ParamLayout>, seed: u64) -> Params {
        let mut params = Params::zeros(Arc::clone(&layout));
        let values = params.values_mut();
        for (i, entry) in layout.entries().iter().enumerate() {
            let rng = &mut Rng::stream(seed, &[i as u64]);
            let weights = &mut values[entry.range()];
            match entry.shape[..] {
                _ if is_lstm(entry, "bias") => one_for_the_forget_gate(weights),
                [width, gates] if is_lstm(entry, "hidden.weight") && width > 0 && gates == 4 * width => {
                    (0..4).for_each(|gate| self.fill(Matrix::gate(weights, width, gate), 1.0, rng));
                }
                [.., outputs] if entry.shape.len() > 1 && !weights.is_empty() => {
                    self.fill(Matrix::whole(weights, outputs), self.gain(entry), rng);
                }
                _ => {}
            }
        }
        params
    }

    fn fill(self, matrix: Matrix<'_>, gain: f64, rng: &mut Rng) {
        match self {
            Self::Orthogonal => orthogonal(matrix, gain, rng),
            Self::Xavier => xavier(matrix, gain, rng),
        }
    }

    fn gain(self, entry: &ParamEntry) -> f64 {
        if is_head(entry, POLICY_HEAD) {
            return 0.01;
        }
        match self {
            Self::Orthogonal if is_head(entry, VALUE_HEAD) || is_lstm(entry, "input.weight") => 1.0,
            Self::Orthogonal => 2_f64.sqrt(),
            Self::Xavier => 1.0,
        }
    }
}

fn is_head(entry: &ParamEntry, head: &str) -> bool {
    entry.name.strip_suffix(".weight") == Some(head)
}

fn is_lstm(entry: &ParamEntry, part: &str) -> bool {
    entry.name.strip_suffix(part).is_some_and(|name| name.ends_with(".lstm."))
}

/// Gates are in the order i, f, g, o.
fn one_for_the_forget_gate(bias: &mut [f32]) {
    let width = bias.len() / 4;
    bias[width..2 * width].fill(1.0);
}

/// Some columns of a row-major matrix.
struct Matrix<'a> {
    numbers: &'a mut [f32],
    /// The distance of rows.
    stride: usize,
    first_column: usize,
    columns: usize,
}

impl<'a> Matrix<'a> {
    fn whole(numbers: &'a mut [f32], columns: usize) -> Self {
        Self { numbers, stride: columns, first_column: 0, columns }
    }

    /// The columns of one of four gates.
    fn gate(numbers: &'a mut [f32], width: usize, gate: usize) -> Self {
        Self { numbers, stride: 4 * width, first_column: gate * width, columns: width }
    }

    fn rows(&self) -> usize {
        self.numbers.len() / self.stride
    }

    fn set(self, value: impl FnMut(usize, usize) -> f64) {
        let (columns, mut value) = (self.first_column..self.first_column + self.columns, value);
        for (i, row) in self.numbers.chunks_exact_mut(self.stride).enumerate() {
            for (j, number) in row[columns.clone()].iter_mut().enumerate() {
                *number = value(i, j) as f32;
            }
        }
    }
}

fn xavier(matrix: Matrix<'_>, gain: f64, rng: &mut Rng) {
    let limit = gain * (6.0 / (matrix.rows() + matrix.columns) as f64).sqrt();
    matrix.set(|_, _| limit * (2.0 * rng.next_f64() - 1.0));
}

/// A uniformly random matrix whose shorter side is orthonormal, times `gain`.
fn orthogonal(matrix: Matrix<'_>, gain: f64, rng: &mut Rng) {
    let (rows, columns) = (matrix.rows(), matrix.columns);
    let basis = orthonormal(rows.min(columns), rows.max(columns), rng);
    matrix.set(|i, j| gain * if rows < columns { basis[i][j] } else { basis[j][i] });
}

/// Gram–Schmidt on normal draws.
fn orthonormal(vectors: usize, len: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(vectors);
    while basis.len() < vectors {
        let mut vector: Vec<f64> = (0..len).map(|_| rng.normal()).collect();
        let mut norm = dot(&vector, &vector).sqrt();
        // One pass leaves rounding errors along the others, large if little of the vector is left; two are
        // enough (Giraud, Langou and Rozložník, 2005).
        loop {
            let before = norm;
            for other in &basis {
                let along = dot(&vector, other);
                subtract(&mut vector, along, other);
            }
            norm = dot(&vector, &vector).sqrt();
            if norm > 0.5 * before || norm <= SHORTEST {
                break;
            }
        }
        // A draw in the span of the others has probability zero, but must not become noise.
        if norm > SHORTEST {
            vector.iter_mut().for_each(|x| *x /= norm);
            basis.push(vector);
        }
    }
    basis
}

/// The share of a draw that must be outside the span of the others.
const SHORTEST: f64 = 1e-6;

/// Parallel sums: with one, each addition would wait for the last.
const SUMS: usize = 16;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_chunks, b_chunks) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; SUMS];
    for (a, b) in a_chunks.zip(b_chunks) {
        for i in 0..SUMS {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn subtract(vector: &mut [f64], times: f64, other: &[f64]) {
    vector.iter_mut().zip(other).for_each(|(x, o)| *x -= times * o);
}

#[cfg(test)]
mod tests;
