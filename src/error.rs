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
    Env(#[source] Box<EnvFailure>),
    /// No network or action distribution fits the environment's spaces.
    #[error("no policy fits the environment: {0}")]
    Policy(#[source] Box<PolicyError>),
    /// The learner could not be built.
    #[error("the learner could not be built: {0}")]
    Learn(#[source] Box<LearnError>),
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

// The causes are boxed, so that results which carry no error stay small.
macro_rules! boxed {
    ($($cause:ty => $variant:ident),* $(,)?) => {$(
        impl From<$cause> for TrainError {
            fn from(cause: $cause) -> Self {
                Self::$variant(Box::new(cause))
            }
        }
    )*};
}
boxed!(EnvFailure => Env, PolicyError => Policy, LearnError => Learn, LearnerFailure => Learner);

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
