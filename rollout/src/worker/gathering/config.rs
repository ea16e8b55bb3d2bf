use std::num::NonZeroUsize;
use std::time::Duration;

use crate::pool::Gather;
use crate::worker::{RestartPolicy, WorkerConfig};

/// The settings of a worker whose environments step on threads of their own, or as tasks.
#[derive(Clone, Copy, Debug)]
pub struct GatheringWorkerConfig {
    /// The settings that all workers have. The environments are split among the groups.
    pub worker: WorkerConfig,
    /// Groups of environments, each with a thread: a divisor of `num_envs_per_worker`; 1 for tasks.
    pub num_env_groups: NonZeroUsize,
    /// How many groups to wait for.
    pub gather: Gather,
    /// How long a call may take before it counts as a hang: the group's thread is replaced, a task cancelled.
    pub env_hang_timeout: Option<Duration>,
    /// The pauses after consecutive failures of a group; the other fields are the supervisor's.
    pub restart: RestartPolicy,
    /// Whether the other groups wait for one that is restarting, so that fragments do not depend on how long
    /// that takes.
    pub waits_for_restarts: bool,
}
