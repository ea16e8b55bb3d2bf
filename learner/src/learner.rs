//! The interface of learners to the learner thread.

use std::sync::Arc;

use pronk_buffer::MultiAgentBatch;
use pronk_metrics::{ByPolicy, LearnerInfo};
use pronk_policy::{LoadedObs, ObsLoader, Params};

use crate::{LearnError, LearnerState};

/// Turns train batches into weights.
///
/// [`ActorCriticLearner`](crate::ActorCriticLearner) is the one to use with an
/// [`Algorithm`](crate::Algorithm) and a network, and [`PolicyLearners`](crate::PolicyLearners) is several of
/// them; implement the trait directly for a learner that keeps another shape.
///
/// What an implementer promises:
/// - `learn` makes one update, or one for each of its minibatches, or returns an error;
/// - a loss or gradient that is not finite is an error for which [`LearnError::is_non_finite`] holds, and the
///   weights are as they were before that update: the batch is then quarantined and the run continues. Any
///   other error ends the run, and the weights are not published again: what such a learner holds is not
///   trusted, and those published last are handed back;
/// - `save`, then `load` into a learner made with the same options, then going on is bit for bit the same as
///   going on.
///
/// No method has a default, so that a learner wrapped around another cannot forget to pass one on.
///
/// A panic in `learn` ends the run with the panic's text; it does not bring the process down.
pub trait Learner: Send {
    /// Makes a pass over `batch`: one update or several.
    ///
    /// # Errors
    /// The batch does not fit the learner, or the update came out not finite.
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError>;

    /// The weights of each policy that it trains, as they are now.
    fn weights(&self) -> ByPolicy<&Params>;

    /// Everything the next update depends on, by policy.
    fn save(&self) -> ByPolicy<LearnerState>;

    /// Resumes from `state`.
    ///
    /// # Errors
    /// The state is of other policies, another network or optimiser, or holds numbers that none can have.
    fn load(&mut self, state: ByPolicy<LearnerState>) -> Result<(), LearnError>;

    /// Advances the time of schedules by env-steps that were trained on for the first time.
    fn advance(&mut self, env_steps: u64);

    /// Records that the current weights were published as `version`.
    fn published(&mut self, version: u64);

    /// What puts observations where the networks of its policies compute, for those that want it.
    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>>;
}

/// What a learner is shown: the samples, and where their observations were put ahead.
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
    /// What the learner has to say about it, per policy.
    pub info: LearnerInfo,
    /// Updates that it made; with several policies, of the one that made most.
    pub updates: u64,
}
