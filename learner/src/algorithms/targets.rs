//! Advantages and value targets.

use num_traits::Float;

use crate::{ShapeError, VtraceConfig, VtraceInput, VtraceOutput, vtrace};

/// The source of advantages and value targets, which carry no gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets<'a, F> {
    /// From V-trace. `[steps, columns]` each.
    Vtrace {
        /// Rewards with ends folded in: see [`EpisodeEnds`](crate::EpisodeEnds).
        rewards: &'a [F],
        /// Discounts, 0 at every end.
        discounts: &'a [F],
        /// What follows the last step.
        last_step: LastStep<'a, F>,
    },
    /// Given, such as those of [`gae`](crate::gae). `[steps, columns]` each.
    Given {
        /// Advantages.
        advantages: &'a [F],
        /// Value targets.
        value_targets: &'a [F],
    },
}

/// What the last step of each column bootstraps from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LastStep<'a, F> {
    /// From these values, `V(obs[T])`, `[columns]`.
    Bootstrap(&'a [F]),
    /// Its own value bootstraps the steps before, and nothing is learned from it. RLlib's
    /// `vtrace_drop_last_ts`.
    Drop,
    /// Its own value bootstraps itself: RLlib without `vtrace_drop_last_ts`. Off by one; for comparison.
    OwnValue,
}

/// How V-trace treats masked steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskedSteps {
    /// The recursion and the statistics skip them.
    #[default]
    Skip,
    /// The recursion and the explained variance include them; the loss does not. RLlib.
    Recurse,
}

/// The inputs of targets: time-major slices of `[steps, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct TargetRows<'a, F> {
    pub(crate) steps: usize,
    pub(crate) columns: usize,
    /// Log-probability of the action under the policy that is evaluated.
    pub(crate) logp: &'a [F],
    /// Log-probability of the action under the behaviour policy.
    pub(crate) behaviour_logp: &'a [F],
    pub(crate) values: &'a [F],
    pub(crate) mask: Option<&'a [bool]>,
}

/// Reused storage for targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetBuffers<F> {
    log_rhos: Vec<F>,
}

impl<F: Float> Targets<'_, F> {
    /// Fills `out` with ratios, targets and advantages. Returns the number of entries to learn from: those of
    /// all steps, or of all but the last.
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

/// The error of an empty mean.
pub(crate) fn nothing_to_learn_from() -> ShapeError {
    ShapeError {
        name: "what is left to learn from",
        shape: "at least one step, neither masked nor dropped,".to_owned(),
        expected: 1,
        got: 0,
    }
}
