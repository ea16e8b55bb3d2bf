//! What an algorithm is: a loss on plain slices, with its gradients.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use pronk_buffer::SampleBatch;
use pronk_metrics::Info;
use pronk_policy::{Distribution, OutputGrads};

use crate::{LearnError, ShapeError};

/// What a loss sees of the policy that is being trained.
///
/// `T` steps and `B` columns are those of the batch.
#[derive(Clone, Copy)]
pub struct LossInputs<'a> {
    /// The distribution that `logits` are the inputs of.
    pub distribution: &'a dyn Distribution,
    /// `[T, B, dist_len]`, or `[T+1, B, dist_len]`: the action distributions that the network now gives. A
    /// row for what follows the last step carries no gradient.
    pub logits: &'a [f32],
    /// `[T+1, B]`: the values that the network now gives; row `T` is of what follows the last step.
    pub values: &'a [f32],
    /// As `logits`, of the target network if [`Algorithm::target_update_period`] requests one, else empty.
    pub target_logits: &'a [f32],
    /// `[entries of final_obs]`: values of the final observations of truncated episodes, in the order in
    /// which the batch holds them.
    pub final_values: &'a [f32],
    /// Env-steps trained on so far: the time of schedules.
    pub env_steps: u64,
}

/// An algorithm: computes a loss and its gradients with respect to what the network put out.
///
/// It never sees the network. So each algorithm works with every network on every device, and its gradients
/// can be checked by finite differences without one.
pub trait Algorithm: Send {
    /// Its name in results and errors.
    fn name(&self) -> &'static str;

    /// Computes the loss of `batch` and replaces `grads` with `d loss / d logits` and `d loss / d values`.
    /// Both get as many rows as `inputs.logits` has; row `T`, where there is one, is zero. The returned tree
    /// holds the statistics of the loss by name.
    ///
    /// # Errors
    /// When slices do not fit the batch, or the loss is not finite; `grads` are then of no use.
    fn loss(
        &mut self,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<Info, LearnError>;

    /// For how many updates a target network, a copy of the trained one, stays as it is; `None` for no such
    /// network.
    fn target_update_period(&self) -> Option<NonZeroU64> {
        None
    }

    /// Told after every update of the weights: `target_updated` when the target network has just become a
    /// copy of them.
    fn updated(&mut self, target_updated: bool) {
        let _ = target_updated;
    }

    /// Numbers that its next loss depends on besides settings and inputs, by name, for a checkpoint.
    fn save(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Restores numbers from [`save`](Self::save).
    ///
    /// # Errors
    /// [`LearnError::AlgorithmState`] when they are not this algorithm's; it is then unchanged.
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
    /// Checks every length against `batch`: the first thing an algorithm does.
    ///
    /// # Errors
    /// [`LearnError::Shape`], naming the slice.
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
