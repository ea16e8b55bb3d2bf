//! The interface of algorithms: a loss on plain slices, with its gradients.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use pronk_buffer::SampleBatch;
use pronk_metrics::Info;
use pronk_policy::{Distribution, OutputGrads};

use crate::{LearnError, ShapeError, UpdateRhythm};

/// What a loss reads of the policy in training. `T` and `B` are those of the batch.
#[derive(Clone, Copy)]
pub struct LossInputs<'a> {
    /// The action distribution; its inputs are `logits`.
    pub distribution: &'a dyn Distribution,
    /// `[T, B, dist_len]`, or `[T+1, B, dist_len]`: the network's current logits. Row `T` carries no
    /// gradient.
    pub logits: &'a [f32],
    /// `[T+1, B]`: the network's current values; row `T` follows the last step.
    pub values: &'a [f32],
    /// The target network's, as `logits`; empty if [`Algorithm::target_update_period`] requests none.
    pub target_logits: &'a [f32],
    /// `[entries of final_obs]`: values of the final observations, in the order of the batch.
    pub final_values: &'a [f32],
    /// Env-steps trained on so far: the time of schedules.
    pub env_steps: u64,
}

/// An algorithm: computes a loss and its gradients with respect to the network's outputs.
///
/// It never sees the network, so it works with every network on every device, and finite differences can
/// check its gradients without one.
pub trait Algorithm: Send {
    /// Its name in results and errors.
    fn name(&self) -> &'static str;

    /// Computes the loss of `batch` and replaces `grads` with `d loss / d logits` and `d loss / d values`.
    /// Both get as many rows as `inputs.logits`; row `T`, if there is one, is zero. Returns the statistics of
    /// the loss by name.
    ///
    /// # Errors
    /// Slices that do not fit the batch, or a non-finite loss; `grads` are then invalid.
    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError>;

    /// Discount of future rewards, by which a run normalises rewards; `None` refuses to normalise them.
    fn gamma(&self) -> Option<f64> {
        None
    }

    /// Takes the rhythm of the run, before the first update: settings that are left open depend on it.
    fn set_rhythm(&mut self, rhythm: UpdateRhythm) {
        let _ = rhythm;
    }

    /// Updates between two copies of the trained weights to the target network; `None` for no target network.
    fn target_update_period(&self) -> Option<NonZeroU64> {
        None
    }

    /// Called after every update of the weights, with whether it renewed the target network.
    fn updated(&mut self, target_updated: bool) {
        let _ = target_updated;
    }

    /// Its state for a checkpoint, as numbers by name.
    fn save(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Restores its state from [`save`](Self::save).
    ///
    /// # Errors
    /// [`LearnError::AlgorithmState`] for the state of another algorithm; this one is then unchanged.
    fn load(&mut self, numbers: &BTreeMap<String, f64>) -> Result<(), LearnError> {
        match numbers.keys().next() {
            None => Ok(()),
            Some(name) => Err(LearnError::AlgorithmState {
                reason: format!("`{name}` is not of {}, which has no numbers to restore", self.name()),
            }),
        }
    }
}

impl LossInputs<'_> {
    /// Checks every length against `batch`; algorithms call it first.
    ///
    /// # Errors
    /// [`LearnError::Shape`].
    pub fn check(&self, batch: &SampleBatch) -> Result<(), LearnError> {
        let (steps, columns) = (batch.shape().steps, batch.shape().columns);
        let dist_len = self.distribution.dist_len();
        if self.logits.len() != (steps + 1) * columns * dist_len {
            let row = columns * dist_len;
            ShapeError::check_shape("logits", self.logits.len(), steps * row, || {
                format!("[steps, columns, dist_len] = [{steps}, {columns}, {dist_len}] (or one step more)")
            })?;
        }
        if !self.target_logits.is_empty() {
            ShapeError::check_shape("target_logits", self.target_logits.len(), self.logits.len(), || {
                format!("as many as there are logits, {},", self.logits.len())
            })?;
        }
        ShapeError::check("values", self.values.len(), steps + 1, columns)?;
        let n_final = batch.final_obs().len();
        ShapeError::check_shape("final_values", self.final_values.len(), n_final, || {
            format!("the batch's number of final observations, {n_final},")
        })?;
        Ok(())
    }
}
