//! What all algorithms compute from a batch: log-probabilities, ends of episodes, and gradients of the
//! network's outputs from those of log-probabilities.

use pronk_buffer::{ActionView, SampleBatch};
use pronk_metrics::{Info, Reduction};
use pronk_policy::{ActionsRef, KlTerm, OutputGrads};

use super::targets::{LastStep, Targets};
use crate::{Advantages, EpisodeEnds, GaeInput, GaeOutput, LearnError, LossInputs, gae};

/// A batch under the current policy. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnBatch {
    /// `[T, B]`: log-probabilities of the batch's actions.
    pub(crate) logp: Vec<f32>,
    /// `[T, B]`.
    pub(crate) entropy: Vec<f32>,
    /// Rewards and discounts with ends folded in.
    pub(crate) ends: EpisodeEnds<f32>,
    /// Advantages by GAE, once estimated.
    pub(crate) gae: GaeOutput<f32>,
}

/// Gradients of a loss, `[T, B]` each.
pub(crate) struct LossGrads<'a> {
    pub(crate) logp: &'a [f32],
    pub(crate) entropy: &'a [f32],
    pub(crate) values: &'a [f32],
    /// That of the loss's own divergence, if it has one.
    pub(crate) divergence: Option<Divergence<'a>>,
}

/// A divergence `KL(from ‖ current)` in the loss.
#[derive(Clone, Copy)]
pub(crate) struct Divergence<'a> {
    /// `[T, B, dist_len]`: the inputs of the distribution that it is from.
    pub(crate) from: &'a [f32],
    /// `[T, B]`: the gradient of the loss with respect to it.
    pub(crate) weights: &'a [f32],
}

impl OnBatch {
    /// Fills log-probabilities, entropies, rewards and discounts.
    pub(crate) fn evaluate(
        &mut self,
        gamma: f64,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
    ) -> Result<(), LearnError> {
        inputs.check(batch)?;
        let (columns, rows) = (batch.shape().columns, batch.shape().steps * batch.shape().columns);
        self.logp.resize(rows, 0.0);
        self.entropy.resize(rows, 0.0);
        let logits = rows_of(inputs.logits, rows, inputs);
        inputs.distribution.logp_and_entropy(logits, actions_of(batch), &mut self.logp, &mut self.entropy)?;
        let final_values = batch.final_obs().index().iter().copied().zip(inputs.final_values.iter().copied());
        self.ends.fold(gamma as f32, columns, batch.rewards(), batch.ends(), final_values)?;
        Ok(())
    }

    /// Fills advantages and value targets by GAE with the behaviour policy's values.
    pub(crate) fn estimate(&mut self, lambda: f64, kind: Advantages, batch: &SampleBatch) -> Result<(), LearnError> {
        let (steps, columns) = (batch.shape().steps, batch.shape().columns);
        let (values, bootstrap) = batch.behaviour_values().split_at(steps * columns);
        let EpisodeEnds { rewards, discounts } = &self.ends;
        let input = GaeInput { steps, columns, rewards, discounts, values, bootstrap };
        gae(lambda as f32, kind, &input, &mut self.gae)?;
        Ok(())
    }

    /// Targets by V-trace, or those of [`estimate`](Self::estimate); `next_values` follow the last step.
    pub(crate) fn targets<'a>(&'a self, vtrace: bool, drop_last: bool, next_values: &'a [f32]) -> Targets<'a, f32> {
        let EpisodeEnds { rewards, discounts } = &self.ends;
        let last_step = if drop_last { LastStep::Drop } else { LastStep::Bootstrap(next_values) };
        if vtrace {
            return Targets::Vtrace { rewards, discounts, last_step };
        }
        Targets::Given { advantages: &self.gae.advantages, value_targets: &self.gae.value_targets }
    }
}

/// The actions of a batch.
pub(crate) fn actions_of(batch: &SampleBatch) -> ActionsRef<'_> {
    match batch.actions() {
        ActionView::U32(actions) => ActionsRef::Discrete(actions),
        ActionView::F32(actions) => ActionsRef::Continuous(actions),
    }
}

/// The first `rows` rows of logits: those of steps.
pub(crate) fn rows_of<'a>(logits: &'a [f32], rows: usize, inputs: &LossInputs<'_>) -> &'a [f32] {
    &logits[..rows * inputs.distribution.dist_len()]
}

/// Writes the gradients of a loss and a penalty with respect to the network's outputs; zero after the last
/// step.
pub(crate) fn write_output_grads(
    batch: &SampleBatch,
    inputs: &LossInputs<'_>,
    loss: &LossGrads<'_>,
    penalty: Option<KlTerm<'_>>,
    grads: &mut OutputGrads,
) -> Result<(), LearnError> {
    let (rows, distribution) = (loss.logp.len(), inputs.distribution);
    let learning_rows = inputs.logits.len() / distribution.dist_len();
    let logits = rows_of(inputs.logits, rows, inputs);
    grads.logits.clear();
    grads.logits.resize(inputs.logits.len(), 0.0);
    let d_logits = &mut grads.logits[..logits.len()];
    match penalty {
        Some(kl) => distribution.loss_grad(logits, actions_of(batch), loss.logp, loss.entropy, kl, d_logits)?,
        None => distribution.logp_and_entropy_grad(logits, actions_of(batch), loss.logp, loss.entropy, d_logits)?,
    }
    if let Some(Divergence { from, weights }) = loss.divergence {
        distribution.kl_grad_q(from, logits, weights, d_logits)?;
    }
    grads.values.clear();
    grads.values.extend_from_slice(loss.values);
    grads.values.resize(learning_rows, 0.0);
    Ok(())
}

/// Statistics of an update, merged by mean. Merging ignores NaN, which the result dict shows as null.
pub(crate) fn statistics(numbers: impl IntoIterator<Item = (&'static str, f64)>) -> Info {
    Info::tree(numbers.into_iter().map(|(name, number)| (name, Info::leaf(number, Reduction::Mean))))
}

/// An error with the first non-finite input of a loss.
pub(crate) fn not_finite(
    what: &'static str,
    columns: usize,
    numbers: &[(&str, &[f32])],
    otherwise: impl FnOnce() -> String,
) -> LearnError {
    let at = numbers.iter().find_map(|(name, numbers)| {
        let i = numbers.iter().position(|number| !number.is_finite())?;
        let (t, b) = (i / columns, i % columns);
        Some(format!("{name} is {} at step {t}, column {b}", numbers[i]))
    });
    LearnError::NonFinite { what, at: at.unwrap_or_else(otherwise) }
}
