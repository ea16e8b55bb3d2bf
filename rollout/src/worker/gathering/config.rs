use std::num::NonZeroUsize;
use std::time::Duration;

use crate::pool::Gather;
use crate::worker::{RestartPolicy, WorkerConfig};

/// What a worker is to do whose environments step on threads of their own, or are tasks.
#[derive(Clone, Copy, Debug)]
pub struct GatheringWorkerConfig {
    /// What every worker is told. Its environments are shared out among the groups.
    pub worker: WorkerConfig,
    /// Groups of environments, each with a thread: a divisor of `num_envs_per_worker`. 1 for tasks, which are a group each.
    pub num_env_groups: NonZeroUsize,
    /// For how many of them to wait.
    pub gather: Gather,
    /// How long a call of an environment may take before it counts as hanging: its group's thread is then abandoned and
    /// replaced, and a task is cancelled. `None` waits for ever.
    pub env_hang_timeout: Option<Duration>,
    /// How long a group pauses after failures in a row; the other figures are for whoever supervises the worker.
    pub restart: RestartPolicy,
}
