//! Failures of groups, and how groups ended.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use crate::worker::{WorkerId, thread_name};

/// A function of a group that failed.
#[derive(Clone, Debug)]
pub struct GroupError {
    /// The name of the group.
    pub group: String,
    /// Which of its functions.
    pub place: GroupPlace,
    /// How often it failed; the cause is that of the newest failure.
    pub failed_calls: u64,
    /// Why.
    pub cause: GroupErrorCause,
}

/// Which function of a group failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupPlace {
    /// The init function.
    Init,
    /// The function that this worker repeats.
    Worker(WorkerId),
    /// A logger, numbered from 0 in the order in which they were added.
    Logger(usize),
    /// The shutdown function.
    Shutdown,
}

/// Why a function of a group failed.
#[derive(Clone, Debug)]
pub enum GroupErrorCause {
    /// It returned this error.
    Error(Arc<dyn Error + Send + Sync>),
    /// It panicked, with this message.
    Panic(String),
}

impl fmt::Display for GroupErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupErrorCause::Error(error) => error.fmt(f),
            GroupErrorCause::Panic(text) => write!(f, "it panicked: {text}"),
        }
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, place, failed_calls, cause } = self;
        match place {
            GroupPlace::Init => write!(f, "the init function of group `{group}` failed")?,
            GroupPlace::Worker(id) => write!(f, "worker {} failed", thread_name(group, *id))?,
            GroupPlace::Logger(index) => write!(f, "logger {index} of group `{group}` failed")?,
            GroupPlace::Shutdown => write!(f, "the shutdown function of group `{group}` failed")?,
        }
        match failed_calls {
            1 => write!(f, ": {cause}"),
            n => write!(f, " {n} times, the last time: {cause}"),
        }
    }
}

impl Error for GroupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            // The text of the error is part of ours, so the chain continues with its source.
            GroupErrorCause::Error(error) => error.source(),
            GroupErrorCause::Panic(_) => None,
        }
    }
}

/// Why groups did not start; none of those that were to start runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupsStartError {
    /// An init function failed.
    #[error("no group was started: {0}")]
    Init(GroupError),
    /// The system could not start a thread.
    #[error("no group was started: the thread of worker {thread} could not be started: {cause}; start fewer workers")]
    Spawn {
        /// The thread.
        thread: String,
        /// The system's error.
        cause: io::Error,
    },
    /// A [`Stopper`](super::Stopper) has stopped these groups for good.
    #[error("no group was started: a stopper has stopped these groups for good; make new `WorkerGroups`")]
    Stopped,
}

/// How groups ended.
#[derive(Clone, Debug, Default)]
pub struct StopOutcome {
    /// The names of the groups that were stopped, in the order in which they were added.
    pub stopped: Vec<String>,
    /// The threads and shutdown functions that had not ended at the deadline. They are abandoned: no thread
    /// can be ended from outside, and a process can end without them.
    pub not_ended: Vec<String>,
    /// The failures since the groups were added: at most one for each worker, logger and shutdown function.
    pub errors: Vec<GroupError>,
}

impl StopOutcome {
    /// Whether everything ended and nothing failed.
    pub fn is_clean(&self) -> bool {
        self.not_ended.is_empty() && self.errors.is_empty()
    }
}
