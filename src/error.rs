//! [`TrainError`]: why a run could not start, or failed.

use std::error::Error;
use std::fmt;

use pronk_buffer::{LoaderError, LoaderFailure, NextError};
use pronk_hosts::{ExpectedError, OpenError};
use pronk_learner::{LearnError, LearnerFailure, LearnerFailureCause, LearnerLoopError};
use pronk_metrics::{PolicyId, ReportError};
use pronk_policy::PolicyError;
use pronk_rollout::{EnvFailure, StartError, WorkerFailure};

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;
use crate::record::RecordError;
use crate::resume::ResumeError;

/// Why a run could not start, or failed, with the name of the thread if one did. [`FailedRun`](crate::FailedRun) adds the
/// outcome of the run.
///
/// The text contains the whole cause; [`source`](Error::source) continues below it.
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
    /// An invalid setting.
    Config(ConfigError),
    /// The environment could not be made, or its spaces not read.
    Env(Box<EnvFailure>),
    /// No network or action distribution fits the environment's spaces.
    Policy(Box<PolicyError>),
    /// Your own network could not be made, or does not fit.
    Network(Box<PolicyError>),
    /// The learner could not be built.
    Learn(Box<LearnError>),
    /// The rollout workers could not be started.
    Start(Box<StartError>),
    /// Rollout workers gave up, in this order: all of them, or one because the restart budget was spent.
    Workers(Vec<WorkerFailure>),
    /// Workers on other machines cannot be listened to.
    Hosts(Box<HostsError>),
    /// The learner failed.
    Learner(Box<LearnerFailure>),
    /// The threads that load stacks could not be started.
    StartLoaders(Box<LoaderError>),
    /// A thread that loads stacks failed.
    Loader(Box<LoaderFailure>),
    /// A checkpoint does not fit, or could not be read.
    Checkpoint(Box<CheckpointError>),
    /// The run could not be resumed.
    Resume(Box<ResumeError>),
    /// A record could not be written or read, or is not of this run.
    Record(Box<RecordError>),
    /// No episode was completed, because environments failed again and again.
    NoEpisode {
        /// How often environments failed.
        failures: u64,
        /// The newest failure, in one line.
        newest: String,
    },
    /// A reporter or log folder could not be set up.
    Report(Box<ReportError>),
    /// An error of one of several policies.
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// Why.
        cause: Box<TrainError>,
    },
    /// The run had ended before.
    Ended {
        /// The failure that ended it, if one did.
        failure: Option<String>,
    },
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Env(failure) => write!(f, "the environment could not be made: {failure}"),
            Self::Policy(error) => write!(f, "no policy fits the environment: {error}"),
            Self::Network(error) => write!(f, "your own network cannot be used: {error}"),
            Self::Learn(error) => write!(f, "the learner could not be built: {error}"),
            Self::Start(error) => write!(f, "the run could not start: {error}"),
            Self::Workers(failures) => {
                let causes: Vec<_> = failures.iter().map(ToString::to_string).collect();
                write!(f, "the run ended: {}", causes.join("; and "))
            }
            Self::Hosts(error) => write!(f, "workers on other machines: {error}"),
            Self::Learner(failure) => write!(f, "the run ended: {failure}"),
            Self::StartLoaders(error) => write!(f, "the run could not start: {error}"),
            Self::Loader(failure) => write!(f, "the run ended: {failure}"),
            Self::Checkpoint(error) => error.fmt(f),
            Self::Resume(error) => error.fmt(f),
            Self::Record(error) => error.fmt(f),
            Self::NoEpisode { failures: 1, newest } => {
                write!(f, "no episode was completed, because an environment failed: {newest}")
            }
            Self::NoEpisode { failures, newest } => write!(
                f,
                "no episode was completed, because environments failed {failures} times; the newest failure: {newest}"
            ),
            Self::Report(error) => error.fmt(f),
            Self::OfPolicy { policy, cause } => write!(f, "policy '{policy}': {cause}"),
            Self::Ended { failure } => {
                f.write_str("the run has ended; build another trainer to continue")?;
                failure.iter().try_for_each(|failure| write!(f, ". It failed: {failure}"))
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
            Self::Hosts(error) => error.source(),
            Self::Learner(failure) => failure.source(),
            Self::StartLoaders(error) => error.source(),
            Self::Loader(failure) => failure.source(),
            Self::Checkpoint(error) => error.source(),
            Self::Resume(error) => error.source(),
            Self::Record(error) => error.source(),
            Self::Report(error) => error.source(),
            Self::OfPolicy { cause, .. } => cause.source(),
            Self::NoEpisode { .. } | Self::Ended { .. } => None,
        }
    }
}

impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

// Boxed, so that `Result`s stay small.
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
    HostsError => Hosts,
    LoaderError => StartLoaders,
    LoaderFailure => Loader,
    CheckpointError => Checkpoint,
    ResumeError => Resume,
    RecordError => Record,
    ReportError => Report,
);

impl From<WorkerFailure> for TrainError {
    fn from(failure: WorkerFailure) -> Self {
        Self::Workers(vec![failure])
    }
}

impl From<LearnerFailure> for TrainError {
    /// If a loader failed, the learner's failure is only its consequence.
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
    /// An error of one of several policies.
    pub(crate) fn of_policy(policy: &PolicyId, cause: TrainError) -> Self {
        Self::OfPolicy { policy: policy.clone(), cause: Box::new(cause) }
    }

    /// The thread that failed, if one did.
    pub fn thread(&self) -> Option<&str> {
        match self {
            Self::Workers(failures) => failures.first().map(|failure| failure.thread.as_str()),
            Self::Learner(failure) => Some(&failure.thread),
            Self::Loader(failure) => Some(&failure.thread),
            _ => None,
        }
    }
}

/// Why workers on other machines cannot be listened to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostsError {
    /// The listening end cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What their fragments look like cannot be said.
    #[error(transparent)]
    Expected(#[from] ExpectedError),
    /// The settings cannot be sent.
    #[error("the settings cannot be sent: {0}")]
    Config(#[from] serde_json::Error),
}
