use std::error::Error;
use std::{fmt, io};

use crate::worker::{AnyEnvSpec, BuildError};

/// Why a set of workers did not start.
///
/// ```
/// use pronk_rollout::{BuildError, StartError};
///
/// let cause = Box::new(BuildError::Panic { what: "the network factory", text: "no device".into() });
/// let error = StartError::Worker { thread: "rollout-3".into(), cause };
/// assert_eq!(
///     error.to_string(),
///     "rollout-3 could not be made, so no worker was started: the network factory panicked: no device"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A worker could not be made.
    Worker {
        /// The thread it would have had.
        thread: String,
        /// Why.
        cause: Box<BuildError>,
    },
    /// A worker's environments have other spaces than the first worker's.
    SpacesDiffer {
        /// The worker that differs.
        thread: String,
        /// What the first worker has.
        first: Box<AnyEnvSpec>,
        /// What this one has.
        this: Box<AnyEnvSpec>,
    },
    /// The system gave no thread.
    Spawn {
        /// The thread.
        thread: String,
        /// What the system said.
        cause: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Worker { thread, cause } => {
                write!(f, "{thread} could not be made, so no worker was started: {cause}")
            }
            StartError::SpacesDiffer { thread, first, this } => write!(
                f,
                "the environments of all workers must have the same spaces, but rollout-1 has {first} and {thread} has {this}"
            ),
            StartError::Spawn { thread, cause } => {
                write!(f, "the thread {thread} could not be started, so no worker runs: {cause}")
            }
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The cause's own text is part of ours; the chain goes on below it.
        match self {
            StartError::Worker { cause, .. } => cause.source(),
            StartError::SpacesDiffer { .. } => None,
            StartError::Spawn { cause, .. } => cause.source(),
        }
    }
}
