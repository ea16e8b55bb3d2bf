use std::num::NonZeroUsize;

use pronk_metrics::ByPolicy;

use crate::act::{PolicyMapping, WorkerPolicy};

/// What one worker is to do in environments with several agents.
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
///     mapping: PolicyMapping::shared("everybody"),
/// };
/// # let _ = config;
/// ```
pub struct MultiAgentWorkerConfig {
    /// The worker's number: its thread is `rollout-<worker>`, and 0 runs on the thread of its caller.
    pub worker: u32,
    /// How often environments were made for this number before; what is random in these depends on it.
    pub incarnation: u32,
    /// The seed of the run; 0 is a seed.
    pub seed: u64,
    /// `B`: environments of the worker.
    pub num_envs_per_worker: NonZeroUsize,
    /// `T`: steps of one column, each of them an agent's own, and at least so many steps of every environment in one fragment.
    pub rollout_fragment_length: NonZeroUsize,
    /// What the policies are.
    pub policies: ByPolicy<WorkerPolicy>,
    /// Which agents play them.
    pub mapping: PolicyMapping,
}
