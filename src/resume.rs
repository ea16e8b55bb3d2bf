//! Periodic checkpoints of whole runs, and how another process continues one.

mod agreement;
mod check;
mod error;
mod run_state;
mod source;
mod state;

pub(crate) use agreement::Agreement;
pub use error::ResumeError;
pub(crate) use run_state::{RunState, SavedResult, SavedTrainer};
pub(crate) use source::From as ResumeFrom;
pub use source::Resume;
pub(crate) use state::{Resumed, Snapshot};
