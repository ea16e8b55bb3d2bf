use std::num::NonZeroUsize;

use pronk_buffer::{Pool, ShutdownToken};
use pronk_metrics::{StepLedger, thread_states};
use pronk_policy::GaussianConfig;

use crate::env::CallMonitor;

thread_states! {
    /// What a rollout worker does.
    pub enum WorkerState {
        /// Between the making of its clock and its first fragment.
        Starting = "starting",
        /// Stepping environments.
        Stepping = "stepping",
        /// Computing actions and values.
        Inferring = "inferring",
        /// Waiting for room in the inqueue.
        Blocked = "blocked",
        /// Backing off after a failure and rebuilding the environments.
        Restarting = "restarting",
        /// Doing nothing, because nobody asks for a fragment. Only a worker without a thread can be idle.
        Idle = "idle",
    }
}

/// What one worker is to do.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// The worker's number: its thread is `rollout-<worker>`, and 0 runs on the thread of its caller.
    pub worker: u32,
    /// How often environments were made for this number before; what is random in these depends on it.
    pub incarnation: u32,
    /// The seed of the run; 0 is a seed.
    pub seed: u64,
    /// `B`: environments that the worker steps together.
    pub num_envs_per_worker: NonZeroUsize,
    /// `T`: steps of one fragment.
    pub rollout_fragment_length: NonZeroUsize,
    /// How actions that are numbers are distributed.
    pub gaussian: GaussianConfig,
}

/// What a worker shares with the rest of the run.
#[derive(Clone, Debug)]
pub struct WorkerLinks {
    /// Where the storage of fragments comes from.
    pub pool: Pool,
    /// Where the steps are counted.
    pub steps: StepLedger,
    /// Ends the worker between two steps when the run ends.
    pub token: ShutdownToken,
    /// Where the worker says what it does in its environments, and what they know of the run; one of its own.
    pub monitor: CallMonitor,
}

impl WorkerLinks {
    /// What a worker shares with a run, and a monitor that nobody else looks at.
    pub fn new(pool: Pool, steps: StepLedger, token: ShutdownToken) -> Self {
        Self { pool, steps, token, monitor: CallMonitor::new() }
    }
}

/// The reason under which steps are dropped because the run ended before they could be learned from.
pub(crate) const SHUTDOWN: &str = "shutdown";
