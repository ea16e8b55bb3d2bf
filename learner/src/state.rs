//! The state of a learner.

use std::collections::BTreeMap;

use pronk_policy::Params;

use crate::OptimizerState;

/// Weights, optimiser and counters of a learner. A learner with the same options that loads it continues bit
/// for bit as the saved one.
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
    /// The algorithm's state.
    pub algorithm: AlgorithmState,
    /// The newest publications of its weights: each version with the updates before it. Empty for a learner
    /// whose versions begin at 0.
    pub publications: Vec<(u64, u64)>,
}

/// A copy of `from`, in the storage of a value that is not needed any more.
pub(crate) fn cloned<T: Clone>(spare: Option<T>, from: &T) -> T {
    match spare {
        Some(mut spare) => {
            spare.clone_from(from);
            spare
        }
        None => from.clone(),
    }
}

/// The state of an algorithm, if it has any.
#[derive(Clone, Debug, Default)]
pub struct AlgorithmState {
    /// Numbers by name, such as an adapted coefficient.
    pub numbers: BTreeMap<String, f64>,
    /// Its target network.
    pub target: Option<TargetState>,
}

/// A target network: an earlier copy of the weights.
#[derive(Clone, Debug)]
pub struct TargetState {
    /// The copy.
    pub params: Params,
    /// Updates since it was made.
    pub age: u64,
}
