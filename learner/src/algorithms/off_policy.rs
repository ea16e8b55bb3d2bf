//! How far the policy in training is from the one that acted, and the penalty that keeps it near.

#[cfg(test)]
mod tests;

use num_traits::Float;
use pronk_buffer::SampleBatch;
use pronk_policy::{KlTerm, OutputGrads};

use super::on_batch::{LossGrads, rows_of, write_output_grads};
use crate::explained_variance::to_f64;
use crate::{LearnError, LossInputs, ShapeError};

/// How far the policy in training, `pi`, is from the one that acted, `mu`, over a batch with the importance
/// ratios `w = pi(a|x) / mu(a|x)`. It is 1, 0, 0 where they are the same.
///
/// ```
/// use pronk_learner::OffPolicyStats;
///
/// let (behaviour_logp, logp) = ([0.5_f64.ln(); 2], [0.75_f64.ln(), 0.25_f64.ln()]);
/// let stats = OffPolicyStats::of(&behaviour_logp, &logp)?;
/// assert!((stats.effective_sample_size - 0.8).abs() < 1e-9); // (1.5 + 0.5)² / (2 · (1.5² + 0.5²))
/// assert!((stats.total_variation - 0.25).abs() < 1e-9);
/// # Ok::<(), pronk_learner::ShapeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffPolicyStats {
    /// `(sum w)² / (n sum w²)`: the share of the batch that is worth as much as data of `pi` itself, from
    /// `1 / n` to 1. Kong 1992. A factor that all ratios have in common leaves it as it is; the divergence
    /// sees that.
    pub effective_sample_size: f64,
    /// Mean of `(log w)²`.
    pub log_ratio_squared: f64,
    /// Mean of `|w - 1| / 2`: an estimate of the total variation between `mu` and `pi`.
    pub total_variation: f64,
}

impl OffPolicyStats {
    /// The statistics of actions with these log-probabilities under `mu` and `pi`. NaN without any.
    ///
    /// # Errors
    /// Slices of different lengths.
    pub fn of<F: Float>(behaviour_logp: &[F], logp: &[F]) -> Result<Self, ShapeError> {
        let rows = logp.len();
        ShapeError::check_shape("behaviour_logp", behaviour_logp.len(), rows, || {
            format!("one entry for each of logp's {rows}")
        })?;
        let log_ratios = || logp.iter().zip(behaviour_logp).map(|(&now, &then)| to_f64(now) - to_f64(then));
        let highest = log_ratios().fold(f64::NEG_INFINITY, f64::max);
        // A highest ratio that overflows counts as the greatest that does not.
        let scale = highest.exp().min(f64::MAX);
        let (mut sum, mut squares, mut logs, mut distances) = (0.0, 0.0, 0.0, 0.0);
        for log_ratio in log_ratios() {
            // The sample size is that of the ratios relative to the highest, which never overflow.
            let relative = (log_ratio - highest).exp();
            sum += relative;
            squares += relative * relative;
            logs += log_ratio * log_ratio;
            distances += (relative * scale - 1.0).abs();
        }
        let n = rows as f64;
        Ok(Self {
            effective_sample_size: sum * sum / (n * squares),
            log_ratio_squared: logs / n,
            total_variation: 0.5 * distances / n,
        })
    }
}

/// The penalty of `KL(mu ‖ pi)` in a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Penalty {
    /// Its weight in units of the mean size of advantages, so that it is as strong for rewards of any scale.
    pub(crate) coeff: f64,
    /// Each step's share of the loss: 1 where the loss is a sum.
    pub(crate) share: f64,
}

impl Penalty {
    /// The weight of every step's divergence, which carries no gradient.
    pub(crate) fn weight<F: Float>(self, advantages: &[F]) -> f64 {
        let size: f64 = advantages.iter().map(|&advantage| to_f64(advantage.abs())).sum();
        self.coeff * self.share * size / advantages.len().max(1) as f64
    }
}

/// Measures how far the policy is from the one that acted, and penalises it. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffPolicy {
    kl: Vec<f32>,
    weights: Vec<f32>,
}

/// A batch's statistics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    stats: OffPolicyStats,
    /// Mean `KL(mu ‖ pi)`.
    kl: f64,
    /// What the penalty adds to the loss.
    pub(crate) penalty: f64,
}

impl OffPolicy {
    /// Fills in the divergences of all steps, without a penalty.
    pub(crate) fn measure(
        &mut self,
        rows: usize,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
    ) -> Result<(), LearnError> {
        self.weights.clear();
        self.kl.resize(rows, 0.0);
        Ok(inputs.distribution.kl(batch.behaviour_inputs(), rows_of(inputs.logits, rows, inputs), &mut self.kl)?)
    }

    /// Measures, and writes the gradients of a loss with the penalty. The steps that are learned from have
    /// these `advantages`.
    pub(crate) fn write(
        &mut self,
        penalty: Penalty,
        advantages: &[f32],
        loss: &LossGrads<'_>,
        batch: &SampleBatch,
        inputs: &LossInputs<'_>,
        grads: &mut OutputGrads,
    ) -> Result<(), LearnError> {
        let rows = loss.logp.len();
        if penalty.coeff == 0.0 {
            self.measure(rows, batch, inputs)?;
            return write_output_grads(batch, inputs, loss, None, grads);
        }
        self.kl.resize(rows, 0.0);
        self.weights.clear();
        self.weights.resize(advantages.len(), penalty.weight(advantages) as f32);
        // Steps that only bootstrap carry no gradient.
        self.weights.resize(rows, 0.0);
        let penalty = KlTerm { p: batch.behaviour_inputs(), weight: &self.weights, out: &mut self.kl };
        write_output_grads(batch, inputs, loss, Some(penalty), grads)
    }

    /// The statistics of the first `learned` steps.
    pub(crate) fn found(&self, learned: usize, behaviour_logp: &[f32], logp: &[f32]) -> Result<Found, LearnError> {
        let stats = OffPolicyStats::of(&behaviour_logp[..learned], &logp[..learned])?;
        let sum: f64 = self.kl[..learned].iter().map(|&kl| f64::from(kl)).sum();
        let weight = self.weights.first().copied().unwrap_or_default();
        // With a weight of 0 a divergence is only a statistic, which may be infinite.
        let penalty = if weight == 0.0 { 0.0 } else { f64::from(weight) * sum };
        Ok(Found { stats, kl: sum / learned as f64, penalty })
    }

    /// `KL(mu ‖ pi)` of every step.
    pub(crate) fn kl(&self) -> &[f32] {
        &self.kl
    }

    #[cfg(test)]
    pub(crate) fn buffers(&self) -> [&Vec<f32>; 2] {
        [&self.kl, &self.weights]
    }
}

impl Found {
    /// The statistics by name, with the penalty.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.distances().into_iter().chain([("behaviour_kl_penalty", self.penalty)])
    }

    /// The distances by name.
    pub(crate) fn distances(&self) -> [(&'static str, f64); 4] {
        [
            ("effective_sample_size", self.stats.effective_sample_size),
            ("behaviour_kl", self.kl),
            ("log_ratio_squared", self.stats.log_ratio_squared),
            ("total_variation", self.stats.total_variation),
        ]
    }
}
