//! A worker as its group's function sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::ShutdownToken;

/// The number of a worker: from 0 in the order in which workers are started, and never reused by one
/// [`WorkerGroups`](super::WorkerGroups).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerId(pub(crate) u64);

impl WorkerId {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The worker that calls its group's function.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_groups::{WorkerGroup, WorkerGroupConfig};
///
/// WorkerGroup::new(WorkerGroupConfig::default(), |worker| {
///     for part in 0..1000 {
///         if worker.is_stopping() {
///             break; // long calls check now and then
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

    /// Whether the group is stopping.
    pub fn is_stopping(&self) -> bool {
        self.token.is_shut_down()
    }

    /// Sleeps for `duration`, or until the group stops.
    pub fn sleep(&self, duration: Duration) {
        // When the group stops, the worker ends after the call, so a caller need not know.
        let _ = self.token.sleep(duration);
    }

    /// Shut down when the group stops: for queues and threads of the function's own.
    pub fn token(&self) -> &ShutdownToken {
        &self.token
    }
}

/// The name of a worker's thread.
pub(crate) fn thread_name(group: &str, worker: WorkerId) -> String {
    format!("{group}-{worker}")
}
