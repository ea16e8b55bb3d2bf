//! One start of a group: from its init function to its one shutdown.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pronk_buffer::{ShutdownGuard, ShutdownToken, shutdown};

use crate::error::{GroupErrorCause, GroupPlace, GroupsStartError};
use crate::group::{OnWorkerError, WorkerGroup, lock};
use crate::worker::{GroupWorker, WorkerId, thread_name};

/// One start of a group.
pub(crate) struct GroupRun {
    group: Arc<WorkerGroup>,
    pub(crate) workers: Vec<WorkerId>,
    /// The thread that takes them calls the shutdown function, so it is called once.
    guards: Mutex<Option<Guards>>,
    /// Shut down when the workers are to stop.
    token: ShutdownToken,
    /// Shut down when the shutdown function has returned.
    pub(crate) shut_down: ShutdownToken,
}

struct Guards {
    /// Dropped when the workers are to stop.
    workers: ShutdownGuard,
    /// Dropped when the shutdown function has returned.
    shutdown: ShutdownGuard,
}

/// A worker's thread.
pub(crate) struct GroupThread {
    pub(crate) name: String,
    handle: JoinHandle<()>,
    /// Shut down when the worker has ended.
    ended: ShutdownToken,
}

impl GroupRun {
    pub(crate) fn begin(group: Arc<WorkerGroup>, workers: Vec<WorkerId>) -> Arc<Self> {
        let (workers_guard, token) = shutdown();
        let (shutdown, shut_down) = shutdown();
        let guards = Mutex::new(Some(Guards { workers: workers_guard, shutdown }));
        Arc::new(Self { group, workers, guards, token, shut_down })
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.token.is_shut_down()
    }

    /// Tells all workers to stop and then calls the shutdown functions, except where another thread does.
    pub(crate) fn end_all<'a>(runs: impl IntoIterator<Item = &'a Self>) {
        let stopped: Vec<_> =
            runs.into_iter().filter_map(|run| run.stop_workers().map(|shutdown| (run, shutdown))).collect();
        for (run, shutdown) in stopped {
            run.group.shut_down();
            drop(shutdown);
        }
    }

    /// Tells the workers to stop. The first caller gets the guard to drop after the shutdown function.
    fn stop_workers(&self) -> Option<ShutdownGuard> {
        let mut guards = lock(&self.guards);
        let Guards { workers, shutdown } = guards.take()?;
        // Under the lock: a worker that fails at the same time must find itself stopped, or it would make
        // another call.
        drop(workers);
        Some(shutdown)
    }

    pub(crate) fn spawn(self: &Arc<Self>, id: WorkerId) -> Result<GroupThread, GroupsStartError> {
        let name = thread_name(&self.group.config().name, id);
        let (ending, ended) = shutdown();
        let run = Arc::clone(self);
        let body = move || {
            run.work(id);
            drop(ending);
        };
        match thread::Builder::new().name(name.clone()).spawn(body) {
            Ok(handle) => Ok(GroupThread { name, handle, ended }),
            Err(cause) => Err(GroupsStartError::Spawn { thread: name, cause }),
        }
    }

    /// Calls the group's function until the group stops.
    fn work(&self, id: WorkerId) {
        let worker = GroupWorker { id, group: self.group.config().name.as_str().into(), token: self.token.clone() };
        let (mut worker_time, mut calls, mut failures_in_a_row) = (Duration::ZERO, 0_u64, 0_u32);
        while !worker.is_stopping() {
            let began = Instant::now();
            let result = self.group.work(&worker);
            let took = began.elapsed();
            let mut pause = Duration::ZERO;
            match result {
                Ok(()) => failures_in_a_row = 0,
                Err(cause) => {
                    failures_in_a_row = failures_in_a_row.saturating_add(1);
                    pause = self.failed(id, cause, failures_in_a_row);
                }
            }
            worker_time += took;
            calls += 1;
            self.group.log(id, took, worker_time, calls);
            if !pause.is_zero() {
                worker.sleep(pause);
            }
        }
    }

    /// Records the error and handles it as the group's settings say. Returns the pause before the worker's
    /// next call.
    fn failed(&self, worker: WorkerId, cause: GroupErrorCause, failures_in_a_row: u32) -> Duration {
        self.group.record(GroupPlace::Worker(worker), cause);
        match self.group.config().on_error {
            OnWorkerError::Ignore => {}
            OnWorkerError::Restart(restarts) if failures_in_a_row <= restarts.failures_in_a_row => {
                return restarts.pause(failures_in_a_row);
            }
            OnWorkerError::Restart(_) | OnWorkerError::StopGroup => Self::end_all([self]),
        }
        Duration::ZERO
    }
}

impl GroupThread {
    pub(crate) fn is_running(&self) -> bool {
        !self.ended.is_shut_down()
    }

    pub(crate) fn ends_within(&self, timeout: Duration) -> bool {
        self.ended.sleep(timeout).is_err()
    }

    /// Joins a thread whose worker has ended, which does not block.
    pub(crate) fn join(self) {
        // A panic of the group's functions is in the group's errors.
        let _ = self.handle.join();
    }
}
