//! Random batches, and what it is for two implementations to agree on one.

use crate::{Input, Memory, NetworkSpec, ObsDtype, ObsRef, OutputGrads, ParamEntry, ParamLayout, Params, Rng};

/// A batch with the gradient of a loss.
pub(super) struct Batch {
    dtype: ObsDtype,
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
        let (dtype, mut numbers, mut bytes) = (spec.obs.obs_dtype(), Vec::new(), Vec::new());
        match dtype {
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
        Self { dtype, numbers, bytes, memory, rows, grads }
    }

    pub(super) fn input(&self) -> Input<'_> {
        let obs = match self.dtype {
            ObsDtype::F32 => ObsRef::F32(&self.numbers),
            ObsDtype::U8 => ObsRef::U8(&self.bytes),
        };
        let input = Input::new(obs, self.rows);
        match &self.memory {
            None => input,
            Some((state, starts)) => input.with_memory(Memory { state, starts }),
        }
    }

    /// The observations row by row, as numbers a network computes with.
    pub(super) fn observations(&self, spec: &NetworkSpec) -> impl Iterator<Item = Vec<f64>> {
        let numbers = self.numbers.iter().map(|&x| f64::from(x));
        let numbers: Vec<_> = numbers.chain(self.bytes.iter().map(|&x| f64::from(x) / 255.0)).collect();
        let len = spec.obs.obs_len();
        (0..self.rows).map(move |row| numbers[row * len..(row + 1) * len].to_vec())
    }

    /// One observation, to be changed, of those that are numbers.
    pub(super) fn observation_mut(&mut self, spec: &NetworkSpec, row: usize) -> &mut [f32] {
        let len = spec.obs.obs_len();
        &mut self.numbers[row * len..(row + 1) * len]
    }

    /// The state before the first step.
    pub(super) fn state(&self) -> Vec<f64> {
        self.memory.iter().flat_map(|(state, _)| state).map(|&x| f64::from(x)).collect()
    }

    /// Whether an episode starts in this row.
    pub(super) fn starts(&self, row: usize) -> bool {
        self.memory.as_ref().is_some_and(|(_, starts)| starts[row])
    }

    /// State and starts of a recurrent network's batch, to be changed.
    pub(super) fn memory_mut(&mut self) -> (&mut [f32], &mut [bool]) {
        let (state, starts) = self.memory.as_mut().unwrap();
        (state, starts)
    }

    /// One of its `columns` alone.
    pub(super) fn column(&self, spec: &NetworkSpec, column: usize, columns: usize) -> Self {
        self.pick(spec, &[column], columns)
    }

    /// Some of its `columns`, in this order.
    pub(super) fn pick(&self, spec: &NetworkSpec, picked: &[usize], columns: usize) -> Self {
        fn rows<T: Copy>(of: &[T], len: usize, picked: &[usize], columns: usize) -> Vec<T> {
            let steps = of.chunks_exact(len * columns);
            steps.flat_map(|step| picked.iter().flat_map(|&column| &step[column * len..][..len])).copied().collect()
        }
        let cut = |of: &[f32], len| rows(of, len, picked, columns);
        let obs_len = spec.obs.obs_len();
        let memory = self
            .memory
            .as_ref()
            .map(|(state, starts)| (cut(state, spec.state_len()), rows(starts, 1, picked, columns)));
        Self {
            dtype: self.dtype,
            numbers: cut(&self.numbers, obs_len),
            bytes: rows(&self.bytes, obs_len, picked, columns),
            memory,
            rows: self.rows / columns * picked.len(),
            grads: OutputGrads { logits: cut(&self.grads.logits, spec.dist_len), values: cut(&self.grads.values, 1) },
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

/// Equal to 1e-5 of the largest number, and to 3e-6: see [`agree_to`].
pub(super) fn agree(what: &str, expected: &[f32], got: &[f32]) -> Result<(), String> {
    agree_to(1e-5, what, expected, got)
}

/// Equal to a share of the largest number: sums of many terms that cancel have no better relative precision
/// in f32. Few numbers may all be small although their terms are not, so they need not be equal to better
/// than 0.3 of that share.
pub(super) fn agree_to(share: f32, what: &str, expected: &[f32], got: &[f32]) -> Result<(), String> {
    assert_eq!(expected.len(), got.len(), "{what}");
    let scale = expected.iter().fold(0.3_f32, |max, x| max.max(x.abs()));
    let apart =
        expected.iter().zip(got).position(|(expected, got)| (expected - got).abs() > share * scale || got.is_nan());
    match apart {
        None => Ok(()),
        Some(i) => Err(format!("{what}[{i}]: {} and {}, the largest is {scale}", expected[i], got[i])),
    }
}

/// The same for each tensor of a gradient.
pub(super) fn agree_by_tensor(layout: &ParamLayout, expected: &[f32], got: &[f32]) -> Result<(), String> {
    agree_by_tensor_to(1e-5, layout, expected, got)
}

/// [`agree_to`] for each tensor of a gradient.
pub(super) fn agree_by_tensor_to(
    share: f32,
    layout: &ParamLayout,
    expected: &[f32],
    got: &[f32],
) -> Result<(), String> {
    let agrees = |entry: &ParamEntry| agree_to(share, &entry.name, &expected[entry.range()], &got[entry.range()]);
    layout.entries().iter().try_for_each(agrees)
}
