//! The entries of the outqueue.

use pronk_buffer::Fold;
use pronk_metrics::{ByPolicy, LearnerInfo, Steps};

use crate::lag::PolicyLag;

/// One pass of the learner, or several folded together because the trainer lagged: RLlib 2.2's tuple
/// `(env_steps, agent_steps, learner_info)`, with what tells repeated passes from new data.
///
/// ```
/// use pronk_buffer::Fold;
/// use pronk_learner::{LearnerReport, PolicyLag};
///
/// let mut report = LearnerReport { env_steps: 500, agent_steps: 500, passes: 1, pass: 1, ..LearnerReport::default() };
/// report.lag = PolicyLag::of(9, [7, 8]);
/// report.fold(LearnerReport { env_steps: 500, agent_steps: 500, passes: 1, pass: 2, ..LearnerReport::default() });
/// assert_eq!((report.env_steps, report.passes, report.pass), (1000, 2, 2));
/// assert_eq!(report.lag.mean(), Some(1.5));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LearnerReport {
    /// Env-steps, counted in every pass.
    pub env_steps: u64,
    /// Agent-steps, counted in every pass.
    pub agent_steps: u64,
    /// Steps counted in the first pass over their batch only.
    pub trained_once: Steps,
    /// The learner's info, per policy; folded entries are merged leaf by leaf, weighted by the policy's rows.
    pub info: LearnerInfo,
    /// Agent-steps of each policy, counted in every pass.
    pub rows: ByPolicy<u64>,
    /// Infos replaced by later ones because their trees differ.
    pub infos_replaced: u64,
    /// The number of the newest pass over its batch, from 1.
    pub pass: u32,
    /// Passes folded into this report.
    pub passes: u64,
    /// Updates in these passes.
    pub updates: u64,
    /// Newest published version of the weights.
    pub version: u64,
    /// Policy lag of the steps in first passes.
    pub lag: PolicyLag,
}

impl Fold for LearnerReport {
    fn fold(&mut self, later: Self) {
        let earlier_info = std::mem::take(&mut self.info);
        let parts = [(earlier_info, self.rows.clone()), (later.info.clone(), later.rows.clone())];
        for (policy, rows) in later.rows {
            *self.rows.entry(policy).or_default() += rows;
        }
        self.info = LearnerInfo::merge_by_rows(parts).unwrap_or_else(|_| {
            self.infos_replaced += 1;
            later.info
        });
        self.env_steps += later.env_steps;
        self.agent_steps += later.agent_steps;
        self.trained_once += later.trained_once;
        self.infos_replaced += later.infos_replaced;
        self.pass = later.pass;
        self.passes += later.passes;
        self.updates += later.updates;
        self.version = later.version;
        self.lag.add(later.lag);
    }
}

#[cfg(test)]
mod tests {
    use pronk_metrics::{Info, default_policy};

    use super::*;

    fn report(agent_steps: u64, info: Info) -> LearnerReport {
        LearnerReport {
            env_steps: agent_steps,
            agent_steps,
            info: LearnerInfo::from_iter([(default_policy(), info)]),
            rows: ByPolicy::from([(default_policy(), agent_steps)]),
            passes: 1,
            ..LearnerReport::default()
        }
    }

    #[test]
    fn folding_one_by_one_weighs_every_pass_by_its_rows() {
        let loss = |value: f64| Info::tree([("total_loss", value)]);
        let mut folded = report(100, loss(1.0));
        folded.fold(report(300, loss(2.0)));
        folded.fold(report(400, loss(4.0)));
        assert_eq!(folded.info.number("default_policy", "total_loss"), Some(2.875));
        assert_eq!((folded.env_steps, folded.passes, folded.infos_replaced), (800, 3, 0));
    }

    #[test]
    fn each_policy_is_weighed_by_its_own_rows() {
        let report = |few: f64, rows: u64, of_other: u64| {
            let info = [("a".into(), Info::tree([("loss", few)])), ("b".into(), Info::tree([("loss", few)]))];
            let rows = ByPolicy::from([("a".into(), rows), ("b".into(), of_other)]);
            LearnerReport { agent_steps: 1000, info: info.into_iter().collect(), rows, ..LearnerReport::default() }
        };
        let mut folded = report(1.0, 10, 990);
        folded.fold(report(3.0, 990, 10));
        let loss = |policy| folded.info.number(policy, "loss").map(|loss| (loss * 100.0).round() / 100.0);
        assert_eq!((loss("a"), loss("b")), (Some(2.98), Some(1.02)));
        assert_eq!((folded.rows["a"], folded.rows["b"]), (1000, 1000));
    }

    #[test]
    fn an_info_that_cannot_be_merged_is_replaced_and_counted() {
        let mut folded = report(100, Info::tree([("kl", 1.0)]));
        folded.fold(report(100, Info::tree([("kl", Info::tree([("mean", 2.0)]))])));
        assert_eq!(folded.info.number("default_policy", "kl.mean"), Some(2.0));
        assert_eq!((folded.agent_steps, folded.infos_replaced), (200, 1));
    }
}
