use std::num::NonZeroUsize;

use pronk_buffer::{Pool, ShutdownToken};
use pronk_metrics::{StepLedger, thread_states};
use pronk_policy::GaussianConfig;

use super::normalization::NormalizerConfig;
use super::seat_state::SeatState;
use crate::env::{CallMonitor, EnvFailure, EnvFailureCause, EnvSpec, FailurePlace, VectorContext};
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;

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
        /// Computing for the learner, which is behind.
        Helping = "helping",
        /// Waiting for its turn, under deterministic admission.
        Awaiting = "awaiting",
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
    /// What is normalised, by the moments that come with the weights.
    pub normalize: NormalizerConfig,
}

impl WorkerConfig {
    /// Checks that environments of this spec can be normalised.
    pub(super) fn check_normalized(&self, spec: &EnvSpec) -> Result<(), EnvFailure> {
        let Self { worker, incarnation, seed, .. } = *self;
        let context = VectorContext { worker, incarnation, seed, ..VectorContext::default() };
        let refused = |error| context.failure(Some(spec), 0, FailurePlace::Make, EnvFailureCause::Error(error));
        self.normalize.check(spec).map_err(refused)
    }
}

/// A worker's place in a run; a replacement takes the same seat.
///
/// ```
/// use pronk_rollout::{CallMonitor, WorkerSeat};
///
/// let first = WorkerSeat::first(3, CallMonitor::new());
/// let replacement = WorkerSeat { incarnation: 1, monitor: CallMonitor::new(), ..first };
/// assert_eq!(replacement.worker, 3);
/// ```
#[derive(Clone, Debug)]
pub struct WorkerSeat {
    /// The worker's number: its thread is `rollout-<worker>`; 0 is the inline worker.
    pub worker: u32,
    /// The first incarnation of its environments.
    pub incarnation: u32,
    /// Records which environment it is calling: for its [`WorkerLinks`](crate::WorkerLinks).
    pub monitor: CallMonitor,
    /// How many fragments the seat has completed: for its [`WorkerLinks`](crate::WorkerLinks).
    pub slots: Arc<AtomicU64>,
    /// Where the first worker of a resumed run continues; its replacements begin anew.
    pub resume: Option<Arc<SeatState>>,
}

impl WorkerSeat {
    /// A seat as a run begins.
    pub fn first(worker: u32, monitor: CallMonitor) -> Self {
        Self { worker, incarnation: 0, monitor, slots: Arc::default(), resume: None }
    }

    /// The seat of a saved worker.
    pub(crate) fn resumed(worker: u32, monitor: CallMonitor, saved: SeatState) -> Self {
        let (incarnation, slots) = (saved.incarnation, Arc::new(AtomicU64::new(saved.slots)));
        Self { worker, incarnation, monitor, slots, resume: Some(Arc::new(saved)) }
    }
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
    /// How many fragments the worker's seat has completed, by its predecessors too.
    pub slots: Arc<AtomicU64>,
    /// How many times the run was resumed.
    pub life: u64,
    /// Whether the run saves the positions of its environments, which keep what they need for that.
    pub saves_envs: bool,
}

impl WorkerLinks {
    /// Handles of a first worker in a first life, with a monitor that no supervisor reads.
    pub fn new(pool: Pool, steps: StepLedger, token: ShutdownToken) -> Self {
        Self { pool, steps, token, monitor: CallMonitor::new(), slots: Arc::default(), life: 0, saves_envs: false }
    }
}

/// The reason for dropping steps that were not learned from when the run ended.
pub(crate) const SHUTDOWN: &str = "shutdown";
