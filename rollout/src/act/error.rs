use std::sync::Arc;

use pronk_buffer::BatchError;
use pronk_metrics::PolicyId;
use pronk_policy::{NetworkShape, PolicyError, Space};

use super::mapping::MappingError;

/// Why a policy could not be made.
///
/// ```
/// use pronk_policy::PolicyError;
/// use pronk_rollout::PolicyBuildError;
///
/// let source = PolicyBuildError::from(PolicyError::BadSpec { reason: "no weights".into() });
/// let error = PolicyBuildError::OfPolicy { policy: "goalkeeper".into(), source: Box::new(source) };
/// assert!(error.to_string().starts_with("policy `goalkeeper`: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyBuildError {
    /// The network or the action distribution could not be made.
    #[error(transparent)]
    Policy(#[from] PolicyError),
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
    /// A policy of several agents cannot act.
    #[error("policy `{policy}`: {source}")]
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// Why.
        source: Box<PolicyBuildError>,
    },
    /// No fragment can have this shape.
    #[error(transparent)]
    Shape(#[from] BatchError),
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
    /// What it saw or did has another element type or length than its columns.
    #[error(transparent)]
    Batch(#[from] BatchError),
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
    pub(crate) fn is_the_end_of_inference(&self) -> bool {
        match self {
            PolicyFault::InferenceEnded => true,
            PolicyFault::OfPolicy { source, .. } => source.is_the_end_of_inference(),
            _ => false,
        }
    }
}
