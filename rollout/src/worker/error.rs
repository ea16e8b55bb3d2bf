use pronk_buffer::{BatchError, ShutdownToken};
use pronk_policy::PolicyError;

use crate::act::{MappingError, PolicyBuildError, PolicyFault};
use crate::env::EnvFailure;

/// Why a worker could not be made.
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
    /// An environment could not be made.
    #[error(transparent)]
    Environment(#[from] EnvFailure),
    /// A policy could not be made.
    #[error(transparent)]
    Policy(#[from] PolicyBuildError),
    /// Something else than an environment panicked.
    #[error("{what} panicked: {text}")]
    Panic {
        /// What panicked.
        what: &'static str,
        /// Its message.
        text: String,
    },
    /// An agent is given a policy that it cannot play.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// No policy is to be trained.
    #[error(
        "all {frozen} policies are frozen, so there would be no fragment: leave one of them without weights of its own"
    )]
    NothingTrained {
        /// How many policies there are.
        frozen: usize,
    },
    /// The environments cannot be shared out evenly.
    #[error(
        "num_envs_per_worker = {num_envs_per_worker} environments do not make num_env_groups = {num_env_groups} groups of one \
         size; make it a multiple"
    )]
    UnequalGroups {
        /// How many environments there are.
        num_envs_per_worker: usize,
        /// How many groups they are to make.
        num_env_groups: usize,
    },
    /// Environments that are tasks cannot be shared out to groups.
    #[error(
        "num_env_groups = {num_env_groups}: environments that are tasks are each a group by themselves; leave it at 1, and say \
         by `gather` for how many of them to wait"
    )]
    GroupsOfTasks {
        /// How many groups they were to make.
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

/// Why there is no fragment.
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
    /// An environment failed; the next fragment begins with new ones.
    #[error(transparent)]
    Environment(#[from] EnvFailure),
    /// There is no fragment yet, and nobody who could go on with it: every environment has failed. The next call tries again
    /// with what there is of the fragment.
    #[error("all environments have failed")]
    AllFailed,
    /// The policy could not act.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
    /// The vector environment wrote something that cannot be.
    #[error("the vector environment broke its rules: {0}")]
    Batch(#[from] BatchError),
}

impl SampleError {
    /// The inference thread ends with the run, which fails nobody.
    pub(crate) fn unless_the_run_ends(self, token: &ShutdownToken) -> Self {
        match self {
            SampleError::Policy(fault) if fault.is_the_end_of_inference() && token.is_shut_down() => {
                SampleError::Closed
            }
            error => error,
        }
    }

    /// The short name under which steps are lost by this; `None` when nothing failed.
    pub(crate) fn cause_key(&self) -> Option<&'static str> {
        match self {
            SampleError::Closed | SampleError::AllFailed => None,
            SampleError::Environment(failure) => Some(failure.cause.key()),
            SampleError::Policy(_) => Some("policy_error"),
            SampleError::Batch(_) => Some("broken_batch"),
        }
    }
}
