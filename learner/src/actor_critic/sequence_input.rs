//! The input of a recurrent network: starts of episodes, and recurrent states at truncations.

use pronk_buffer::{End, ObsColumn, ObsView, SampleBatch};
use pronk_policy::{Input, Memory, Network, Outputs, Params, PolicyError};

use super::obs_ref;

/// Reused storage for it.
#[derive(Default)]
pub(super) struct SequenceInput {
    /// `[T+1, B]`.
    starts: Vec<bool>,
    cut: CutColumns,
}

/// A column for each final observation: the steps of its column up to the truncation, then the observation.
#[derive(Default)]
struct CutColumns {
    obs: ObsColumn,
    starts: Vec<bool>,
    state: Vec<f32>,
    outputs: Outputs,
}

impl SequenceInput {
    /// The observations of a batch, with the start states of its columns, `[B, state_len]`, if the network is
    /// recurrent.
    pub(super) fn input<'a>(&'a mut self, batch: &'a SampleBatch, state: &'a [f32]) -> Input<'a> {
        let shape = batch.shape();
        let input = Input::new(obs_ref(batch.obs()), (shape.steps + 1) * shape.columns);
        if state.is_empty() {
            return input;
        }
        self.starts.clear();
        // The worker clears the start state where an episode begins.
        self.starts.resize(shape.columns, false);
        self.starts.extend(batch.ends().iter().map(|end| *end != End::No));
        input.with_memory(Memory { state, starts: &self.starts })
    }

    /// The values of a batch's final observations, each with its column's recurrent state at the truncation.
    pub(super) fn final_values(
        &mut self,
        network: &mut dyn Network,
        params: &Params,
        batch: &SampleBatch,
        begins_with: &[f32],
        values: &mut Vec<f32>,
    ) -> Result<(), PolicyError> {
        let (shape, state_len) = (batch.shape(), network.shape().state_len);
        let (finals, obs_len) = (batch.final_obs(), shape.obs_len);
        let (columns, steps) = (finals.len(), shape.steps + 1);
        let CutColumns { obs, starts, state, outputs } = &mut self.cut;
        clear(obs, batch.obs(), steps * columns * obs_len);
        starts.clear();
        starts.resize(steps * columns, false);
        state.clear();
        for (j, &(t, b)) in finals.index().iter().enumerate() {
            let (t, b) = (t as usize, b as usize);
            state.extend_from_slice(&begins_with[b * state_len..(b + 1) * state_len]);
            for step in 0..=t {
                copy_row(obs, step * columns + j, batch.obs().row(step * shape.columns + b, obs_len), obs_len);
                starts[step * columns + j] = step > 0 && batch.ends()[(step - 1) * shape.columns + b] != End::No;
            }
            copy_row(obs, (t + 1) * columns + j, finals.rows().view().row(j, obs_len), obs_len);
        }
        let input = Input::new(obs_ref(obs.view()), steps * columns).with_memory(Memory { state, starts });
        network.forward(params, &input, outputs)?;
        values.clear();
        let rows = finals.index().iter().enumerate().map(|(j, &(t, _))| (t as usize + 1) * columns + j);
        values.extend(rows.map(|row| outputs.values[row]));
        Ok(())
    }
}

/// `len` zeros of the type of `like`.
fn clear(obs: &mut ObsColumn, like: ObsView<'_>, len: usize) {
    match (&mut *obs, like) {
        (ObsColumn::F32(numbers), ObsView::F32(_)) => {
            numbers.clear();
            numbers.resize(len, 0.0);
        }
        (ObsColumn::U8(bytes), ObsView::U8(_)) => {
            bytes.clear();
            bytes.resize(len, 0);
        }
        (obs, like) => *obs = ObsColumn::zeros(like.kind(), len),
    }
}

/// Copies an observation into row `at`, of the same type.
fn copy_row(to: &mut ObsColumn, at: usize, row: ObsView<'_>, len: usize) {
    match (to, row) {
        (ObsColumn::F32(to), ObsView::F32(row)) => to[at * len..(at + 1) * len].copy_from_slice(row),
        (ObsColumn::U8(to), ObsView::U8(row)) => to[at * len..(at + 1) * len].copy_from_slice(row),
        _ => {}
    }
}
