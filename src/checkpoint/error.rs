//! Why a checkpoint could not be written or read.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use pronk_policy::PolicyError;

/// Why a checkpoint could not be written or read. Every message names the path and the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("checkpoint: cannot {doing} {}: {cause}", path.display())]
    Io {
        /// The action.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file differs from its entry in the manifest: truncated, overwritten or damaged.
    #[error(
        "checkpoint: {} is damaged: {reason}; take another copy of the folder, or train again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// The manifest is of another version of the format, or of the state of a run.
    #[error(
        "checkpoint: {} has version {found} of {what} and this pronk reads up to version {known}; read it with the \
         version of pronk that wrote it",
        path.display()
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// The format, or the state of a run.
        what: &'static str,
        /// Its version.
        found: u32,
        /// The newest version this library reads.
        known: u32,
    },
    /// Another save into the folder is under way, in this process or another.
    #[error(
        "checkpoint: another save into {} is under way; save again later, or give each run a folder of its own",
        path.display()
    )]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The content is not a valid checkpoint.
    #[error("checkpoint: {} cannot be used: {cause}", path.display())]
    Unusable {
        /// The file, or the folder when it was being written.
        path: PathBuf,
        /// Why.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// It does not fit the run.
    #[error(
        "checkpoint: its {what} is not that of the run; resume with the config and the environment it was made with"
    )]
    DoesNotFit {
        /// What differs.
        what: &'static str,
    },
    /// Its network is custom, so the checkpoint does not contain it.
    #[error(
        "checkpoint: it is of a network of your own, which it does not hold; resume with that network given to \
         TrainerBuilder::network"
    )]
    OwnNetwork,
    /// Its parameters differ from those of the custom network.
    #[error("checkpoint: its {cause}; resume with the network that it was saved with")]
    OtherParams {
        /// The first difference.
        cause: PolicyError,
    },
    /// The learner missed the deadline for its state.
    #[error("checkpoint: the learner did not return its state: {reason}")]
    NoState {
        /// Why.
        reason: String,
    },
}

impl CheckpointError {
    pub(super) fn io(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), cause }
    }

    pub(super) fn unusable(path: &Path, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unusable { path: path.to_owned(), cause: cause.into() }
    }
}
