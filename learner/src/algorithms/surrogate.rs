//! The clipped surrogate loss of PPO and APPO as a pure function on slices, for any action distribution and
//! float type.

#[cfg(test)]
mod tests;

use num_traits::Float;

use super::targets::nothing_to_learn_from;
use crate::ShapeError;
use crate::explained_variance::{explained_variance, to_f64};

/// The greatest logarithm of a ratio. `e^60` is about 1e26: in `f32` its product with an advantage of up to
/// 1e12 is finite.
const MOST_LOG_RATIO: f64 = 60.0;

/// Coefficients of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurrogateConfig<F> {
    /// Range around 1 within which the ratio is not clipped.
    pub clip_param: F,
    /// Weight of the value loss.
    pub vf_loss_coeff: F,
    /// The value loss.
    pub value_loss: ValueLoss<F>,
    /// Weight of the entropy bonus.
    pub entropy_coeff: F,
    /// Weight of the divergence, if there is one.
    pub kl_coeff: F,
}

/// The loss of an error `V - target`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueLoss<F> {
    /// Half its square: APPO.
    HalfSquared,
    /// Its square up to a bound, beyond which it carries no gradient: PPO.
    Squared {
        /// The bound; infinite for none.
        most: F,
    },
}

/// The inputs of the loss: an entry for each agent-step, in any order.
#[derive(Clone, Copy, Debug)]
pub struct SurrogateInput<'a, F> {
    /// Log-probability of the action under the behaviour policy.
    pub behaviour_logp: &'a [F],
    /// Log-probability of the action under the current policy.
    pub logp: &'a [F],
    /// Entropy of the current action distribution.
    pub entropy: &'a [F],
    /// Current value.
    pub values: &'a [F],
    /// Advantages, without gradient.
    pub advantages: &'a [F],
    /// Value targets.
    pub value_targets: &'a [F],
    /// Factors on the ratios before clipping, without gradient: APPO's bounded importance ratios.
    pub ratio_weights: Option<&'a [F]>,
    /// Divergence of the current action distribution from a reference.
    pub kl: Option<&'a [F]>,
    /// `false` masks an entry.
    pub mask: Option<&'a [bool]>,
}

/// Gradients of the total loss. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct SurrogateGrads<F> {
    /// `d total / d logp`.
    pub logp: Vec<F>,
    /// `d total / d entropy`.
    pub entropy: Vec<F>,
    /// `d total / d values`.
    pub values: Vec<F>,
    /// `d total / d kl`.
    pub kl: Vec<F>,
}

/// The loss and its parts: means over the entries that are not masked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurrogateStats {
    /// `policy_loss + vf_loss_coeff * vf_loss - entropy_coeff * entropy + kl_coeff * kl`.
    pub total_loss: f64,
    /// `-mean(min(ratio * advantage, clipped ratio * advantage))`.
    pub policy_loss: f64,
    /// Mean value loss.
    pub vf_loss: f64,
    /// Mean entropy.
    pub entropy: f64,
    /// Mean divergence, if there is one.
    pub kl: Option<f64>,
    /// Explained variance, as in [`ImpalaLossStats`](crate::ImpalaLossStats).
    pub vf_explained_var: Option<f64>,
    /// Mean ratio, weights included.
    pub mean_ratio: f64,
    /// Share of entries whose ratio the clipping changes.
    pub ratio_clipped: f64,
}

impl SurrogateStats {
    /// The statistics by RLlib's names, then those that it does not report.
    pub(crate) fn named(&self, config: &SurrogateConfig<f32>) -> [(&'static str, f64); 8] {
        [
            ("policy_loss", self.policy_loss),
            ("vf_loss", self.vf_loss),
            ("vf_explained_var", self.vf_explained_var.unwrap_or(f64::NAN)),
            ("entropy", self.entropy),
            ("entropy_coeff", config.entropy_coeff.into()),
            ("kl", self.kl.unwrap_or(f64::NAN)),
            ("mean_ratio", self.mean_ratio),
            ("ratio_clipped", self.ratio_clipped),
        ]
    }
}

/// Computes the clipped surrogate loss and its gradients with respect to log-probabilities, entropies, values
/// and divergences.
///
/// ```text
/// ratio  = weight * exp(min(logp - behaviour_logp, 60))
/// policy = -mean(min(ratio * adv, clamp(ratio, 1 - clip_param, 1 + clip_param) * adv))
/// total  = policy + vf_loss_coeff * mean(value loss) - entropy_coeff * mean(entropy) + kl_coeff * mean(kl)
/// ```
///
/// Scalars are summed in `f64`.
///
/// # Errors
/// Slices of different lengths, or no unmasked entry.
///
/// # Source
/// Schulman et al. 2017, *Proximal Policy Optimization Algorithms*.
pub fn surrogate_loss<F: Float>(
    config: &SurrogateConfig<F>,
    input: &SurrogateInput<'_, F>,
    grads: &mut SurrogateGrads<F>,
) -> Result<SurrogateStats, ShapeError> {
    let rows = input.logp.len();
    check_lengths(input)?;
    let counts = |i: usize| input.mask.is_none_or(|mask| mask[i]);
    let count = (0..rows).filter(|&i| counts(i)).count();
    if count == 0 {
        return Err(nothing_to_learn_from());
    }
    let most_log_ratio = F::from(MOST_LOG_RATIO).unwrap_or_else(F::infinity);
    let share = F::one() / F::from(count).unwrap_or_else(F::infinity);
    let SurrogateGrads { logp: d_logp, entropy: d_entropy, values: d_values, kl: d_kl } = grads;
    for gradient in [&mut *d_logp, &mut *d_entropy, &mut *d_values, &mut *d_kl] {
        gradient.clear();
        gradient.resize(rows, F::zero());
    }
    let mut sums = Sums::default();
    for i in (0..rows).filter(|&i| counts(i)) {
        let weight = input.ratio_weights.map_or(F::one(), |weights| weights[i]);
        let log_ratio = input.logp[i] - input.behaviour_logp[i];
        // NaN stays. An infinite ratio times an advantage of 0 would become NaN.
        let log_ratio = if log_ratio > most_log_ratio { most_log_ratio } else { log_ratio };
        let ratio = weight * log_ratio.exp();
        let surrogate = Surrogate::of(ratio, input.advantages[i], config.clip_param);
        d_logp[i] = -surrogate.slope * share;
        d_entropy[i] = -config.entropy_coeff * share;
        let (value_loss, value_slope) = config.value_loss.of(input.values[i] - input.value_targets[i]);
        d_values[i] = config.vf_loss_coeff * value_slope * share;
        d_kl[i] = config.kl_coeff * share;
        sums.policy -= to_f64(surrogate.value);
        sums.value += to_f64(value_loss);
        sums.entropy += to_f64(input.entropy[i]);
        sums.kl += input.kl.map_or(0.0, |kl| to_f64(kl[i]));
        sums.ratio += to_f64(ratio);
        sums.clipped += u64::from(surrogate.clipped);
    }
    Ok(sums.stats(
        config,
        count as f64,
        input.kl.is_some(),
        explained_variance(input.value_targets, input.values, counts),
    ))
}

/// One entry of the surrogate.
struct Surrogate<F> {
    value: F,
    /// `d value / d logp`.
    slope: F,
    clipped: bool,
}

impl<F: Float> Surrogate<F> {
    fn of(ratio: F, advantage: F, clip_param: F) -> Self {
        // NaN fails both comparisons and stays.
        let (low, high) = (F::one() - clip_param, F::one() + clip_param);
        let bounded = if ratio < low {
            low
        } else if ratio > high {
            high
        } else {
            ratio
        };
        let (free, held) = (ratio * advantage, bounded * advantage);
        let clipped = bounded != ratio;
        // The bounded term does not depend on the ratio.
        if clipped && held < free {
            Self { value: held, slope: F::zero(), clipped }
        } else {
            Self { value: free, slope: free, clipped }
        }
    }
}

impl<F: Float> ValueLoss<F> {
    /// The loss of an error, and its slope.
    fn of(self, error: F) -> (F, F) {
        let (square, two) = (error * error, F::one() + F::one());
        match self {
            Self::HalfSquared => (square / two, error),
            Self::Squared { most } if square > most => (most, F::zero()),
            Self::Squared { .. } => (square, two * error),
        }
    }
}

/// Shifts and scales the advantages that `counts` to mean 0 and deviation 1. Equal advantages become 0.
///
/// Each already includes its `weight`. The weighted mean shifts the unweighted advantage: shifting `weight *
/// adv` would turn equal advantages into `weight - mean weight`, from which the policy would learn.
pub(crate) fn standardize<F: Float>(advantages: &mut [F], weight: impl Fn(usize) -> F, counts: impl Fn(usize) -> bool) {
    let weight = |i: usize| to_f64(weight(i));
    let counted = || (0..advantages.len()).filter(|&i| counts(i));
    let count = counted().count().max(1) as f64;
    let mean = counted().map(|i| to_f64(advantages[i])).sum::<f64>() / counted().map(weight).sum::<f64>();
    // Without any weight, as for policies with disjoint support, there is nothing to shift.
    let mean = if mean.is_finite() { mean } else { 0.0 };
    let shifted = |i: usize| to_f64(advantages[i]) - mean * weight(i);
    let variance = counted().map(|i| shifted(i).powi(2)).sum::<f64>() / count;
    // A lower bound on the deviation, as in RLlib, keeps nearly equal numbers small.
    let deviation = variance.sqrt().max(1e-4);
    for (i, advantage) in advantages.iter_mut().enumerate() {
        let shifted = to_f64(*advantage) - mean * weight(i);
        *advantage = F::from(shifted / deviation).unwrap_or_else(F::nan);
    }
}

fn check_lengths<F>(input: &SurrogateInput<'_, F>) -> Result<(), ShapeError> {
    let rows = input.logp.len();
    let check = |name: &'static str, got: usize| {
        ShapeError::check_shape(name, got, rows, || format!("one entry for each of logp's {rows}"))
    };
    check("behaviour_logp", input.behaviour_logp.len())?;
    check("entropy", input.entropy.len())?;
    check("values", input.values.len())?;
    check("advantages", input.advantages.len())?;
    check("value_targets", input.value_targets.len())?;
    check("ratio_weights", input.ratio_weights.map_or(rows, <[F]>::len))?;
    check("kl", input.kl.map_or(rows, <[F]>::len))?;
    check("mask", input.mask.map_or(rows, <[bool]>::len))
}

#[derive(Default)]
struct Sums {
    policy: f64,
    value: f64,
    entropy: f64,
    kl: f64,
    ratio: f64,
    clipped: u64,
}

impl Sums {
    fn stats<F: Float>(
        self,
        config: &SurrogateConfig<F>,
        count: f64,
        has_kl: bool,
        vf_explained_var: Option<f64>,
    ) -> SurrogateStats {
        let (policy_loss, vf_loss, entropy) = (self.policy / count, self.value / count, self.entropy / count);
        let kl = has_kl.then_some(self.kl / count);
        let bonus = to_f64(config.entropy_coeff) * entropy;
        // With a weight of 0 it is only a statistic, which may be infinite.
        let weighed = kl.filter(|_| config.kl_coeff != F::zero());
        let penalty = weighed.map_or(0.0, |kl| to_f64(config.kl_coeff) * kl);
        SurrogateStats {
            total_loss: policy_loss + to_f64(config.vf_loss_coeff) * vf_loss - bonus + penalty,
            policy_loss,
            vf_loss,
            entropy,
            kl,
            vf_explained_var,
            mean_ratio: self.ratio / count,
            ratio_clipped: self.clipped as f64 / count,
        }
    }
}
