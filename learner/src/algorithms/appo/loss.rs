//! The APPO loss as a pure function on slices, for any action distribution and float type.

use num_traits::Float;
use serde::{Deserialize, Serialize};

use crate::algorithms::surrogate::{
    SurrogateConfig, SurrogateGrads, SurrogateInput, SurrogateStats, standardize, surrogate_loss,
};
use crate::algorithms::targets::{MaskedSteps, TargetBuffers, TargetRows, Targets};
use crate::explained_variance::{explained_variance, to_f64};
use crate::{ShapeError, VtraceConfig, VtraceOutput};

/// The most that the policy which acted may count for against the target network.
const MOST_IS_RATIO: f64 = 2.0;

/// What the loss with V-trace makes of data that an older policy made. Without V-trace both are the same.
///
/// # Example
/// ```
/// use pronk_learner::AppoForm;
///
/// assert_eq!(serde_json::to_string(&AppoForm::Impact)?, "\"impact\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppoForm {
    /// The ratio is that to the target network, which is 1 however old the data is, and standardising shifts
    /// advantages before V-trace's weight is multiplied in. Advantages that say nothing move nothing.
    #[default]
    Unbiased,
    /// As IMPACT and RLlib have it: a capped importance ratio times that to the policy which acted, and
    /// advantages that are standardised with V-trace's weight in them. With lag, both move the deviations of
    /// Gaussians whatever the rewards.
    Impact,
}

/// Coefficients of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppoLossConfig<F> {
    /// Which ratio is clipped, and what is standardised.
    pub form: AppoForm,
    /// Those of the clipped surrogate.
    pub surrogate: SurrogateConfig<F>,
    /// Bars on the importance ratios.
    pub vtrace: VtraceConfig<F>,
    /// What becomes of masked steps.
    pub masked_steps: MaskedSteps,
    /// Whether advantages are shifted and scaled to mean 0 and deviation 1 first.
    pub standardize_advantages: bool,
}

/// What the loss reads: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct AppoLossInput<'a, F> {
    /// `T`.
    pub steps: usize,
    /// `B`.
    pub columns: usize,
    /// Log-probability of the action when it was sampled.
    pub behaviour_logp: &'a [F],
    /// Log-probability of the action under the target network: the policy that V-trace values. Where targets
    /// are given it is not used.
    pub target_logp: &'a [F],
    /// Log-probability of the action now.
    pub logp: &'a [F],
    /// Entropy of the action distribution now.
    pub entropy: &'a [F],
    /// Value now.
    pub values: &'a [F],
    /// Divergence of the action distribution now from that of the target network, or where targets are given
    /// from the one that acted.
    pub kl: Option<&'a [F]>,
    /// Where advantages and value targets come from.
    pub targets: Targets<'a, F>,
    /// `false` leaves a step out.
    pub mask: Option<&'a [bool]>,
}

/// Gradients of the total loss, `[steps, columns]` each, with what they were computed from. Reused between
/// calls it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct AppoGrads<F> {
    /// With respect to log-probabilities, entropies, values and divergences.
    pub surrogate: SurrogateGrads<F>,
    /// Targets and advantages of the steps that were learned from.
    pub vtrace: VtraceOutput<F>,
    /// Bounded importance ratios of the policy that acted against the target network; empty where targets are
    /// given.
    pub is_ratios: Vec<F>,
    buffers: TargetBuffers<F>,
}

/// The loss and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppoLossStats {
    /// The loss and its parts: means over the steps that were learned from.
    pub surrogate: SurrogateStats,
    /// Mean and variance of the bounded importance ratios, where there are any; no variance of fewer than
    /// two.
    pub is_ratio: Option<(f64, Option<f64>)>,
    /// Mean importance ratio of V-trace.
    pub mean_rho: f64,
    /// Share of steps whose ratio is above the bar on rho.
    pub rho_clipped: f64,
    /// Share of steps whose ratio is above the bar on c.
    pub c_clipped: f64,
}

/// Computes the APPO loss and its gradients with respect to log-probabilities, entropies, values and
/// divergences.
///
/// With targets from V-trace of the target network `t`, for data that `b` made, the surrogate clips
///
/// ```text
/// ratio = now(a|x) / t(a|x)                                       Unbiased
/// ratio = clamp(b(a|x) / t(a|x), 0, 2) * now(a|x) / b(a|x)        Impact
/// ```
///
/// and with given targets `now(a|x) / b(a|x)`. Neither targets nor the target network carry a gradient.
///
/// # Errors
/// When a slice does not have the stated shape, or nothing is left to learn from.
pub fn appo_loss<F: Float>(
    config: &AppoLossConfig<F>,
    input: &AppoLossInput<'_, F>,
    grads: &mut AppoGrads<F>,
) -> Result<AppoLossStats, ShapeError> {
    let AppoLossInput { steps, columns, behaviour_logp, logp, values, mask, .. } = *input;
    let of_vtrace = matches!(input.targets, Targets::Vtrace { .. });
    let valued_logp = if of_vtrace { input.target_logp } else { logp };
    let AppoGrads { surrogate, vtrace, is_ratios, buffers } = grads;
    let rows = TargetRows { steps, columns, logp: valued_logp, behaviour_logp, values, mask };
    let learned = input.targets.compute(&config.vtrace, config.masked_steps, &rows, buffers, vtrace)?;
    ShapeError::check("logp", logp.len(), steps, columns)?;
    ShapeError::check("entropy", input.entropy.len(), steps, columns)?;
    ShapeError::check("kl", input.kl.map_or(logp.len(), <[F]>::len), steps, columns)?;

    is_ratios.clear();
    if of_vtrace {
        let most = F::from(MOST_IS_RATIO).unwrap_or_else(F::infinity);
        let logps = behaviour_logp.iter().zip(input.target_logp).take(learned);
        is_ratios.extend(logps.map(|(&then, &target)| (then - target).exp().min(most)));
    }
    let mask = mask.map(|mask| &mask[..learned]);
    let is_learned = |i: usize| mask.is_none_or(|mask| mask[i]);
    let unbiased = of_vtrace && config.form == AppoForm::Unbiased;
    if config.standardize_advantages {
        let VtraceOutput { rhos, pg_advantages, .. } = vtrace;
        let weight = |i: usize| if unbiased { config.vtrace.pg_rho(rhos[i]) } else { F::one() };
        standardize(pg_advantages, weight, is_learned);
    }
    // The advantages carry the weight from the policy that acted to the target network, so what is left to
    // correct is the way from there. A ratio to the policy that acted, with a cap or without, would begin
    // outside the clipping range on old data, where rows of negative advantage carry no gradient and rows of
    // positive advantage do.
    let from = if unbiased { input.target_logp } else { behaviour_logp };
    let surrogate_input = SurrogateInput {
        behaviour_logp: &from[..learned],
        logp: &logp[..learned],
        entropy: &input.entropy[..learned],
        values: &values[..learned],
        advantages: &vtrace.pg_advantages,
        value_targets: &vtrace.vs,
        ratio_weights: (of_vtrace && !unbiased).then_some(is_ratios.as_slice()),
        kl: input.kl.map(|kl| &kl[..learned]),
        mask,
    };
    let mut stats = surrogate_loss(&config.surrogate, &surrogate_input, surrogate)?;
    // Steps that only bootstrap carry no gradient.
    let SurrogateGrads { logp: d_logp, entropy: d_entropy, values: d_values, kl: d_kl } = surrogate;
    [d_logp, d_entropy, d_values, d_kl].into_iter().for_each(|gradient| gradient.resize(steps * columns, F::zero()));

    if config.masked_steps == MaskedSteps::Recurse {
        stats.vf_explained_var = explained_variance(&vtrace.vs, &values[..learned], |_| true);
    }
    let learned_rhos = || (0..learned).filter(|&i| is_learned(i)).map(|i| vtrace.rhos[i]);
    let count = learned_rhos().count() as f64;
    let above = |bar: Option<F>| learned_rhos().filter(|&rho| bar.is_some_and(|bar| rho > bar)).count() as f64 / count;
    Ok(AppoLossStats {
        surrogate: stats,
        is_ratio: of_vtrace.then(|| mean_and_variance(is_ratios)),
        mean_rho: learned_rhos().map(|rho| to_f64(rho.min(F::max_value()))).sum::<f64>() / count,
        rho_clipped: above(config.vtrace.clip_rho),
        c_clipped: above(config.vtrace.clip_c),
    })
}

/// The mean, and the unbiased variance of two numbers or more.
fn mean_and_variance<F: Float>(numbers: &[F]) -> (f64, Option<f64>) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().map(|&number| to_f64(number)).sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|&number| (to_f64(number) - mean).powi(2)).sum();
    (mean, (numbers.len() > 1).then(|| squares / (count - 1.0)))
}
