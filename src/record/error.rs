//! [`RecordError`]: what is wrong with a record, or differs from it.

use std::io;
use std::path::PathBuf;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{what} that begins at byte {at} is damaged")]
    Damaged { at: u64, what: &'static str },
}

/// What is wrong with a record, or how a replay differs from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its bytes are not those that were written.
    #[error("{}: {what}; copy the record again from where it was written", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is damaged, and where.
        what: String,
    },
    /// It is no record, or one of another format.
    #[error("{}: {reason}", path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file of its fragments ends early: the disk was full, the run was killed, or a copy is not whole.
    #[error(
        "{}: it ends after {fragments} fragments, enough for {updates} updates; replay until there, or from \
         environments", path.display()
    )]
    FragmentsMissing {
        /// The file.
        path: PathBuf,
        /// The fragments that are there.
        fragments: usize,
        /// The updates whose fragments are there.
        updates: u64,
    },
    /// The run that should repeat it has other settings, environments or weights.
    #[error("{what} differs from the record: {recorded} was recorded, and this run has {own}")]
    OtherRun {
        /// What differs.
        what: String,
        /// The value in the record.
        recorded: String,
        /// The value of this run.
        own: String,
    },
    /// The record cannot be replayed by sampling again.
    #[error("this run cannot be sampled again, because {why}; record it with its fragments, and replay from these")]
    NotRepeatable {
        /// Why.
        why: String,
    },
    /// A fragment is another one than in the record.
    #[error("{fragment} differs from the record: {what}")]
    Fragment {
        /// The fragment: its number, worker and incarnation, and the version of its weights.
        fragment: String,
        /// What differs: the environment and its episode, or the order.
        what: String,
    },
    /// The weights after an update are others.
    #[error("update {update} differs from the record: {what}, although all fragments before are the same")]
    Update {
        /// The number of the update.
        update: u64,
        /// What differs.
        what: String,
    },
}
