use pronk_buffer::{BatchError, ShutdownToken};
use pronk_policy::PolicyError;

use super::seat_state::SavedMaker;
use crate::act::{MappingError, PolicyBuildError, PolicyFault};
use crate::env::EnvFailure;

/// Why a worker could not be built.
///
/// ```
/// use pronk_rollout::BuildError;
///
/// let error = BuildError::Panic { what: "the network factory", text: "no device".into() };
/// assert_eq!(error.to_string(), "the network factory panicked: no device");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An environment could not be built.
    #[error(transparent)]
    Environment(#[from] EnvFailure),
    /// A policy could not be built.
    #[error(transparent)]
    Policy(#[from] PolicyBuildError),
    /// The saved state of the worker is that of another kind of worker, or does not fit its batches.
    #[error(
        "the saved state of the worker cannot be continued: {reason}; resume with the settings that it was saved with"
    )]
    State {
        /// Why.
        reason: String,
    },
    /// Code outside an environment panicked.
    #[error("{what} panicked: {text}")]
    Panic {
        /// What panicked.
        what: &'static str,
        /// Its message.
        text: String,
    },
    /// An agent is mapped to a policy that it cannot play.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// Every policy is frozen.
    #[error(
        "all {frozen} policies are frozen, so no fragment would ever be made: leave at least one without frozen weights"
    )]
    NothingTrained {
        /// How many policies there are.
        frozen: usize,
    },
    /// The environments cannot be split into groups of one size.
    #[error(
        "num_envs_per_worker = {num_envs_per_worker} cannot be split into num_env_groups = {num_env_groups} groups of one \
         size; make it a multiple"
    )]
    UnequalGroups {
        /// Environments of the worker.
        num_envs_per_worker: usize,
        /// Requested groups.
        num_env_groups: usize,
    },
    /// Environments that are tasks cannot be grouped.
    #[error(
        "num_env_groups = {num_env_groups}: environments that are tasks each form a group of their own; leave it at 1 and \
         set `gather` to the number of them to wait for"
    )]
    GroupsOfTasks {
        /// Requested groups.
        num_env_groups: usize,
    },
}

impl From<PolicyError> for BuildError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error.into())
    }
}

impl From<BatchError> for BuildError {
    fn from(error: BatchError) -> Self {
        Self::Policy(error.into())
    }
}

/// Why a worker made no fragment.
///
/// ```
/// use pronk_rollout::SampleError;
///
/// assert_eq!(SampleError::Closed.to_string(), "the run is ending");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The run is ending.
    #[error("the run is ending")]
    Closed,
    /// An environment failed; the next fragment begins with rebuilt ones.
    #[error(transparent)]
    Environment(#[from] EnvFailure),
    /// Every environment has failed. The next call resumes the partial fragment.
    #[error("all environments have failed")]
    AllFailed,
    /// The policy could not act.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
    /// The vector environment wrote an invalid batch.
    #[error("the vector environment broke its rules: {0}")]
    Batch(#[from] BatchError),
}

impl SampleError {
    /// When the run ends, so does the inference thread: no failure.
    pub(crate) fn unless_the_run_ends(self, token: &ShutdownToken) -> Self {
        match self {
            SampleError::Policy(fault) if fault.is_the_end_of_inference() && token.is_shut_down() => {
                SampleError::Closed
            }
            error => error,
        }
    }

    /// The cause under which steps are booked as lost; `None` when nothing failed.
    pub(crate) fn cause_key(&self) -> Option<&'static str> {
        match self {
            SampleError::Closed | SampleError::AllFailed => None,
            SampleError::Environment(failure) => Some(failure.cause.key()),
            SampleError::Policy(_) => Some("policy_error"),
            SampleError::Batch(_) => Some("broken_batch"),
        }
    }
}

impl BuildError {
    /// A saved state of another kind of worker.
    pub(super) fn other_maker(saved: &SavedMaker) -> Self {
        Self::State { reason: format!("it is one of {}, and this worker has others", saved.name()) }
    }
}
