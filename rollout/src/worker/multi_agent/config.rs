use std::num::NonZeroUsize;

use pronk_metrics::ByPolicy;

use crate::act::{PolicyMapping, WorkerPolicy};

/// The settings of one worker for environments with several agents.
///
/// ```
/// use std::num::NonZeroUsize;
/// use pronk_metrics::ByPolicy;
/// use pronk_rollout::{MultiAgentWorkerConfig, PolicyMapping};
///
/// let config = MultiAgentWorkerConfig {
///     worker: 1,
///     incarnation: 0,
///     seed: 0,
///     num_envs_per_worker: NonZeroUsize::new(4).expect("4 > 0"),
///     rollout_fragment_length: NonZeroUsize::new(32).expect("32 > 0"),
///     policies: ByPolicy::new(), // a `WorkerPolicy` for each name that the mapping gives
///     mapping: PolicyMapping::shared("walker"),
/// };
/// # let _ = config;
/// ```
pub struct MultiAgentWorkerConfig {
    /// The worker's number: its thread is `rollout-<worker>`; 0 is the inline worker.
    pub worker: u32,
    /// How often this worker's environments were rebuilt; seeds are derived from it.
    pub incarnation: u32,
    /// The seed of the run.
    pub seed: u64,
    /// `B`: the worker's environments.
    pub num_envs_per_worker: NonZeroUsize,
    /// `T`: steps of a column, and the minimal steps of every environment in a fragment.
    pub rollout_fragment_length: NonZeroUsize,
    /// The policies, by name.
    pub policies: ByPolicy<WorkerPolicy>,
    /// Which agent plays which policy.
    pub mapping: PolicyMapping,
}
