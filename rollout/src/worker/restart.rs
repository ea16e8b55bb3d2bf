use std::time::Duration;

/// How often, and after which pauses, workers are restarted when their environments fail.
///
/// ```
/// use std::time::Duration;
/// use pronk_rollout::RestartPolicy;
///
/// let policy = RestartPolicy { first_backoff: Duration::from_millis(100), ..RestartPolicy::default() };
/// assert_eq!(policy.backoff(1), Duration::from_millis(100));
/// assert_eq!(policy.backoff(3), Duration::from_millis(400));
/// assert_eq!(policy.backoff(1000), policy.max_backoff);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Consecutive failures, hangs among them, without a complete fragment that a worker survives. One more
    /// ends it.
    pub num_consecutive_worker_failures_tolerance: u32,
    /// Restarts of all workers together within `restart_window`. One more fails the run.
    pub max_num_worker_restarts: u32,
    /// How long a restart counts towards that limit.
    pub restart_window: Duration,
    /// The pause before the first restart; it doubles with every consecutive failure.
    pub first_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
}

impl Default for RestartPolicy {
    /// Ten consecutive failures with pauses from 10 ms to 1 s, and 1000 restarts of all workers per minute.
    /// (RLlib: 100 without pauses, 1000 in the whole run.)
    fn default() -> Self {
        Self {
            num_consecutive_worker_failures_tolerance: 10,
            max_num_worker_restarts: 1000,
            restart_window: Duration::from_secs(60),
            first_backoff: Duration::from_millis(10),
            max_backoff: Duration::from_secs(1),
        }
    }
}

impl RestartPolicy {
    /// The pause after this many consecutive failures.
    pub fn backoff(&self, consecutive_failures: u32) -> Duration {
        let doublings = consecutive_failures.saturating_sub(1).min(31);
        self.first_backoff.saturating_mul(1 << doublings).min(self.max_backoff)
    }
}
