//! One worker, as the functions of its group see it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::ShutdownToken;

/// The number of a worker: from 0, in the order in which workers are started, and never given twice by one
/// [`WorkerGroups`](super::WorkerGroups).
///
/// ```
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig, WorkerGroups};
///
/// let mut groups = WorkerGroups::new();
/// groups.add(WorkerGroup::new(WorkerGroupConfig::default(), |_| Ok(())).on_init(|workers| {
///     assert_eq!(workers.iter().map(|id| id.get()).collect::<Vec<_>>(), [0, 1]);
///     Ok(())
/// }));
/// groups.start()?;
/// # Ok::<(), pronk_groups::GroupsStartError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerId(pub(crate) u64);

impl WorkerId {
    /// The plain number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a worker's calls know of their worker.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig};
///
/// WorkerGroup::new(WorkerGroupConfig::default(), |worker| {
///     for part in 0..1000 {
///         if worker.is_stopping() {
///             break; // long calls look now and then
///         }
///         println!("worker {} of {} has done part {part}", worker.id(), worker.group());
///     }
///     worker.sleep(Duration::from_secs(1));
///     Ok(())
/// });
/// ```
#[derive(Debug)]
pub struct GroupWorker {
    pub(crate) id: WorkerId,
    pub(crate) group: Arc<str>,
    pub(crate) token: ShutdownToken,
}

impl GroupWorker {
    /// The worker's number.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The name of its group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// True from the moment the group is to stop.
    pub fn is_stopping(&self) -> bool {
        self.token.is_shut_down()
    }

    /// Sleeps for `duration`, or until the group is to stop.
    pub fn sleep(&self, duration: Duration) {
        // Who sleeps to the end and who is woken both go on: the worker leaves after the call.
        let _ = self.token.sleep(duration);
    }

    /// What is cut when the group is to stop: for queues and threads of the worker's own.
    pub fn token(&self) -> &ShutdownToken {
        &self.token
    }
}

/// The name of a worker's thread.
pub(crate) fn thread_name(group: &str, worker: WorkerId) -> String {
    format!("{group}-{worker}")
}
