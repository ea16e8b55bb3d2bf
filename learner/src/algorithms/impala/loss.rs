//! The IMPALA loss as a pure function on slices, for any action distribution and float type.

use num_traits::Float;

use crate::{ShapeError, VtraceConfig, VtraceInput, VtraceOutput, vtrace};

/// What the last step of each column bootstraps from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LastStep<'a, F> {
    /// From these values, `V(obs[T])`, `[columns]`.
    Bootstrap(&'a [F]),
    /// It only bootstraps: all steps but the last are learned from, and the last one's value follows them. RLlib's
    /// `vtrace_drop_last_ts`.
    Drop,
    /// From its own value, as RLlib has it when `vtrace_drop_last_ts` is off: off by one, here for comparison.
    OwnValue,
}

/// What V-trace makes of steps that the mask leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskedSteps {
    /// They are not there: the recursion passes them by, and no statistic counts them.
    #[default]
    Skip,
    /// They take part in the recursion and in the explained variance, only their loss is left out: RLlib.
    Recurse,
}

/// Coefficients of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpalaLossConfig<F> {
    /// Weight of the value loss.
    pub vf_loss_coeff: F,
    /// Weight of the entropy bonus.
    pub entropy_coeff: F,
    /// Bars on the importance ratios.
    pub vtrace: VtraceConfig<F>,
    /// What becomes of masked steps.
    pub masked_steps: MaskedSteps,
}

/// What the loss reads: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct ImpalaLossInput<'a, F> {
    /// `T`.
    pub steps: usize,
    /// `B`.
    pub columns: usize,
    /// Log-probability of the action when it was sampled.
    pub behaviour_logp: &'a [F],
    /// Log-probability of the action now.
    pub logp: &'a [F],
    /// Entropy of the action distribution now.
    pub entropy: &'a [F],
    /// Value now.
    pub values: &'a [F],
    /// What follows the last step.
    pub last_step: LastStep<'a, F>,
    /// Rewards, with ends folded in (see [`EpisodeEnds`](crate::EpisodeEnds)).
    pub rewards: &'a [F],
    /// Discounts, 0 at every end.
    pub discounts: &'a [F],
    /// `false` leaves a step out.
    pub mask: Option<&'a [bool]>,
}

/// Gradients of the total loss, `[steps, columns]` each, with the targets they were computed from. A chain rule
/// through the distribution makes gradients of its inputs of the first two. Reused between calls it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct ImpalaGrads<F> {
    /// `d total / d logp`.
    pub logp: Vec<F>,
    /// `d total / d entropy`.
    pub entropy: Vec<F>,
    /// `d total / d values`.
    pub values: Vec<F>,
    /// Targets and advantages of the steps that were learned from. They carry no gradient.
    pub vtrace: VtraceOutput<F>,
    log_rhos: Vec<F>,
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
    /// Mean entropy of a step that was learned from.
    pub entropy_mean: f64,
    /// Share of the targets' variance that the values explain, not below -1; -1 when the targets do not vary, `None`
    /// for fewer than two of them.
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
/// `vs` and `adv` come from [`vtrace`] and carry no gradient. Scalars are summed in `f64`.
///
/// # Errors
/// When a slice does not have the stated shape, or dropping the last step leaves none.
pub fn impala_loss<F: Float>(
    config: &ImpalaLossConfig<F>,
    input: &ImpalaLossInput<'_, F>,
    grads: &mut ImpalaGrads<F>,
) -> Result<ImpalaLossStats, ShapeError> {
    check_shapes(input)?;
    let columns = input.columns;
    let all = input.steps * columns;
    let before_last = all.saturating_sub(columns);
    let (learned, bootstrap) = match input.last_step {
        LastStep::Bootstrap(values) => (all, values),
        LastStep::Drop => (before_last, &input.values[before_last..]),
        LastStep::OwnValue => (all, &input.values[before_last..]),
    };
    let mask = input.mask.map(|mask| &mask[..learned]);
    let is_learned = |i: usize| mask.is_none_or(|mask| mask[i]);

    let ImpalaGrads { logp: d_logp, entropy: d_entropy, values: d_values, vtrace: targets, log_rhos } = grads;
    off_policy_targets(config, input, learned, bootstrap, log_rhos, targets)?;
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
    let counts = |i: &usize| config.masked_steps == MaskedSteps::Recurse || is_learned(*i);
    let target_and_value = |i: usize| (to_f64(targets.vs[i]), to_f64(input.values[i]));
    let explained = explained_variance((0..learned).filter(counts).map(target_and_value));
    sums.stats(config, explained)
}

/// V-trace of the first `learned` entries, whole rows of all columns.
fn off_policy_targets<F: Float>(
    config: &ImpalaLossConfig<F>,
    input: &ImpalaLossInput<'_, F>,
    learned: usize,
    bootstrap: &[F],
    log_rhos: &mut Vec<F>,
    targets: &mut VtraceOutput<F>,
) -> Result<(), ShapeError> {
    let logps = input.logp[..learned].iter().zip(input.behaviour_logp);
    log_rhos.clear();
    log_rhos.extend(logps.map(|(&now, &then)| now - then));
    let vtrace_input = VtraceInput {
        steps: learned.checked_div(input.columns).unwrap_or(0),
        columns: input.columns,
        log_rhos,
        discounts: &input.discounts[..learned],
        rewards: &input.rewards[..learned],
        values: &input.values[..learned],
        bootstrap,
        mask: match config.masked_steps {
            MaskedSteps::Skip => input.mask.map(|mask| &mask[..learned]),
            MaskedSteps::Recurse => None,
        },
    };
    vtrace(&config.vtrace, &vtrace_input, targets)
}

fn check_shapes<F>(input: &ImpalaLossInput<'_, F>) -> Result<(), ShapeError> {
    let (steps, columns) = (input.steps, input.columns);
    for (name, slice) in [
        ("behaviour_logp", input.behaviour_logp),
        ("logp", input.logp),
        ("entropy", input.entropy),
        ("values", input.values),
        ("rewards", input.rewards),
        ("discounts", input.discounts),
    ] {
        ShapeError::check(name, slice.len(), steps, columns)?;
    }
    match input.mask {
        Some(mask) => ShapeError::check("mask", mask.len(), steps, columns),
        None => Ok(()),
    }
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
        // A ratio that overflowed is clipped in the loss and should not make the mean useless for ever either.
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
            return Err(ShapeError {
                name: "what is left to learn from",
                shape: "at least one step, neither masked nor dropped,".to_owned(),
                expected: 1,
                got: 0,
            });
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

/// `max(-1, 1 - var(target - value) / var(target))`, with the same number of entries in both variances.
fn explained_variance(target_and_value: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let (first_target, first_value) = target_and_value.clone().next()?;
    let count = target_and_value.clone().count() as f64;
    if count < 2.0 {
        return None;
    }
    // Taking the first entry off each makes the variance of equal numbers exactly zero.
    let shifted = target_and_value.map(|(target, value)| {
        let target = target - first_target;
        (target, target - (value - first_value))
    });
    let sum_of_squares = |number: fn((f64, f64)) -> f64| {
        let numbers = shifted.clone().map(number);
        let mean = numbers.clone().sum::<f64>() / count;
        numbers.map(|number| (number - mean).powi(2)).sum::<f64>()
    };
    let (of_targets, of_errors) = (sum_of_squares(|(target, _)| target), sum_of_squares(|(_, error)| error));
    if of_targets == 0.0 {
        return Some(-1.0);
    }
    Some((1.0 - of_errors / of_targets).max(-1.0))
}

fn to_f64<F: Float>(number: F) -> f64 {
    number.to_f64().unwrap_or(f64::NAN)
}
