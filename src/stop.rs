//! [`StopWhen`]: the limits of a run.

use std::time::Duration;

use pronk_metrics::PolicyId;
use serde::{Deserialize, Serialize};

use crate::result::TrainResult;

/// The limits of a run, which ends at the first one reached. Without any, only a signal or a failure ends it.
///
/// `env_steps` and `time` end the current iteration; the others are checked after each iteration.
///
/// # Example
/// ```
/// use pronk::StopWhen;
///
/// let stop = StopWhen { episode_return_mean: Some(475.0), env_steps: Some(5_000_000), ..StopWhen::default() };
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StopWhen {
    /// Mean episode return to reach, over at least `metrics_num_episodes_for_smoothing` episodes.
    pub episode_return_mean: Option<f64>,
    /// Mean return of a policy's agents to reach, over at least `metrics_num_episodes_for_smoothing` of their
    /// episodes: in a zero-sum game the mean over all agents says nothing.
    pub policy_return_mean: Option<(PolicyId, f64)>,
    /// Env-steps to sample: afterwards no worker starts a fragment, and the run ends when the learner has
    /// trained on the rest.
    ///
    /// At most one fragment per worker is sampled beyond the limit. With partial gathering
    /// ([`Gather::AtLeast`](crate::Gather::AtLeast) and the like) a worker may also drop up to two fragments
    /// in incomplete columns.
    pub env_steps: Option<u64>,
    /// Wall-clock time since the trainer was built; of a resumed run also that of the processes before, up to
    /// their checkpoints.
    pub time: Option<Duration>,
    /// Number of iterations.
    pub iterations: Option<u64>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A target return was reached.
    ReturnReached,
    /// The env-steps were sampled.
    EnvSteps,
    /// The time limit was reached.
    Time,
    /// The number of iterations was reached.
    Iterations,
    /// The record that the run repeats has ended.
    Replayed,
    /// Ctrl-C, or another SIGINT.
    Interrupted,
    /// SIGTERM, such as from a scheduler.
    Terminated,
    /// SIGHUP, such as from a terminal or a connection that closes.
    HungUp,
}

impl StopReason {
    /// The exit status after a signal: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP; `None` for a
    /// limit.
    pub fn signal_status(self) -> Option<u8> {
        match self {
            Self::Interrupted => Some(130),
            Self::Terminated => Some(143),
            Self::HungUp => Some(129),
            Self::ReturnReached | Self::EnvSteps | Self::Time | Self::Iterations | Self::Replayed => None,
        }
    }
}

impl StopWhen {
    /// The limit that `result` reaches, target returns first. The limit of env-steps is checked elsewhere,
    /// because it also applies between results.
    pub(crate) fn reached(&self, result: &TrainResult) -> Option<StopReason> {
        let at_least = |value: u64, limit: Option<u64>| limit.is_some_and(|limit| value >= limit);
        if self.reached_return(result) {
            Some(StopReason::ReturnReached)
        } else if self.time_is_up(result.time_total) {
            Some(StopReason::Time)
        } else if at_least(result.iteration, self.iterations) {
            Some(StopReason::Iterations)
        } else {
            None
        }
    }

    /// Whether the time limit has passed.
    pub(crate) fn time_is_up(&self, time: Duration) -> bool {
        self.time.is_some_and(|limit| time >= limit)
    }

    /// Whether there is a target return.
    pub(crate) fn has_target(&self) -> bool {
        self.episode_return_mean.is_some() || self.policy_return_mean.is_some()
    }

    fn reached_return(&self, result: &TrainResult) -> bool {
        let of_all = match (self.episode_return_mean, result.episode_return_mean) {
            (Some(target), Some(mean)) => result.enough_episodes && mean >= target,
            _ => false,
        };
        let of_policy = self.policy_return_mean.as_ref().is_some_and(|(policy, target)| {
            let returns = result.policy_returns.get(policy);
            returns.is_some_and(|returns| returns.n >= result.episodes_asked && returns.mean() >= *target)
        });
        of_all || of_policy
    }

    /// The used share of the nearest countable limit, from 0 to 1.
    pub(crate) fn progress(&self, result: &TrainResult) -> Option<f64> {
        let share = |value: f64, limit: f64| if limit > 0.0 { value / limit } else { 1.0 };
        [
            self.env_steps.map(|limit| share(result.env_steps_sampled as f64, limit as f64)),
            self.time.map(|limit| share(result.time_total.as_secs_f64(), limit.as_secs_f64())),
            self.iterations.map(|limit| share(result.iteration as f64, limit as f64)),
        ]
        .into_iter()
        .flatten()
        .reduce(f64::max)
        .map(|used| used.min(1.0))
    }
}
