//! One start of a group: from its init function to its one shutdown.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pronk_buffer::{ShutdownGuard, ShutdownToken, shutdown};

use crate::error::{GroupErrorCause, GroupPlace};
use crate::group::{OnWorkerError, WorkerGroup, lock};
use crate::worker::{GroupWorker, WorkerId, thread_name};

/// One start of a group.
pub(crate) struct GroupRun {
    group: Arc<WorkerGroup>,
    /// What holds the run up. Whoever takes it shuts the group down, so nobody else can.
    held: Mutex<Option<Guards>>,
    /// Cut when the workers are to leave.
    token: ShutdownToken,
    /// Cut when the shutdown function has returned.
    shut_down: ShutdownToken,
}

struct Guards {
    /// Dropped when the workers are to leave.
    workers: ShutdownGuard,
    /// Dropped when the shutdown function has returned.
    shutdown: ShutdownGuard,
}

/// A worker's thread.
pub(crate) struct GroupThread {
    pub(crate) name: String,
    handle: JoinHandle<()>,
    /// Cut when the thread's work is over.
    works: ShutdownToken,
}

impl GroupRun {
    pub(crate) fn begin(group: Arc<WorkerGroup>) -> Arc<Self> {
        let (workers, token) = shutdown();
        let (shutdown, shut_down) = shutdown();
        Arc::new(Self { group, held: Mutex::new(Some(Guards { workers, shutdown })), token, shut_down })
    }

    /// Whether nothing has ended it yet.
    pub(crate) fn is_on(&self) -> bool {
        !self.token.is_shut_down()
    }

    /// Cut when the shutdown function has returned.
    pub(crate) fn shut_down(&self) -> &ShutdownToken {
        &self.shut_down
    }

    /// Tells all workers to leave and then shuts the groups down, but for those that somebody ended before.
    pub(crate) fn end_all<'a>(runs: impl IntoIterator<Item = &'a Self>) {
        let relieved = runs.into_iter().filter_map(|run| run.relieve().map(|shutdown| (run, shutdown)));
        let relieved: Vec<_> = relieved.collect();
        for (run, shutdown) in relieved {
            run.group.shut_down();
            drop(shutdown);
        }
    }

    /// Tells the workers to leave. Whoever is the first to do so gets what is to be dropped after the shutdown.
    fn relieve(&self) -> Option<ShutdownGuard> {
        let mut held = lock(&self.held);
        let Guards { workers, shutdown } = held.take()?;
        // Under the lock: a worker that failed and comes second must find itself stopped, or it would make another call.
        drop(workers);
        Some(shutdown)
    }

    pub(crate) fn spawn(self: &Arc<Self>, id: WorkerId) -> io::Result<GroupThread> {
        let name = thread_name(&self.group.config().name, id);
        let (working, works) = shutdown();
        let run = Arc::clone(self);
        let body = move || {
            run.work(id);
            drop(working);
        };
        let handle = thread::Builder::new().name(name.clone()).spawn(body)?;
        Ok(GroupThread { name, handle, works })
    }

    /// The life of a worker.
    fn work(&self, id: WorkerId) {
        let worker = GroupWorker { id, group: self.group.config().name.as_str().into(), token: self.token.clone() };
        let (mut worker_time, mut calls, mut failures_in_a_row) = (Duration::ZERO, 0_u64, 0_u32);
        while !worker.is_stopping() {
            let began = Instant::now();
            let result = self.group.work(&worker);
            let took = began.elapsed();
            let pause = match result {
                Ok(()) => {
                    failures_in_a_row = 0;
                    Duration::ZERO
                }
                Err(cause) => {
                    failures_in_a_row = failures_in_a_row.saturating_add(1);
                    self.failed(id, cause, failures_in_a_row)
                }
            };
            worker_time += took;
            calls += 1;
            self.group.log(id, took, worker_time, calls);
            if !pause.is_zero() {
                worker.sleep(pause);
            }
        }
    }

    /// Keeps the error and does what the group does about it. Returns the pause before the worker's next call.
    fn failed(&self, worker: WorkerId, cause: GroupErrorCause, failures_in_a_row: u32) -> Duration {
        self.group.note(GroupPlace::Worker(worker), cause);
        match self.group.config().on_error {
            OnWorkerError::Ignore => return Duration::ZERO,
            OnWorkerError::Restart(restarts) if failures_in_a_row <= restarts.failures_in_a_row => {
                return restarts.pause(failures_in_a_row);
            }
            OnWorkerError::Restart(_) | OnWorkerError::StopGroup => {}
        }
        Self::end_all([self]);
        Duration::ZERO
    }
}

impl GroupThread {
    pub(crate) fn is_running(&self) -> bool {
        !self.works.is_shut_down()
    }

    /// Whether the thread has ended, now or within `timeout`.
    pub(crate) fn ends_within(&self, timeout: Duration) -> bool {
        self.works.sleep(timeout).is_err()
    }

    /// Takes a thread down whose work is over.
    pub(crate) fn join(self) {
        // Its work was its last act, so this does not wait; what it had to say stands in the group's errors.
        let _ = self.handle.join();
    }
}
