//! Target networks.

use std::num::NonZeroU64;

use pronk_policy::{Input, Network, Outputs, Params};

use crate::{LearnError, TargetState, cloned};

/// A copy of the trained weights, renewed every few updates, and its logits.
pub(super) struct Target {
    params: Params,
    period: NonZeroU64,
    /// Updates since the copy was made.
    age: u64,
    outputs: Outputs,
}

impl Target {
    pub(super) fn new(params: &Params, period: NonZeroU64) -> Self {
        Self { params: params.clone(), period, age: 0, outputs: Outputs::default() }
    }

    /// Computes its outputs.
    pub(super) fn look(&mut self, network: &mut dyn Network, input: &Input<'_>) -> Result<(), LearnError> {
        Ok(network.forward(&self.params, input, &mut self.outputs)?)
    }

    /// The last logits.
    pub(super) fn logits(&mut self) -> &mut [f32] {
        &mut self.outputs.logits
    }

    /// Counts an update of the trained weights; returns whether it renewed the target.
    pub(super) fn updated(&mut self, trained: &Params) -> bool {
        self.age += 1;
        if self.age < self.period.get() {
            return false;
        }
        self.age = 0;
        self.params.values_mut().copy_from_slice(trained.values());
        true
    }

    /// Its state, in the storage of `spare`.
    pub(super) fn save(&self, spare: Option<TargetState>) -> TargetState {
        TargetState { params: cloned(spare.map(|state| state.params), &self.params), age: self.age }
    }

    /// Restores the saved target; without one, copies the trained weights.
    pub(super) fn load(&mut self, state: Option<TargetState>, trained: &Params) {
        let state = state.unwrap_or_else(|| TargetState { params: trained.clone(), age: 0 });
        (self.params, self.age) = (state.params, state.age);
    }
}
