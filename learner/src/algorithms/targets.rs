//! Where a loss takes its advantages and value targets from.

use num_traits::Float;

use crate::{ShapeError, VtraceConfig, VtraceInput, VtraceOutput, vtrace};

/// Where advantages and value targets come from. They carry no gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets<'a, F> {
    /// From V-trace. `[steps, columns]` each.
    Vtrace {
        /// Rewards, with ends folded in (see [`EpisodeEnds`](crate::EpisodeEnds)).
        rewards: &'a [F],
        /// Discounts, 0 at every end.
        discounts: &'a [F],
        /// What follows the last step.
        last_step: LastStep<'a, F>,
    },
    /// As they are, `[steps, columns]` each: those of [`gae`](crate::gae), say.
    Given {
        /// Advantages.
        advantages: &'a [F],
        /// What the values should have been.
        value_targets: &'a [F],
    },
}

/// What the last step of each column bootstraps from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LastStep<'a, F> {
    /// From these values, `V(obs[T])`, `[columns]`.
    Bootstrap(&'a [F]),
    /// It only bootstraps: all steps but the last are learned from, and the last one's value follows them.
    /// RLlib's `vtrace_drop_last_ts`.
    Drop,
    /// From its own value, as RLlib has it when `vtrace_drop_last_ts` is off: off by one, here for
    /// comparison.
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

/// A batch as the targets see it: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct TargetRows<'a, F> {
    pub(crate) steps: usize,
    pub(crate) columns: usize,
    /// Log-probability of the action under the policy whose value is wanted.
    pub(crate) logp: &'a [F],
    /// Log-probability of the action when it was sampled.
    pub(crate) behaviour_logp: &'a [F],
    pub(crate) values: &'a [F],
    pub(crate) mask: Option<&'a [bool]>,
}

/// Storage for targets, reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetBuffers<F> {
    log_rhos: Vec<F>,
}

impl<F: Float> Targets<'_, F> {
    /// Fills `out` with ratios, targets and advantages, and returns how many of the first entries are learned
    /// from: whole steps, all or all but the last.
    pub(crate) fn compute(
        &self,
        config: &VtraceConfig<F>,
        masked_steps: MaskedSteps,
        rows: &TargetRows<'_, F>,
        buffers: &mut TargetBuffers<F>,
        out: &mut VtraceOutput<F>,
    ) -> Result<usize, ShapeError> {
        self.check(rows)?;
        let all = rows.steps * rows.columns;
        let log_rhos = &mut buffers.log_rhos;
        log_rhos.clear();
        log_rhos.extend(rows.logp.iter().zip(rows.behaviour_logp).map(|(&now, &then)| now - then));
        let (rewards, discounts, last_step) = match *self {
            Self::Vtrace { rewards, discounts, last_step } => (rewards, discounts, last_step),
            Self::Given { advantages, value_targets } => {
                out.rhos.clear();
                out.rhos.extend(log_rhos.iter().map(|log_rho| log_rho.exp()));
                out.vs.clear();
                out.vs.extend_from_slice(value_targets);
                out.pg_advantages.clear();
                out.pg_advantages.extend_from_slice(advantages);
                return Ok(all);
            }
        };
        let before_last = all.saturating_sub(rows.columns);
        let (learned, bootstrap) = match last_step {
            LastStep::Bootstrap(values) => (all, values),
            LastStep::Drop => (before_last, &rows.values[before_last..]),
            LastStep::OwnValue => (all, &rows.values[before_last..]),
        };
        let input = VtraceInput {
            steps: learned.checked_div(rows.columns).unwrap_or(0),
            columns: rows.columns,
            log_rhos: &log_rhos[..learned],
            discounts: &discounts[..learned],
            rewards: &rewards[..learned],
            values: &rows.values[..learned],
            bootstrap,
            mask: match masked_steps {
                MaskedSteps::Skip => rows.mask.map(|mask| &mask[..learned]),
                MaskedSteps::Recurse => None,
            },
        };
        vtrace(config, &input, out)?;
        Ok(learned)
    }

    fn check(&self, rows: &TargetRows<'_, F>) -> Result<(), ShapeError> {
        let (steps, columns) = (rows.steps, rows.columns);
        let own = match *self {
            Self::Vtrace { rewards, discounts, .. } => [("rewards", rewards), ("discounts", discounts)],
            Self::Given { advantages, value_targets } => [("advantages", advantages), ("value_targets", value_targets)],
        };
        let shared = [("logp", rows.logp), ("behaviour_logp", rows.behaviour_logp), ("values", rows.values)];
        for (name, slice) in shared.into_iter().chain(own) {
            ShapeError::check(name, slice.len(), steps, columns)?;
        }
        rows.mask.map_or(Ok(()), |mask| ShapeError::check("mask", mask.len(), steps, columns))
    }
}

/// There is nothing to take a mean of.
pub(crate) fn nothing_to_learn_from() -> ShapeError {
    ShapeError {
        name: "what is left to learn from",
        shape: "at least one step, neither masked nor dropped,".to_owned(),
        expected: 1,
        got: 0,
    }
}
