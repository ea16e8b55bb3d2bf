//! What went wrong in groups, and how they ended.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use crate::worker::{WorkerId, thread_name};

/// A function of a group that failed.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{GroupPlace, WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// let mut groups = WorkerGroups::new();
/// groups.add(WorkerGroup::new(WorkerGroupConfig::default(), |worker| match worker.id().get() {
///     0 => Err("boom".into()),
///     _ => Ok(()),
/// }));
/// groups.start()?;
/// assert!(groups.wait(Duration::from_secs(60)), "the error stops the group");
///
/// let outcome = groups.stop(Duration::from_secs(5));
/// assert_eq!(outcome.errors[0].to_string(), "worker train-0 failed: boom");
/// assert!(matches!(outcome.errors[0].place, GroupPlace::Worker(id) if id.get() == 0));
/// # Ok::<(), pronk_groups::GroupsStartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupError {
    /// The name of the group.
    pub group: String,
    /// Which of its functions.
    pub place: GroupPlace,
    /// How often it failed. The cause is the newest one.
    pub failed_calls: u64,
    /// Why.
    pub cause: GroupErrorCause,
}

/// Which function of a group: [`GroupError`] shows one in use.
///
/// ```
/// use pronk_groups::GroupPlace;
///
/// assert_ne!(GroupPlace::Logger(0), GroupPlace::Shutdown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupPlace {
    /// What is called when the group is started.
    Init,
    /// What this worker calls again and again.
    Worker(WorkerId),
    /// A logger, in the order in which they were added, from 0.
    Logger(usize),
    /// What is called when the group stops.
    Shutdown,
}

/// Why a function of a group failed.
///
/// ```
/// use pronk_groups::GroupErrorCause;
///
/// let cause = GroupErrorCause::Panic("index out of bounds".into());
/// assert_eq!(cause.to_string(), "it panicked: index out of bounds");
/// ```
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
            // The error's own text is part of ours; the chain goes on below it.
            GroupErrorCause::Error(error) => error.source(),
            GroupErrorCause::Panic(_) => None,
        }
    }
}

/// Why groups did not start. None of those that were to start runs.
///
/// ```
/// use pronk_groups::{GroupsStartError, WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// let mut groups = WorkerGroups::new();
/// groups.add(WorkerGroup::new(WorkerGroupConfig::default(), |_| Ok(())).on_init(|_| Err("no such folder".into())));
/// let error = groups.start().unwrap_err();
/// assert!(matches!(error, GroupsStartError::Init(_)));
/// assert_eq!(error.to_string(), "no group was started: the init function of group `train` failed: no such folder");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupsStartError {
    /// An init function failed.
    #[error("no group was started: {0}")]
    Init(GroupError),
    /// The system gave no thread.
    #[error("no group was started, for there was no thread for the worker {thread}: {cause}; start fewer workers")]
    Spawn {
        /// The thread.
        thread: String,
        /// What the system said.
        cause: io::Error,
    },
    /// A [`Stopper`](super::Stopper) has ended these groups for good.
    #[error("no group was started: a stopper ended them for good; make new `WorkerGroups`")]
    Stopped,
}

/// How groups ended.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::WorkerGroups;
///
/// let outcome = WorkerGroups::new().stop(Duration::ZERO);
/// assert!(outcome.is_clean() && outcome.stopped.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopOutcome {
    /// The names of the groups that are gone now, in the order in which they were added.
    pub stopped: Vec<String>,
    /// What had not ended at the deadline: names of threads, and shutdown functions. They are left to themselves: nothing can
    /// end a thread from outside, and a process can end without them.
    pub not_ended: Vec<String>,
    /// What failed since the groups were added, group by group: at most one for each worker, logger and shutdown function.
    pub errors: Vec<GroupError>,
}

impl StopOutcome {
    /// Whether everything ended and nothing failed.
    pub fn is_clean(&self) -> bool {
        self.not_ended.is_empty() && self.errors.is_empty()
    }
}
