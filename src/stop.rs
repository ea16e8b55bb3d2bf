//! [`StopWhen`]: when a run is over.

use std::time::Duration;

use pronk_metrics::PolicyId;

use crate::result::TrainResult;

/// When a run is over: at the first of the limits that are set. With none set, only a signal or a failure
/// ends it.
///
/// The limits of env-steps and of time end the iteration under way; the others are looked at after each
/// iteration, so a run may go past them by one.
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
    /// Mean return to reach of the agents that play a policy, over at least
    /// `metrics_num_episodes_for_smoothing` of their episodes: in a game that one wins and another loses, the
    /// mean over the agents says nothing.
    pub policy_return_mean: Option<(PolicyId, f64)>,
    /// Env-steps to sample: no worker begins a fragment once they are, and the run ends when the learner has
    /// learned from what there is.
    ///
    /// So at least as many are sampled, and at most one fragment of each worker more, which is no more than a
    /// train batch of each. Only where a worker's environments do not wait for each other
    /// ([`Gather::AtLeast`](crate::Gather::AtLeast) and the like) may it hold up to two fragments besides, in columns that are not
    /// full; they are counted as dropped.
    pub env_steps: Option<u64>,
    /// Wall-clock time since the trainer was built.
    pub time: Option<Duration>,
    /// Iterations.
    pub iterations: Option<u64>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The mean return, of the episodes or of a policy, was reached.
    ReturnReached,
    /// The env-steps were sampled.
    EnvSteps,
    /// The time was up.
    Time,
    /// The iterations were done.
    Iterations,
    /// Ctrl-C was pressed, or SIGINT came in another way.
    Interrupted,
    /// SIGTERM came: the system or a scheduler wants the process to end.
    Terminated,
}

impl StopReason {
    /// The exit status of a program that a signal ended: 130 after Ctrl-C, 143 after SIGTERM, `None` where it
    /// was a limit.
    pub fn signal_status(self) -> Option<u8> {
        match self {
            Self::Interrupted => Some(130),
            Self::Terminated => Some(143),
            Self::ReturnReached | Self::EnvSteps | Self::Time | Self::Iterations => None,
        }
    }
}

impl StopWhen {
    /// The limit that `result` reaches, a return before all others. Not that of env-steps, which is looked at
    /// between results, too.
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

    /// Whether there is a return to reach.
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

    /// How much of the nearest countable limit is used up, 0 to 1.
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
