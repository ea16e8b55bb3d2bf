//! The recurrent state at the start of a batch.

use pronk_buffer::{End, ObsColumn, Pool, SampleBatch};
use pronk_policy::{Memory, Network, Outputs, Params};
use serde::{Deserialize, Serialize};

use super::obs_ref::input_of;
use crate::LearnError;

/// The recurrent state at the start of a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InitialState {
    /// The worker's, computed with the weights that it acted with.
    #[default]
    Stored,
    /// Zeros, as at the start of an episode.
    Zero,
}

/// Prepares the recurrent state of batches by a zero start state or burn-in, as in Kapturowski et al.,
/// "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019).
pub(super) struct BurnIn {
    initial: InitialState,
    steps: usize,
    pool: Pool,
    state: Vec<f32>,
    starts: Vec<bool>,
    /// `[steps, B, obs_len]`: observations that shared elements.
    apart: ObsColumn,
    outputs: Outputs,
}

impl BurnIn {
    pub(super) fn new(initial: InitialState, steps: usize) -> Self {
        let (state, starts, apart) = (Vec::new(), Vec::new(), ObsColumn::default());
        // One for whole minibatches, one for the smaller last one.
        Self { initial, steps, pool: Pool::new(2), state, starts, apart, outputs: Outputs::default() }
    }

    /// Whether there are no burn-in steps.
    pub(super) fn is_empty(&self) -> bool {
        self.steps == 0
    }

    /// Computes the recurrent state that learning starts from. Returns the steps after burn-in; `None` for
    /// the whole batch.
    pub(super) fn begin(
        &mut self,
        network: &mut dyn Network,
        params: &Params,
        batch: &SampleBatch,
    ) -> Result<Option<SampleBatch>, LearnError> {
        self.state.clear();
        match self.initial {
            InitialState::Stored => self.state.extend_from_slice(batch.state_in()),
            InitialState::Zero => self.state.resize(batch.state_in().len(), 0.0),
        }
        if self.is_empty() {
            return Ok(None);
        }
        let rest = batch.skip_steps(self.steps, &self.pool)?;
        let columns = batch.shape().columns;
        let rows = self.steps * columns;
        let began = |end: &End| *end != End::No;
        self.starts.clear();
        self.starts.resize(columns, false);
        self.starts.extend(batch.ends()[..rows - columns].iter().map(began));
        let memory = Memory { state: &self.state, starts: &self.starts };
        let obs = batch.obs().rows(0..rows);
        let input = input_of(obs, network.reads_shared_rows(), &mut self.apart).with_memory(memory);
        network.forward(params, &input, &mut self.outputs)?;
        self.state.copy_from_slice(&self.outputs.state);
        let (state_len, ends) = (batch.shape().state_len, &batch.ends()[rows - columns..rows]);
        for (state, _) in self.state.chunks_exact_mut(state_len).zip(ends).filter(|(_, end)| began(end)) {
            state.fill(0.0);
        }
        Ok(Some(rest))
    }

    /// `[B, state_len]`: the start state of the current batch.
    pub(super) fn state(&self) -> &[f32] {
        &self.state
    }
}
