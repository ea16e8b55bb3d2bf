//! The interface of learners to the learner thread.

use std::sync::Arc;

use pronk_buffer::MultiAgentBatch;
use pronk_metrics::{ByPolicy, LearnerInfo};
use pronk_policy::{LoadedObs, ObsLoader, Params};

use crate::{LearnError, LearnerState};

/// Turns train batches into weights.
///
/// [`ActorCriticLearner`](crate::ActorCriticLearner) combines an [`Algorithm`](crate::Algorithm) with a
/// network; [`PolicyLearners`](crate::PolicyLearners) is several of them. Implement the trait for any other
/// learner.
///
/// Contract:
/// - `learn` makes one update, or one for each of its minibatches, or returns an error;
/// - a non-finite loss or gradient is an error for which [`LearnError::is_non_finite`] holds, and that update
///   changes no weights: the run quarantines the batch and continues. Updates of other minibatches or
///   policies that were made before in the pass are the error's [`updates`](LearnError::updates). Any other
///   error ends the run, which then returns the weights published last, since the learner's may be invalid;
/// - a learner with the same options that loads a saved state continues bit for bit as the saved one.
///
/// No method has a default, so that a wrapper cannot forget to forward one. A panic in `learn` ends the run
/// with the panic's text, not the process.
pub trait Learner: Send {
    /// Makes a pass over `batch`: one update or several.
    ///
    /// # Errors
    /// A batch that does not fit the learner, or a non-finite update.
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError>;

    /// The current weights of each policy that it trains.
    fn weights(&self) -> ByPolicy<&Params>;

    /// All that the next update depends on, by policy. `spare` are earlier states, or none: their storage is
    /// used again, because fresh memory takes longer to get than the state to copy.
    fn save(&self, spare: ByPolicy<LearnerState>) -> ByPolicy<LearnerState>;

    /// Resumes from `state`.
    ///
    /// # Errors
    /// A state of other policies, of another network or optimiser, or with impossible numbers.
    fn load(&mut self, state: ByPolicy<LearnerState>) -> Result<(), LearnError>;

    /// Advances the time of schedules by env-steps that were trained on for the first time.
    fn advance(&mut self, env_steps: u64);

    /// Records that the current weights were published as `version`.
    fn published(&mut self, version: u64);

    /// Loaders that copy observations to the devices of its networks, for those that have one.
    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>>;
}

/// The input of a pass: the samples, and their observations if loaded ahead.
#[derive(Clone, Copy, Debug)]
pub struct TrainBatch<'a> {
    /// The samples, on the host.
    pub samples: &'a MultiAgentBatch,
    /// The observations of each policy on its network's device; `None` if no loader copied them there.
    pub loaded: Option<&'a ByPolicy<LoadedObs>>,
}

impl<'a> From<&'a MultiAgentBatch> for TrainBatch<'a> {
    fn from(samples: &'a MultiAgentBatch) -> Self {
        Self { samples, loaded: None }
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The learner's info, per policy.
    pub info: LearnerInfo,
    /// Updates; with several policies, the largest number of any.
    pub updates: u64,
}
