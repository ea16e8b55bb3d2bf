//! The input of a recurrent network: starts of episodes, and recurrent states at truncations.

use pronk_buffer::{End, ObsColumn, ObsView, SampleBatch};
use pronk_policy::{Input, Memory, Network, Outputs, Params, PolicyError};

use super::obs_ref::{input_of, obs_ref};

/// Reused storage for it.
#[derive(Default)]
pub(super) struct SequenceInput {
    /// `[T+1, B]`.
    starts: Vec<bool>,
    /// `[T+1, B, obs_len]`: observations that shared elements.
    apart: ObsColumn,
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
    pub(super) fn input<'a>(
        &'a mut self,
        batch: &'a SampleBatch,
        state: &'a [f32],
        reads_shared_rows: bool,
    ) -> Input<'a> {
        let shape = batch.shape();
        let input = input_of(batch.obs(), reads_shared_rows, &mut self.apart);
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
        obs.reset(batch.obs().kind());
        obs.resize(steps * columns * obs_len);
        starts.clear();
        starts.resize(steps * columns, false);
        state.clear();
        for (j, &(t, b)) in finals.index().iter().enumerate() {
            let (t, b) = (t as usize, b as usize);
            state.extend_from_slice(&begins_with[b * state_len..(b + 1) * state_len]);
            for step in 0..=t {
                copy_row(obs, step * columns + j, batch.obs().row(step * shape.columns + b));
                starts[step * columns + j] = step > 0 && batch.ends()[(step - 1) * shape.columns + b] != End::No;
            }
            copy_row(obs, (t + 1) * columns + j, finals.rows().view().row(j, obs_len));
        }
        let input = Input::new(obs_ref(obs.view()), steps * columns).with_memory(Memory { state, starts });
        network.forward(params, &input, outputs)?;
        values.clear();
        let rows = finals.index().iter().enumerate().map(|(j, &(t, _))| (t as usize + 1) * columns + j);
        values.extend(rows.map(|row| outputs.values[row]));
        Ok(())
    }
}

/// Copies an observation into row `at`, of the same type.
fn copy_row(to: &mut ObsColumn, at: usize, row: ObsView<'_>) {
    let _ = to.view_mut().into_row(at, row.len()).copy_from(row);
}
