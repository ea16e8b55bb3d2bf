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
    /// A file is not what the manifest says: cut short, overwritten or damaged.
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
    /// The manifest is of another version of the format.
    #[error(
        "checkpoint: {} has version {found} of the format and this pronk reads versions 2 to {known}; read it with \
         the version of pronk that wrote it",
        path.display()
    )]
    Version {
        /// The manifest.
        path: PathBuf,
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
    /// The content is no valid checkpoint.
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
    /// It is of a custom network, which it does not contain.
    #[error(
        "checkpoint: it is of a network of your own, which it does not hold; resume with that network given to \
         TrainerBuilder::network"
    )]
    OwnNetwork,
    /// Its parameters differ from those of the custom network.
    #[error("checkpoint: its {cause}; resume with the network it was made with")]
    OtherParams {
        /// The first difference.
        cause: PolicyError,
    },
    /// The learner did not return its state in time.
    #[error("checkpoint: the learner did not give its state: {reason}")]
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
