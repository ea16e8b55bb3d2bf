use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pronk_metrics::ClockReader;

use crate::env::{CallMonitor, EnvCall};
use crate::run::{SupervisedWorker, WorkerFailure};
use crate::worker::WorkerSeat;

/// Who is at work, who was abandoned and who has ended: written by the supervisor, read by everybody.
#[derive(Clone, Default)]
pub(super) struct StatusBoard(Arc<Mutex<Members>>);

#[derive(Default)]
struct Members {
    members: Vec<Member>,
    failure: Option<WorkerFailure>,
}

/// A thread that has not ended.
#[derive(Clone)]
pub(super) struct Member {
    /// Its number among all threads of the set that there ever were.
    pub(super) id: usize,
    pub(super) worker: u32,
    pub(super) thread: String,
    pub(super) monitor: CallMonitor,
    clock: ClockReader,
    is_abandoned: bool,
}

/// What a worker is doing.
///
/// ```
/// use pronk_rollout::WorkerStatus;
///
/// fn is_in_trouble(worker: &WorkerStatus) -> bool {
///     worker.is_abandoned || (worker.state == Some("restarting") && worker.since.as_secs() > 10)
/// }
/// # let _ = is_in_trouble;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The name of its thread.
    pub thread: String,
    /// The [`WorkerState`](crate::WorkerState) it is in, such as `"stepping"`; `None` once it has ended.
    pub state: Option<&'static str>,
    /// Since when.
    pub since: Duration,
    /// The call of an environment that it is in, if it is in one. Always `None` where environments are in groups or tasks.
    pub call: Option<EnvCall>,
    /// Whether it was abandoned in an environment that hangs.
    pub is_abandoned: bool,
}

impl StatusBoard {
    /// Adds a worker whose thread is about to be started.
    pub(super) fn add(&self, seat: &WorkerSeat, worker: &SupervisedWorker) -> Member {
        self.lock().add(seat, worker)
    }

    /// Atomically swaps an abandoned thread for the worker that takes its place.
    pub(super) fn replace(&self, id: usize, seat: &WorkerSeat, worker: &SupervisedWorker) -> Member {
        let mut all = self.lock();
        all.leave_behind(id);
        all.add(seat, worker)
    }

    /// The thread was abandoned.
    pub(super) fn leave_behind(&self, id: usize) {
        self.lock().leave_behind(id);
    }

    /// The thread has ended.
    pub(super) fn remove(&self, id: usize) {
        self.lock().members.retain(|member| member.id != id);
    }

    /// A worker gave up; the first that did is kept.
    pub(super) fn fail(&self, failure: WorkerFailure) {
        self.lock().failure.get_or_insert(failure);
    }

    /// Those at work.
    pub(super) fn running(&self) -> Vec<Member> {
        self.lock().members.iter().filter(|member| !member.is_abandoned).cloned().collect()
    }

    pub(super) fn n_running(&self) -> usize {
        self.lock().members.iter().filter(|member| !member.is_abandoned).count()
    }

    pub(super) fn read(&self) -> Vec<WorkerStatus> {
        self.lock().members.iter().map(Member::status).collect()
    }

    /// Names of the threads that have not ended.
    pub(super) fn not_ended(&self) -> Vec<String> {
        self.lock().members.iter().map(|member| member.thread.clone()).collect()
    }

    pub(super) fn failure(&self) -> Option<WorkerFailure> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        // Every use of the list is one call, so it is whole even if a thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn add(&mut self, seat: &WorkerSeat, worker: &SupervisedWorker) -> Member {
        let member = Member {
            id: self.members.last().map_or(0, |last| last.id + 1),
            worker: seat.worker,
            thread: worker.thread().to_owned(),
            monitor: seat.monitor.clone(),
            clock: worker.clock(),
            is_abandoned: false,
        };
        self.members.push(member.clone());
        member
    }

    fn leave_behind(&mut self, id: usize) {
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            member.is_abandoned = true;
        }
    }
}

impl Member {
    fn status(&self) -> WorkerStatus {
        let time = self.clock.read();
        WorkerStatus {
            thread: self.thread.clone(),
            state: time.current,
            since: Duration::try_from_secs_f64(time.since_secs).unwrap_or_default(),
            call: self.monitor.call(),
            is_abandoned: self.is_abandoned,
        }
    }
}
