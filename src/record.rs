//! The record of a run, and its replay.
//!
//! A record says which fragments were trained on, in which order and sampled with which weights. Fragments
//! and weights themselves are not in it, only their checksums: a replay samples and trains again, and the
//! first difference ends it.

mod data;
mod entry;
mod error;
mod frames;
mod log;
mod logged;
mod options;
mod recorder;
mod replay;
mod start;
mod sums;
mod verifier;

pub(crate) use entry::Header;
pub use error::RecordError;
pub(crate) use log::{RunLog, SavedLog};
pub(crate) use logged::Logged;
pub use options::Recording;
pub use replay::Replay;
pub(crate) use start::start;
