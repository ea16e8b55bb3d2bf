//! The APPO loss as a pure function on slices, for any action distribution and float type.

use num_traits::Float;
use serde::{Deserialize, Serialize};

use crate::algorithms::surrogate::{
    SurrogateConfig, SurrogateGrads, SurrogateInput, SurrogateStats, standardize, surrogate_loss,
};
use crate::algorithms::targets::{MaskedSteps, TargetBuffers, TargetRows, Targets};
use crate::explained_variance::{explained_variance, to_f64};
use crate::{ShapeError, VtraceConfig, VtraceOutput};

/// The bound on the importance ratio of the behaviour policy to the target network.
const MOST_IS_RATIO: f64 = 2.0;

/// How the loss with V-trace weights older data. Without V-trace both forms are the same.
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
    /// The ratio to the target network, which starts at 1 at any lag; standardising shifts advantages before
    /// V-trace weights them. Uninformative advantages have no effect.
    #[default]
    Unbiased,
    /// As in IMPACT and RLlib: a capped importance ratio times the ratio to the behaviour policy, and
    /// advantages that are standardised with V-trace's weight. With lag, both change the deviations of
    /// Gaussians whatever the rewards.
    Impact,
}

/// Coefficients of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppoLossConfig<F> {
    /// The form.
    pub form: AppoForm,
    /// Coefficients of the clipped surrogate.
    pub surrogate: SurrogateConfig<F>,
    /// Bars on the importance ratios.
    pub vtrace: VtraceConfig<F>,
    /// How masked steps are treated.
    pub masked_steps: MaskedSteps,
    /// Whether to standardise advantages to mean 0 and deviation 1.
    pub standardize_advantages: bool,
}

/// The inputs of the loss: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct AppoLossInput<'a, F> {
    /// `T`.
    pub steps: usize,
    /// `B`.
    pub columns: usize,
    /// Log-probability of the action under the behaviour policy.
    pub behaviour_logp: &'a [F],
    /// Log-probability of the action under the target network, which V-trace evaluates. Unused if targets are
    /// given.
    pub target_logp: &'a [F],
    /// Log-probability of the action under the current policy.
    pub logp: &'a [F],
    /// Entropy of the current action distribution.
    pub entropy: &'a [F],
    /// Current value.
    pub values: &'a [F],
    /// Divergence of the current action distribution from the target network's, or from the behaviour
    /// policy's if targets are given.
    pub kl: Option<&'a [F]>,
    /// The source of advantages and value targets.
    pub targets: Targets<'a, F>,
    /// `false` masks a step.
    pub mask: Option<&'a [bool]>,
}

/// Gradients of the total loss and their targets, `[steps, columns]` each. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct AppoGrads<F> {
    /// With respect to log-probabilities, entropies, values and divergences.
    pub surrogate: SurrogateGrads<F>,
    /// Targets and advantages of the steps that were learned from.
    pub vtrace: VtraceOutput<F>,
    /// Bounded importance ratios of the behaviour policy to the target network; empty if targets are given.
    pub is_ratios: Vec<F>,
    buffers: TargetBuffers<F>,
}

/// The loss and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppoLossStats {
    /// The loss and its parts: means over the steps that were learned from.
    pub surrogate: SurrogateStats,
    /// Mean and variance of the bounded importance ratios, if there are any; no variance for fewer than two.
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
/// and with given targets `now(a|x) / b(a|x)`. Targets and the target network carry no gradient.
///
/// # Errors
/// A slice of another shape, or no step to learn from.
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
    // The advantages already correct from the behaviour policy to the target network. A ratio to the
    // behaviour policy, capped or not, would start outside the clipping range on old data, where only rows of
    // one sign of the advantage carry a gradient.
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

/// The mean, and the unbiased variance of at least two numbers.
fn mean_and_variance<F: Float>(numbers: &[F]) -> (f64, Option<f64>) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().map(|&number| to_f64(number)).sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|&number| (to_f64(number) - mean).powi(2)).sum();
    (mean, (numbers.len() > 1).then(|| squares / (count - 1.0)))
}
