use std::error::Error;
use std::{fmt, io};

use crate::worker::{AnyEnvSpec, BuildError};

/// Why a set of workers did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A worker could not be made.
    Worker {
        /// Its thread.
        thread: String,
        /// Why.
        cause: Box<BuildError>,
    },
    /// A worker's environments have other spaces than the first worker's.
    SpacesDiffer {
        /// The worker that differs.
        thread: String,
        /// The first worker.
        first_thread: String,
        /// The environments of the first worker.
        first: Box<AnyEnvSpec>,
        /// The environments of this one.
        this: Box<AnyEnvSpec>,
    },
    /// The system could not start a thread.
    Spawn {
        /// The thread.
        thread: String,
        /// The system's error.
        cause: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Worker { thread, cause } => {
                write!(f, "{thread} could not be made, so no worker was started: {cause}")
            }
            StartError::SpacesDiffer { thread, first_thread, first, this } => write!(
                f,
                "the environments of all workers must have the same spaces, but {first_thread} has {first} and {thread} has {this}"
            ),
            StartError::Spawn { thread, cause } => {
                write!(f, "the thread {thread} could not be started, so no worker runs: {cause}")
            }
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The text of the cause is part of ours, so the chain continues with the source of the cause.
        match self {
            StartError::Worker { cause, .. } => cause.source(),
            StartError::SpacesDiffer { .. } => None,
            StartError::Spawn { cause, .. } => cause.source(),
        }
    }
}
