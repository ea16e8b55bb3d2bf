//! Why a run could not be resumed.

use std::path::PathBuf;

/// Why a run could not be resumed. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// `auto` without a folder.
    #[error(
        "resume: `auto` looks into the folder of the run's own checkpoints, and the run has none; add \
         TrainerBuilder::checkpoints, or name a path"
    )]
    NoFolder,
    /// Nothing there.
    #[error("resume: {} holds no checkpoint; name another folder, or begin a new run", path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// The checkpoint is of another run.
    #[error(
        "resume: {what} is {own} and was {saved} in {}; resume with the saved one, or begin a new run from the \
         checkpoint's weights (`resume(&Checkpoint::load(..)?)`)",
        path.display()
    )]
    Other {
        /// The checkpoint.
        path: PathBuf,
        /// What differs.
        what: String,
        /// In the checkpoint.
        saved: String,
        /// In this run.
        own: String,
    },
    /// The state is not one of this version.
    #[error("resume: the state of the run in {} cannot be read: {reason}; read it with the pronk that wrote it", path.display())]
    Unreadable {
        /// The checkpoint.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A record would begin in the middle.
    #[error(
        "resume: a resumed run can neither be recorded nor replay a record, which would begin in the middle; drop one of the two"
    )]
    Recorded,
}
