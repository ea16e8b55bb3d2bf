//! [`SupervisionConfig`]: what becomes of workers that fail.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{seconds, seconds_or_never};

/// What becomes of workers that fail, and of environments that hang. Names are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SupervisionConfig {
    /// Failures in a row, without one finished fragment between them, that a worker survives; one more ends
    /// the worker, and the last worker the run. Where environments are in groups, or tasks, that all of them
    /// failed is one. (RLlib survives 100, without pauses between restarts.)
    pub num_consecutive_worker_failures_tolerance: u32,
    /// Restarts that all workers together may need within `worker_restart_window`; one more ends the run.
    /// (RLlib counts the whole run.)
    pub max_num_worker_restarts: u32,
    /// How long a restart counts.
    #[serde(with = "seconds")]
    pub worker_restart_window: Duration,
    /// Wait before a failed worker's first restart; it doubles with every further failure in a row.
    #[serde(with = "seconds")]
    pub worker_restart_backoff: Duration,
    /// Longest wait before a restart.
    #[serde(with = "seconds")]
    pub worker_restart_backoff_max: Duration,
    /// How long one call of an environment may take before it counts as hanging: the thread that is in it is
    /// then abandoned and another takes its place, of the worker or of the group; a task is cancelled. In a
    /// file, seconds or `"never"`. A worker that steps its environments on the trainer's own thread cannot be
    /// replaced.
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
