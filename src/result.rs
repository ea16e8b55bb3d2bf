//! [`TrainResult`]: the result of one iteration.

use std::fmt;
use std::time::Duration;

use pronk_learner::PolicyLag;
use pronk_metrics::{ByPolicy, LearnerInfo, ResultDict, StepTotals, ThreadTime};
use pronk_rollout::ReturnStat;

use crate::bottleneck::Bottleneck;

/// The result of one iteration: the main figures as fields, and all of them in the result dict under RLlib's
/// keys.
///
/// `Display` prints the dict as indented JSON.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrainResult {
    /// Number of the iteration, from 1.
    pub iteration: u64,
    /// Env-steps sampled since the trainer was built.
    pub env_steps_sampled: u64,
    /// Env-steps trained since then, counted once per pass as RLlib does.
    pub env_steps_trained: u64,
    /// Env-steps trained since then, counted once.
    pub env_steps_trained_once: u64,
    /// Episodes that ended in this iteration.
    pub episodes_this_iteration: u64,
    /// Mean return of this iteration's episodes, topped up from earlier ones to
    /// `metrics_num_episodes_for_smoothing`. `None` before the first episode has ended.
    pub episode_return_mean: Option<f64>,
    /// Mean length of the same episodes, in env-steps.
    pub episode_len_mean: Option<f64>,
    /// Episodes that these means cover.
    pub episodes_covered: u64,
    /// Whether these means cover at least `metrics_num_episodes_for_smoothing` episodes.
    pub enough_episodes: bool,
    /// Returns of agents by policy, over the newest iterations with `metrics_num_episodes_for_smoothing` of
    /// them; empty for one agent.
    pub policy_returns: ByPolicy<ReturnStat>,
    /// `metrics_num_episodes_for_smoothing`.
    pub(crate) episodes_asked: u64,
    /// Time since the trainer was built.
    pub time_total: Duration,
    /// Time of this iteration.
    pub time_this_iteration: Duration,
    /// The learner's figures by policy, merged over all passes of this iteration.
    pub learner_info: LearnerInfo,
    /// The lag of the weights that sampled this iteration's train batches.
    pub policy_lag: PolicyLag,
    /// The share of this iteration's data that is worth as much as data of the policy in training, of the
    /// policy for which it is smallest; `None` if the algorithm does not report it. See
    /// [`OffPolicyStats`](pronk_learner::OffPolicyStats).
    pub effective_sample_size: Option<f64>,
    /// The bottleneck of this iteration, with advice. `None` before the learner has run.
    pub bottleneck: Option<Bottleneck>,
    /// The step ledger.
    pub steps: StepTotals,
    /// The time ledger: every thread's time since its start, a replaced thread's together with its
    /// successor's.
    pub time: Vec<ThreadTime>,
    /// All figures, as reported.
    pub dict: ResultDict,
}

impl TrainResult {
    /// Whether both ledgers close: each thread's states sum to its wall time within 0.1 %, and
    /// `sampled = trained once + dropped + in flight + lost`.
    pub fn ledger_closed(&self) -> bool {
        self.steps.is_closed() && self.time.iter().all(ThreadTime::is_closed)
    }
}

impl fmt::Display for TrainResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string_pretty(self.dict.as_json()).map_err(|_| fmt::Error)?;
        f.write_str(&json)
    }
}
