//! What a learner needs to go on exactly where another stopped.

use pronk_policy::Params;

use crate::OptimizerState;

/// Weights, optimiser and counters of a learner: everything its next update depends on.
///
/// Loaded into a learner made with the same options, that learner goes on bit for bit as the one that was saved.
#[derive(Clone, Debug)]
pub struct LearnerState {
    /// The weights.
    pub params: Params,
    /// The optimiser's vectors and step count.
    pub optimizer: OptimizerState,
    /// Updates made.
    pub updates: u64,
    /// Env-steps trained on, each counted once: the time of schedules.
    pub global_step: u64,
}
