//! [`TrainError`]: why a run could not start, or ended before its time.

use pronk_learner::{LearnError, LearnerFailure};
use pronk_policy::PolicyError;
use pronk_rollout::{EnvFailure, StartError, WorkerFailure};

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;

/// Why a run could not start, or ended before its time: always the first cause, with the name of its thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The environment could not be made to look at its spaces.
    #[error("the environment could not be made: {0}")]
    Env(#[from] EnvFailure),
    /// No network or action distribution fits the environment's spaces.
    #[error("no policy fits the environment: {0}")]
    Policy(#[from] PolicyError),
    /// The learner could not be built.
    #[error("the learner could not be built: {0}")]
    Learn(#[from] LearnError),
    /// The rollout workers could not be started; none runs.
    #[error("the rollout workers could not be started: {0}")]
    Start(#[from] StartError),
    /// A rollout worker gave up.
    #[error("the run ended: {0}")]
    Worker(#[from] WorkerFailure),
    /// The learner failed.
    #[error("the run ended: {0}")]
    Learner(#[source] Box<LearnerFailure>),
    /// A checkpoint could not be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The run had ended before.
    #[error("the run has ended already; build another trainer to go on")]
    Ended,
}

impl From<LearnerFailure> for TrainError {
    fn from(failure: LearnerFailure) -> Self {
        Self::Learner(Box::new(failure))
    }
}

impl TrainError {
    /// The thread that failed, where it was a thread.
    pub fn thread(&self) -> Option<&str> {
        match self {
            Self::Worker(failure) => Some(&failure.thread),
            Self::Learner(failure) => Some(&failure.thread),
            _ => None,
        }
    }
}
