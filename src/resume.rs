//! Periodic checkpoints of whole runs, and how another process continues one.

mod agreement;
mod error;
mod source;
mod state;

pub(crate) use agreement::Agreement;
pub use error::ResumeError;
pub(crate) use source::From as ResumeFrom;
pub use source::Resume;
pub(crate) use state::{Resumed, RunState, SavedResult, SavedTrainer, Snapshot};
