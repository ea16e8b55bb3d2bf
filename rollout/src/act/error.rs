use std::sync::Arc;

use pronk_buffer::BatchError;
use pronk_metrics::PolicyId;
use pronk_policy::{NetworkShape, PolicyError, Space};

use super::mapping::MappingError;

/// Why a policy could not be built.
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
    /// The network or the action distribution could not be built.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The network's observations or actions are not those of the environment.
    #[error(
        "the network does not fit {whose}: it takes {} and returns {} logits, but the observations are {observation} \
         and the actions {action} need {}; build it with NetworkSpec::for_spaces",
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
    /// One of several policies could not be built.
    #[error("policy `{policy}`: {source}")]
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// Why.
        source: Box<PolicyBuildError>,
    },
    /// A fragment cannot have this shape.
    #[error(transparent)]
    Shape(#[from] BatchError),
}

/// Why a policy could not act.
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
        /// Its error.
        source: PolicyError,
    },
    /// The moments that came with the weights are of other observations.
    #[error("version {version} of the weights came with moments of other observations")]
    Moments {
        /// The version of the weights.
        version: u64,
        /// The difference.
        source: PolicyError,
    },
    /// The inference thread failed.
    #[error("on the inference thread: {fault}")]
    Shared {
        /// The failure of the batch, shared by all its workers.
        fault: Arc<PolicyFault>,
    },
    /// The inference thread has ended.
    #[error("the inference thread has ended")]
    InferenceEnded,
    /// The network panicked.
    #[error("the network panicked: {text}")]
    Panic {
        /// Its message.
        text: String,
    },
    /// The weights do not include this policy.
    #[error("version {version} of the weights holds none of policy `{policy}`")]
    NoWeights {
        /// The policy.
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
    /// An agent is mapped to a policy that it cannot play.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// No agent acted under a trained policy.
    #[error(
        "no agent acted under the trained policies {policies:?} in {steps} steps of every environment: map an agent that \
         acts to one of them"
    )]
    NobodyPlays {
        /// The trained policies.
        policies: Vec<PolicyId>,
        /// Steps of each environment.
        steps: usize,
    },
    /// Observations or actions differ in element type or length from the columns.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// No action could be sampled.
    #[error("no action could be sampled")]
    Distribution {
        /// The distribution's error.
        source: PolicyError,
    },
    /// The network's output differs in length from its shape.
    #[error("the network returned {got} {what} instead of {expected}")]
    OutputLength {
        /// Logits, values or state.
        what: &'static str,
        /// The length by the network's shape.
        expected: usize,
        /// The length it returned.
        got: usize,
    },
    /// The network's output is NaN or infinite.
    #[error("version {version} of the weights gives {value} {what} for environment {row}")]
    NonFinite {
        /// Logits, values or state.
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
