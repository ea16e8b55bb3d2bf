//! The IMPALA loss as a pure function on slices, for any action distribution and float type.

use num_traits::Float;

use crate::algorithms::targets::{MaskedSteps, TargetBuffers, TargetRows, Targets, nothing_to_learn_from};
use crate::explained_variance::{explained_variance, to_f64};
use crate::{ShapeError, VtraceConfig, VtraceOutput};

/// Coefficients of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpalaLossConfig<F> {
    /// Weight of the value loss.
    pub vf_loss_coeff: F,
    /// Weight of the entropy bonus.
    pub entropy_coeff: F,
    /// Bars on the importance ratios.
    pub vtrace: VtraceConfig<F>,
    /// How masked steps are treated.
    pub masked_steps: MaskedSteps,
}

/// The inputs of the loss: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct ImpalaLossInput<'a, F> {
    /// `T`.
    pub steps: usize,
    /// `B`.
    pub columns: usize,
    /// Log-probability of the action under the behaviour policy.
    pub behaviour_logp: &'a [F],
    /// Log-probability of the action under the current policy.
    pub logp: &'a [F],
    /// Entropy of the current action distribution.
    pub entropy: &'a [F],
    /// Current value.
    pub values: &'a [F],
    /// The source of advantages and value targets.
    pub targets: Targets<'a, F>,
    /// `false` masks a step.
    pub mask: Option<&'a [bool]>,
}

/// Gradients of the total loss and their targets, `[steps, columns]` each. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct ImpalaGrads<F> {
    /// `d total / d logp`.
    pub logp: Vec<F>,
    /// `d total / d entropy`.
    pub entropy: Vec<F>,
    /// `d total / d values`.
    pub values: Vec<F>,
    /// Targets and advantages of the steps that were learned from, without gradient.
    pub vtrace: VtraceOutput<F>,
    buffers: TargetBuffers<F>,
}

/// The loss and its parts. Sums are over time and columns, as in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpalaLossStats {
    /// `policy_loss + vf_loss_coeff * vf_loss - entropy_coeff * entropy_sum`.
    pub total_loss: f64,
    /// `-sum(logp * advantage)`.
    pub policy_loss: f64,
    /// `0.5 * sum((V - vs)^2)`.
    pub vf_loss: f64,
    /// Sum of entropies.
    pub entropy_sum: f64,
    /// Mean entropy.
    pub entropy_mean: f64,
    /// Share of the targets' variance that the values explain, at least -1; -1 if the targets do not vary,
    /// `None` for fewer than two.
    pub vf_explained_var: Option<f64>,
    /// Mean importance ratio.
    pub mean_rho: f64,
    /// Share of steps whose ratio is above the bar on rho.
    pub rho_clipped: f64,
    /// Share of steps whose ratio is above the bar on c.
    pub c_clipped: f64,
}

/// Computes the IMPALA loss and its gradients with respect to log-probabilities, entropies and values.
///
/// ```text
/// total = -sum(logp * adv) + vf_loss_coeff * 0.5 * sum((V - vs)^2) - entropy_coeff * sum(entropy)
/// ```
///
/// `vs` and `adv` come from [`vtrace`](crate::vtrace), or are given, and carry no gradient. Scalars are
/// summed in `f64`.
///
/// # Errors
/// A slice of another shape, or no step to learn from.
pub fn impala_loss<F: Float>(
    config: &ImpalaLossConfig<F>,
    input: &ImpalaLossInput<'_, F>,
    grads: &mut ImpalaGrads<F>,
) -> Result<ImpalaLossStats, ShapeError> {
    let ImpalaLossInput { steps, columns, behaviour_logp, logp, entropy, values, mask, .. } = *input;
    ShapeError::check("entropy", entropy.len(), steps, columns)?;
    let all = steps * columns;
    let is_learned = |i: usize| mask.is_none_or(|mask| mask[i]);

    let ImpalaGrads { logp: d_logp, entropy: d_entropy, values: d_values, vtrace: targets, buffers } = grads;
    let rows = TargetRows { steps, columns, logp, behaviour_logp, values, mask };
    let learned = input.targets.compute(&config.vtrace, config.masked_steps, &rows, buffers, targets)?;
    for gradient in [&mut *d_logp, &mut *d_entropy, &mut *d_values] {
        gradient.clear();
        gradient.resize(all, F::zero());
    }
    let mut sums = Sums::default();
    for i in (0..learned).filter(|&i| is_learned(i)) {
        let advantage = targets.pg_advantages[i];
        let delta = input.values[i] - targets.vs[i];
        d_logp[i] = -advantage;
        d_entropy[i] = -config.entropy_coeff;
        d_values[i] = config.vf_loss_coeff * delta;
        let logp_advantage = input.logp[i] * advantage;
        sums.add(config, logp_advantage, delta, input.entropy[i], targets.rhos[i]);
    }
    let counts = |i: usize| config.masked_steps == MaskedSteps::Recurse || is_learned(i);
    let explained = explained_variance(&targets.vs, &input.values[..learned], counts);
    sums.stats(config, explained)
}

/// Running sums over the steps that are learned from.
#[derive(Default)]
struct Sums {
    steps: u64,
    logp_advantage: f64,
    delta_squared: f64,
    entropy: f64,
    rho: f64,
    rho_clipped: u64,
    c_clipped: u64,
}

impl Sums {
    fn add<F: Float>(&mut self, config: &ImpalaLossConfig<F>, logp_advantage: F, delta: F, entropy: F, rho: F) {
        let delta = to_f64(delta);
        let above = |bar: Option<F>| u64::from(bar.is_some_and(|bar| rho > bar));
        self.steps += 1;
        self.logp_advantage += to_f64(logp_advantage);
        self.delta_squared += delta * delta;
        self.entropy += to_f64(entropy);
        // The loss clips a ratio that overflowed; it must not spoil the mean either.
        self.rho += to_f64(rho.min(F::max_value()));
        self.rho_clipped += above(config.vtrace.clip_rho);
        self.c_clipped += above(config.vtrace.clip_c);
    }

    fn stats<F: Float>(
        self,
        config: &ImpalaLossConfig<F>,
        vf_explained_var: Option<f64>,
    ) -> Result<ImpalaLossStats, ShapeError> {
        if self.steps == 0 {
            return Err(nothing_to_learn_from());
        }
        let steps = self.steps as f64;
        let policy_loss = -self.logp_advantage;
        let vf_loss = 0.5 * self.delta_squared;
        let bonus = to_f64(config.entropy_coeff) * self.entropy;
        Ok(ImpalaLossStats {
            total_loss: policy_loss + to_f64(config.vf_loss_coeff) * vf_loss - bonus,
            policy_loss,
            vf_loss,
            entropy_sum: self.entropy,
            entropy_mean: self.entropy / steps,
            vf_explained_var,
            mean_rho: self.rho / steps,
            rho_clipped: self.rho_clipped as f64 / steps,
            c_clipped: self.c_clipped as f64 / steps,
        })
    }
}
