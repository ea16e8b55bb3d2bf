use std::time::Duration;

/// How workers whose environments fail are restarted.
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
    /// How many failures in a row, without a complete fragment between them, a worker survives. One more ends it, and the
    /// others go on. With 0 the first failure does.
    pub num_consecutive_worker_failures_tolerance: u32,
    /// How many restarts all workers together may need within `restart_window`. The worker that needs one more gives up, and
    /// the run is over.
    pub max_num_worker_restarts: u32,
    /// How long a restart counts.
    pub restart_window: Duration,
    /// The pause before the first restart; it doubles with every further failure in a row.
    pub first_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
}

impl Default for RestartPolicy {
    /// Ten failures in a row are tolerated, with pauses from 10 ms to 1 s between them. RLlib tolerates 100 and does not
    /// pause; with pauses, ten take seconds already, in which an environment that can recover has done so. All workers
    /// together may be restarted 1000 times a minute; RLlib has this figure for the whole run.
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
    /// The pause after so many failures in a row.
    pub fn backoff(&self, consecutive_failures: u32) -> Duration {
        let doublings = consecutive_failures.saturating_sub(1).min(31);
        self.first_backoff.saturating_mul(1 << doublings).min(self.max_backoff)
    }
}
