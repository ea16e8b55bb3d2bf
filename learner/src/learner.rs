//! What the learner thread asks of whatever learns.

use pronk_buffer::MultiAgentBatch;
use pronk_metrics::LearnerInfo;
use pronk_policy::Params;

use crate::{LearnError, LearnerState};

/// Turns train batches into weights.
///
/// [`ActorCriticLearner`](crate::ActorCriticLearner) is the one to use with an [`Algorithm`](crate::Algorithm) and a
/// network; implement the trait directly for a learner that keeps another shape.
///
/// What an implementer promises:
/// - `learn` makes one update, or one for each of its minibatches, or returns an error;
/// - a loss or gradient that is not finite is an error for which [`LearnError::is_non_finite`] holds, and the weights are
///   as they were before that update: the batch is then taken out of the run and the run goes on. Any other error ends the run, and the
///   weights are not published again;
/// - `save`, then `load` into a learner made with the same options, then going on is bit for bit the same as going on.
///
/// No method has a default, so that a learner wrapped around another cannot forget to pass one on.
///
/// A panic in `learn` ends the run with the panic's text; it does not bring the process down.
pub trait Learner: Send {
    /// Makes a pass over `batch`, one update or several, and says what it found, per policy.
    ///
    /// # Errors
    /// The batch does not fit the learner, or the update came out not finite.
    fn learn(&mut self, batch: &MultiAgentBatch) -> Result<LearnerInfo, LearnError>;

    /// The weights as they are now.
    fn weights(&self) -> &Params;

    /// Everything the next update depends on.
    fn save(&self) -> LearnerState;

    /// Goes on from `state`.
    ///
    /// # Errors
    /// The state is of another network or optimiser, or holds numbers that none can have; the learner is then unchanged.
    fn load(&mut self, state: LearnerState) -> Result<(), LearnError>;

    /// Env-steps trained on so far, each counted once: the time of schedules.
    fn global_step(&self) -> u64;

    /// Sets the time of schedules. The loop calls it after the first pass over each batch.
    fn set_global_step(&mut self, env_steps: u64);

    /// Tells that the weights as they are now were published as `version`.
    fn published(&mut self, version: u64);
}
