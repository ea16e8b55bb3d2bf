use std::num::NonZeroUsize;

use pronk_buffer::{Pool, ShutdownToken};
use pronk_metrics::{StepLedger, thread_states};
use pronk_policy::GaussianConfig;

use crate::env::CallMonitor;

thread_states! {
    /// The state of a rollout worker.
    pub enum WorkerState {
        /// Before its first fragment.
        Starting = "starting",
        /// Stepping environments.
        Stepping = "stepping",
        /// Computing actions and values.
        Inferring = "inferring",
        /// Waiting for room in the inqueue.
        Blocked = "blocked",
        /// Backing off after a failure and rebuilding the environments.
        Restarting = "restarting",
        /// Waiting to be called. Only the inline worker, which has no thread, can be idle.
        Idle = "idle",
    }
}

/// The settings of one worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// The worker's number: its thread is `rollout-<worker>`; 0 is the inline worker.
    pub worker: u32,
    /// How often this worker's environments were rebuilt; seeds are derived from it.
    pub incarnation: u32,
    /// The seed of the run.
    pub seed: u64,
    /// `B`: the worker's environments.
    pub num_envs_per_worker: NonZeroUsize,
    /// `T`: steps of one fragment.
    pub rollout_fragment_length: NonZeroUsize,
    /// The distribution of continuous actions.
    pub gaussian: GaussianConfig,
}

/// A worker's place in a run; a replacement takes the same seat.
///
/// ```
/// use pronk_rollout::{CallMonitor, WorkerSeat};
///
/// let first = WorkerSeat { worker: 3, incarnation: 0, monitor: CallMonitor::new() };
/// # let _ = first;
/// ```
#[derive(Clone, Debug)]
pub struct WorkerSeat {
    /// The worker's number: its thread is `rollout-<worker>`; 0 is the inline worker.
    pub worker: u32,
    /// The first incarnation of its environments.
    pub incarnation: u32,
    /// Records which environment it is calling: for its [`WorkerLinks`](crate::WorkerLinks).
    pub monitor: CallMonitor,
}

/// A worker's handles on the rest of the run.
#[derive(Clone, Debug)]
pub struct WorkerLinks {
    /// Storage for fragments.
    pub pool: Pool,
    /// The ledger that counts the steps.
    pub steps: StepLedger,
    /// Stops the worker between two steps when the run ends.
    pub token: ShutdownToken,
    /// Records which environment the worker is calling; each worker has its own.
    pub monitor: CallMonitor,
}

impl WorkerLinks {
    /// Handles with a monitor that no supervisor reads.
    pub fn new(pool: Pool, steps: StepLedger, token: ShutdownToken) -> Self {
        Self { pool, steps, token, monitor: CallMonitor::new() }
    }
}

/// The reason for dropping steps that were not learned from when the run ended.
pub(crate) const SHUTDOWN: &str = "shutdown";
