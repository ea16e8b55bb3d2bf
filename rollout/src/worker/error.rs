use std::sync::Arc;

use pronk_buffer::{BatchError, Tether};
use pronk_metrics::PolicyId;
use pronk_policy::{NetworkShape, PolicyError, Space};

use crate::failure::EnvFailure;
use crate::multi_agent::MappingError;

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
    /// The network or the action distribution could not be made.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Something else than an environment panicked.
    #[error("{what} panicked: {text}")]
    Panic {
        /// What panicked.
        what: &'static str,
        /// Its message.
        text: String,
    },
    /// The network reads other observations or describes other actions than it is to.
    #[error(
        "the network does not fit {whose}: it reads {} and puts out {} numbers, but the observations are {observation} \
         and the actions {action} need {}; make it with NetworkSpec::for_spaces",
        network.obs, network.dist_len, action.dist_len()
    )]
    NetworkDoesNotFit {
        /// The environment, or the policy.
        whose: String,
        /// Its observations.
        observation: Box<Space>,
        /// Its actions.
        action: Box<Space>,
        /// The network.
        network: Box<NetworkShape>,
    },
    /// An agent is given a policy that it cannot play.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// A policy of several agents cannot act.
    #[error("policy `{policy}`: {source}")]
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// Why.
        source: Box<BuildError>,
    },
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
    /// No fragment can have this shape.
    #[error(transparent)]
    Shape(#[from] BatchError),
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
    Batch(BatchError),
}

impl SampleError {
    /// The inference thread ends with the run, which fails nobody.
    pub(crate) fn unless_the_run_ends(self, tether: &Tether) -> Self {
        match self {
            SampleError::Policy(fault) if fault.is_the_end_of_inference() && tether.is_cut() => SampleError::Closed,
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

/// Why the policy could not act.
///
/// ```
/// use pronk_rollout::PolicyFault;
///
/// let fault = PolicyFault::NonFinite { what: "logits", row: 2, value: f32::NAN, version: 17 };
/// assert_eq!(fault.to_string(), "version 17 of the weights gives NaN logits for environment 2");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// The network failed.
    #[error("the network failed with version {version} of the weights")]
    Network {
        /// The version of the weights.
        version: u64,
        /// What it said.
        source: PolicyError,
    },
    /// The thread that computes for all workers failed.
    #[error("on the inference thread: {fault}")]
    Shared {
        /// What it said to everybody in the batch.
        fault: Arc<PolicyFault>,
    },
    /// The thread that computes for all workers has ended.
    #[error("the inference thread has ended")]
    InferenceEnded,
    /// The network panicked.
    #[error("the network panicked: {text}")]
    Panic {
        /// Its message.
        text: String,
    },
    /// The weights are not those of this policy.
    #[error("version {version} of the weights holds none of policy `{policy}`")]
    NoWeights {
        /// The policy that is to act.
        policy: PolicyId,
        /// The version of the weights.
        version: u64,
    },
    /// One of several policies could not act.
    #[error("policy `{policy}`: {source}")]
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// Why.
        source: Box<PolicyFault>,
    },
    /// An agent is given a policy that it cannot play.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// No agent of the environments was asked to act with a policy that is trained.
    #[error(
        "nobody played {policies:?}, which are to be trained, in {steps} steps of every environment: map an agent to them that \
         is asked to act"
    )]
    NobodyPlays {
        /// The policies that are to be trained.
        policies: Vec<PolicyId>,
        /// Steps of each environment without one of theirs.
        steps: usize,
    },
    /// No action could be drawn.
    #[error("no action could be drawn")]
    Distribution {
        /// What the distribution said.
        source: PolicyError,
    },
    /// The network's output has another length than its spec says.
    #[error("the network put out {got} {what}, its spec says {expected}")]
    OutputLength {
        /// Logits or values.
        what: &'static str,
        /// What the spec says.
        expected: usize,
        /// What came.
        got: usize,
    },
    /// The network's output is NaN or infinite.
    #[error("version {version} of the weights gives {value} {what} for environment {row}")]
    NonFinite {
        /// Logits or values.
        what: &'static str,
        /// The environment of the worker.
        row: usize,
        /// NaN or an infinity.
        value: f32,
        /// The version of the weights.
        version: u64,
    },
}

impl PolicyFault {
    fn is_the_end_of_inference(&self) -> bool {
        match self {
            PolicyFault::InferenceEnded => true,
            PolicyFault::OfPolicy { source, .. } => source.is_the_end_of_inference(),
            _ => false,
        }
    }
}
