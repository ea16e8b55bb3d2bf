//! V-trace: off-policy corrected value targets and policy-gradient advantages.

mod ends;
#[cfg(test)]
mod tests;

use num_traits::Float;

pub use ends::EpisodeEnds;

use crate::ShapeError;

/// What the policy gradient of step `t` bootstraps from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PgBootstrap {
    /// `vs[t+1]`: the paper, scalable_agent and RLlib.
    #[default]
    Target,
    /// `lambda * vs[t+1] + (1 - lambda) * V[t+1]`: rlax. The same when lambda is 1.
    LambdaMix,
}

/// Settings of V-trace, with the defaults of the IMPALA paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VtraceConfig<F> {
    /// Bar on the ratio in the temporal differences; it decides which policy's value is learned. `None` for
    /// no bar.
    pub clip_rho: Option<F>,
    /// Bar on the ratio in the policy gradient.
    pub clip_pg_rho: Option<F>,
    /// Bar on the trace weight `c`; it decides how fast, not where, the values converge.
    pub clip_c: Option<F>,
    /// Multiplies `c`: 1 is plain V-trace, 0 one-step targets.
    pub lambda: F,
    /// Share of the clipped ratio in a mix with the raw one; below 1 this is "leaky V-trace".
    pub alpha: F,
    /// What the policy gradient bootstraps from.
    pub pg_bootstrap: PgBootstrap,
}

impl<F: Float> Default for VtraceConfig<F> {
    fn default() -> Self {
        VtraceConfig {
            clip_rho: Some(F::one()),
            clip_pg_rho: Some(F::one()),
            clip_c: Some(F::one()),
            lambda: F::one(),
            alpha: F::one(),
            pg_bootstrap: PgBootstrap::Target,
        }
    }
}

impl<F: Float> VtraceConfig<F> {
    /// Weight of a temporal difference with importance ratio `ratio`.
    pub fn rho(&self, ratio: F) -> F {
        clip(ratio, self.clip_rho, self.alpha)
    }

    /// Weight of a policy-gradient term with importance ratio `ratio`.
    pub fn pg_rho(&self, ratio: F) -> F {
        clip(ratio, self.clip_pg_rho, self.alpha)
    }

    /// Trace weight: the share of the next step's error that enters a step with importance ratio `ratio`.
    pub fn c(&self, ratio: F) -> F {
        self.lambda * clip(ratio, self.clip_c, self.alpha)
    }
}

fn clip<F: Float>(ratio: F, bar: Option<F>, alpha: F) -> F {
    let clipped = match bar {
        Some(bar) => ratio.min(bar),
        None => ratio,
    };
    // The branch keeps an infinite ratio from becoming 0 * infinity.
    if alpha == F::one() { clipped } else { alpha * clipped + (F::one() - alpha) * ratio }
}

/// The inputs of V-trace: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy, Debug)]
pub struct VtraceInput<'a, F> {
    /// `T`.
    pub steps: usize,
    /// `B`: independent trajectories side by side.
    pub columns: usize,
    /// `log pi(a|x) - log mu(a|x)`, `[T, B]`.
    pub log_rhos: &'a [F],
    /// `gamma`, and 0 where the episode ended, `[T, B]`.
    pub discounts: &'a [F],
    /// `[T, B]`.
    pub rewards: &'a [F],
    /// `V(x_t)`, `[T, B]`.
    pub values: &'a [F],
    /// `V(x_T)`, after the last step, `[B]`.
    pub bootstrap: &'a [F],
    /// `[T, B]`. `false` skips a step: it passes the error of the next step on unchanged.
    pub mask: Option<&'a [bool]>,
}

/// The outputs of V-trace, `[steps, columns]` each. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct VtraceOutput<F> {
    /// Importance ratios, not clipped.
    pub rhos: Vec<F>,
    /// Value targets.
    pub vs: Vec<F>,
    /// Advantages, including their clipped ratio.
    pub pg_advantages: Vec<F>,
}

/// Computes V-trace targets and advantages, which carry no gradient.
///
/// With `rho = exp(log_rho)` and bars as in [`VtraceConfig`]:
///
/// ```text
/// delta[t] = rho_clipped[t] * (r[t] + discount[t] * V[t+1] - V[t])        V[T] = bootstrap
/// a[t]     = delta[t] + discount[t] * c[t] * a[t+1]                       a[T] = 0
/// vs[t]    = V[t] + a[t]
/// adv[t]   = rho_pg[t] * (r[t] + discount[t] * vs[t+1] - V[t])            vs[T] = bootstrap
/// ```
///
/// # Errors
/// A slice of another shape.
///
/// # Example
/// On the policy's own data the target is the discounted return:
/// ```
/// use pronk_learner::{VtraceConfig, VtraceInput, VtraceOutput, vtrace};
///
/// let input = VtraceInput {
///     steps: 2,
///     columns: 1,
///     log_rhos: &[0.0, 0.0],
///     discounts: &[0.5, 0.5],
///     rewards: &[1.0, 2.0],
///     values: &[7.0, -3.0],
///     bootstrap: &[4.0],
///     mask: None,
/// };
/// let mut output = VtraceOutput::default();
/// vtrace(&VtraceConfig::default(), &input, &mut output)?;
/// assert_eq!(output.vs, [1.0 + 0.5 * (2.0 + 0.5 * 4.0), 2.0 + 0.5 * 4.0]);
/// # Ok::<(), pronk_learner::ShapeError>(())
/// ```
///
/// # Source
/// IMPALA, Espeholt et al. 2018, section 4.1; leaky mix, mask and `LambdaMix` as in rlax.
pub fn vtrace<F: Float>(
    config: &VtraceConfig<F>,
    input: &VtraceInput<'_, F>,
    output: &mut VtraceOutput<F>,
) -> Result<(), ShapeError> {
    check_shapes(input)?;
    let VtraceOutput { rhos, vs, pg_advantages } = output;
    rhos.clear();
    rhos.extend(input.log_rhos.iter().map(|log_rho| log_rho.exp()));
    resize(vs, rhos.len());
    resize(pg_advantages, rhos.len());

    backward_errors(config, input, rhos, vs);
    for (target, &value) in vs.iter_mut().zip(input.values) {
        *target = *target + value;
    }
    advantages(config, input, rhos, vs, pg_advantages);
    Ok(())
}

fn check_shapes<F>(input: &VtraceInput<'_, F>) -> Result<(), ShapeError> {
    let (steps, columns) = (input.steps, input.columns);
    ShapeError::check("log_rhos", input.log_rhos.len(), steps, columns)?;
    ShapeError::check("discounts", input.discounts.len(), steps, columns)?;
    ShapeError::check("rewards", input.rewards.len(), steps, columns)?;
    ShapeError::check("values", input.values.len(), steps, columns)?;
    ShapeError::check("bootstrap", input.bootstrap.len(), 1, columns)?;
    match input.mask {
        Some(mask) => ShapeError::check("mask", mask.len(), steps, columns),
        None => Ok(()),
    }
}

fn resize<F: Float>(buffer: &mut Vec<F>, len: usize) {
    buffer.resize(len, F::zero());
}

/// Writes `vs - V` into `errors`, from the last step to the first. The columns of a row are independent, so
/// the loops over them vectorise.
fn backward_errors<F: Float>(config: &VtraceConfig<F>, input: &VtraceInput<'_, F>, rhos: &[F], errors: &mut [F]) {
    let columns = input.columns;
    for t in (0..input.steps).rev() {
        let row = t * columns..(t + 1) * columns;
        let (before, after) = errors.split_at_mut(row.end);
        let errors_t = &mut before[row.start..];
        let errors_tp1 = after.get(..columns);
        let values_tp1 = row_after(input.values, input.bootstrap, row.end);
        let (rhos_t, rewards_t) = (&rhos[row.clone()], &input.rewards[row.clone()]);
        let (discounts_t, values_t) = (&input.discounts[row.clone()], &input.values[row.clone()]);

        for b in 0..columns {
            errors_t[b] = config.rho(rhos_t[b]) * (rewards_t[b] + discounts_t[b] * values_tp1[b] - values_t[b]);
        }
        if let Some(errors_tp1) = errors_tp1 {
            for b in 0..columns {
                errors_t[b] = errors_t[b] + discounts_t[b] * config.c(rhos_t[b]) * errors_tp1[b];
            }
        }
        if let Some(mask) = input.mask {
            for (b, &there) in mask[row].iter().enumerate() {
                if !there {
                    errors_t[b] = errors_tp1.map_or(F::zero(), |errors_tp1| errors_tp1[b]);
                }
            }
        }
    }
}

fn advantages<F: Float>(
    config: &VtraceConfig<F>,
    input: &VtraceInput<'_, F>,
    rhos: &[F],
    vs: &[F],
    pg_advantages: &mut [F],
) {
    let columns = input.columns;
    let target_share = match config.pg_bootstrap {
        PgBootstrap::Target => F::one(),
        PgBootstrap::LambdaMix => config.lambda,
    };
    for t in 0..input.steps {
        let row = t * columns..(t + 1) * columns;
        let vs_tp1 = row_after(vs, input.bootstrap, row.end);
        let values_tp1 = row_after(input.values, input.bootstrap, row.end);
        let (rhos_t, rewards_t) = (&rhos[row.clone()], &input.rewards[row.clone()]);
        let (discounts_t, values_t) = (&input.discounts[row.clone()], &input.values[row.clone()]);
        let advantages_t = &mut pg_advantages[row];

        for b in 0..columns {
            let next = target_share * vs_tp1[b] + (F::one() - target_share) * values_tp1[b];
            advantages_t[b] = config.pg_rho(rhos_t[b]) * (rewards_t[b] + discounts_t[b] * next - values_t[b]);
        }
    }
}

/// The row that starts at `start`, or the bootstrap row after the last one.
pub(crate) fn row_after<'a, F>(rows: &'a [F], bootstrap: &'a [F], start: usize) -> &'a [F] {
    rows.get(start..start + bootstrap.len()).unwrap_or(bootstrap)
}
