//! [`SupervisionConfig`]: restarts of workers, and hangs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{seconds, seconds_or_never};

/// Restarts of failed workers, and when an environment counts as hanging. Names are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SupervisionConfig {
    /// Consecutive failures, hangs among them, without a finished fragment between them, that a worker
    /// survives; one more ends it, and the last worker ends the run. With groups or tasks, a failure is one
    /// of all of them. (RLlib: 100, without backoff.)
    pub num_consecutive_worker_failures_tolerance: u32,
    /// Restarts of all workers within `worker_restart_window`; one more ends the run. (RLlib counts the whole
    /// run.)
    pub max_num_worker_restarts: u32,
    /// The window of `max_num_worker_restarts`.
    #[serde(with = "seconds")]
    pub worker_restart_window: Duration,
    /// Backoff before a worker's first restart; it doubles with every consecutive failure.
    #[serde(with = "seconds")]
    pub worker_restart_backoff: Duration,
    /// Longest backoff.
    #[serde(with = "seconds")]
    pub worker_restart_backoff_max: Duration,
    /// How long a call of an environment may take before it counts as hanging: its thread is then abandoned
    /// and replaced, or its task cancelled. In a file, seconds or `"never"`. A worker on the trainer's thread
    /// cannot be replaced.
    #[serde(with = "seconds_or_never")]
    pub env_hang_timeout: Option<Duration>,
}

impl Default for SupervisionConfig {
    fn default() -> Self {
        Self {
            num_consecutive_worker_failures_tolerance: 10,
            max_num_worker_restarts: 1000,
            worker_restart_window: Duration::from_secs(60),
            worker_restart_backoff: Duration::from_millis(10),
            worker_restart_backoff_max: Duration::from_secs(1),
            env_hang_timeout: Some(Duration::from_secs(120)),
        }
    }
}
