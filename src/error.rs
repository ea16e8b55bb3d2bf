//! [`TrainError`]: why a run could not start, or ended before its time.

use std::error::Error;
use std::fmt;

use pronk_buffer::{LoaderError, LoaderFailure, NextError};
use pronk_learner::{LearnError, LearnerFailure, LearnerFailureCause, LearnerLoopError};
use pronk_metrics::{PolicyId, ReportError};
use pronk_policy::PolicyError;
use pronk_rollout::{EnvFailure, StartError, WorkerFailure};

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;
use crate::trainer::{Run, Whole};

/// Why a run could not start, or ended before its time, with the name of the thread where it was one.
/// [`FailedRun`] is this error with what is left of the run.
///
/// The text holds the whole cause; [`source`](Error::source) goes on below it.
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::TrainError;
///
/// let mut config = TrainerConfig::default();
/// config.learner.num_sgd_iter = 0;
/// let refused = Trainer::new(config, |_: &EnvContext| CartPole::new()).err();
/// assert!(matches!(refused, Some(TrainError::Config(error)) if error.field == "num_sgd_iter"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting cannot work.
    Config(ConfigError),
    /// The environment could not be made to look at its spaces.
    Env(Box<EnvFailure>),
    /// No network or action distribution fits the environment's spaces.
    Policy(Box<PolicyError>),
    /// A network of the user's own could not be made, or does not fit.
    Network(Box<PolicyError>),
    /// The learner could not be built.
    Learn(Box<LearnError>),
    /// The rollout workers could not be started; none runs.
    Start(Box<StartError>),
    /// Rollout workers gave up, in this order: all that there were, or one of them because no restart was
    /// left.
    Workers(Vec<WorkerFailure>),
    /// The learner failed.
    Learner(Box<LearnerFailure>),
    /// The threads that load stacks could not be started.
    StartLoaders(Box<LoaderError>),
    /// A thread that loads stacks failed.
    Loader(Box<LoaderFailure>),
    /// A checkpoint does not fit, or could not be read.
    Checkpoint(Box<CheckpointError>),
    /// What the run was to be written down in, or shown to, cannot be set up.
    Report(Box<ReportError>),
    /// One of several policies cannot be part of the run.
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// Why.
        cause: Box<TrainError>,
    },
    /// The run had ended before.
    Ended {
        /// The failure that ended it, in words, if it was one.
        failure: Option<String>,
    },
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Env(failure) => write!(f, "the environment could not be made: {failure}"),
            Self::Policy(error) => write!(f, "no policy fits the environment: {error}"),
            Self::Network(error) => write!(f, "no run can begin with this network of your own: {error}"),
            Self::Learn(error) => write!(f, "the learner could not be built: {error}"),
            Self::Start(error) => write!(f, "the run could not start: {error}"),
            Self::Workers(failures) => {
                let causes: Vec<_> = failures.iter().map(ToString::to_string).collect();
                write!(f, "the run ended: {}", causes.join("; and "))
            }
            Self::Learner(failure) => write!(f, "the run ended: {failure}"),
            Self::StartLoaders(error) => write!(f, "the run could not start: {error}"),
            Self::Loader(failure) => write!(f, "the run ended: {failure}"),
            Self::Checkpoint(error) => error.fmt(f),
            Self::Report(error) => error.fmt(f),
            Self::OfPolicy { policy, cause } => write!(f, "policy '{policy}': {cause}"),
            Self::Ended { failure } => {
                f.write_str("the run has ended already; build another trainer to go on")?;
                failure.iter().try_for_each(|failure| write!(f, ". It failed before: {failure}"))
            }
        }
    }
}

impl Error for TrainError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::Env(failure) => failure.source(),
            Self::Policy(error) | Self::Network(error) => error.source(),
            Self::Learn(error) => error.source(),
            Self::Start(error) => error.source(),
            Self::Workers(failures) => failures.first().and_then(Error::source),
            Self::Learner(failure) => failure.source(),
            Self::StartLoaders(error) => error.source(),
            Self::Loader(failure) => failure.source(),
            Self::Checkpoint(error) => error.source(),
            Self::Report(error) => error.source(),
            Self::OfPolicy { cause, .. } => cause.source(),
            Self::Ended { .. } => None,
        }
    }
}

/// A run that failed: why, and all that is left of it.
///
/// The text is that of the cause, and what of the policy is whole; the cause is also the [`source`](Error::source).
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::Whole;
///
/// // A learning rate at which no update is finite, sooner or later.
/// let mut config = TrainerConfig::default();
/// config.workers.num_rollout_workers = 0;
/// config.learner.lr = 1e38;
/// let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
/// let failed = trainer.run(StopWhen::default()).expect_err("no update is finite");
/// println!("{failed}");
/// assert!(failed.run.ledger_closed());
/// if failed.run.whole != Whole::Nothing {
///     failed.run.save(tempfile::tempdir()?)?; // as after a run that ended well
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FailedRun {
    /// Why it failed.
    pub cause: TrainError,
    /// What is left of it: the last result, the ledgers, the failures, and the checkpoints of what is whole.
    pub run: Box<Run>,
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = match self.run.whole {
            Whole::Learner => "what was learned is whole and can be saved",
            Whole::PublishedWeights => "of what was learned the newest published weights are whole and can be saved",
            Whole::Nothing => "nothing that was learned is left",
        };
        write!(f, "{}; {left}, after {} env-steps", self.cause, self.run.steps.sampled.env)
    }
}

impl fmt::Debug for FailedRun {
    /// Without the run: its ledgers and weights would bury the cause wherever a program ends with this error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedRun").field("cause", &self.cause).field("whole", &self.run.whole).finish_non_exhaustive()
    }
}

impl Error for FailedRun {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// The cause alone, for programs that have no use for what is left.
impl From<FailedRun> for TrainError {
    fn from(failed: FailedRun) -> Self {
        failed.cause
    }
}

impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
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
boxed!(
    EnvFailure => Env,
    PolicyError => Policy,
    LearnError => Learn,
    StartError => Start,
    LoaderError => StartLoaders,
    LoaderFailure => Loader,
    CheckpointError => Checkpoint,
    ReportError => Report,
);

impl From<WorkerFailure> for TrainError {
    fn from(failure: WorkerFailure) -> Self {
        Self::Workers(vec![failure])
    }
}

impl From<LearnerFailure> for TrainError {
    /// A learner that ends because a loader failed is not what failed.
    fn from(LearnerFailure { thread, cause }: LearnerFailure) -> Self {
        let cause = match cause {
            LearnerFailureCause::Failed(LearnerLoopError::Source { passes, source: NextError::Failed(source) }) => {
                match source.downcast::<LoaderFailure>() {
                    Ok(failure) => return Self::Loader(failure),
                    Err(source) => LearnerFailureCause::Failed(LearnerLoopError::Source {
                        passes,
                        source: NextError::Failed(source),
                    }),
                }
            }
            cause => cause,
        };
        Self::Learner(Box::new(LearnerFailure { thread, cause }))
    }
}

impl TrainError {
    /// Why one of several policies cannot be part of the run.
    pub(crate) fn of_policy(policy: &PolicyId, cause: TrainError) -> Self {
        Self::OfPolicy { policy: policy.clone(), cause: Box::new(cause) }
    }

    /// The thread that failed, where it was a thread.
    pub fn thread(&self) -> Option<&str> {
        match self {
            Self::Workers(failures) => failures.first().map(|failure| failure.thread.as_str()),
            Self::Learner(failure) => Some(&failure.thread),
            Self::Loader(failure) => Some(&failure.thread),
            _ => None,
        }
    }
}
