use std::time::Duration;

use pronk_metrics::ClockReader;

use crate::env::{CallMonitor, EnvCall};
use crate::run::edges::CurrentEnds;
use crate::run::failure::WorkerFailure;
use crate::run::restarts::FailureRow;
use crate::run::supervised::SupervisedWorker;
use crate::sync::atomic::AtomicU64;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The threads of a set that have not ended, written by the supervisor and read by the owner of the set.
#[derive(Clone, Default)]
pub(super) struct StatusBoard(Arc<Mutex<Members>>);

#[derive(Default)]
pub(super) struct Members {
    members: Vec<Member>,
    /// The first worker that gave up.
    pub(super) failure: Option<WorkerFailure>,
}

/// A thread that has not ended.
#[derive(Clone)]
pub(super) struct Member {
    /// Its number among all threads that the set ever had.
    pub(super) id: usize,
    pub(super) worker: u32,
    pub(super) thread: String,
    pub(super) monitor: CallMonitor,
    /// How many fragments its seat has completed.
    pub(super) slots: Arc<AtomicU64>,
    pub(super) ends: CurrentEnds,
    pub(super) failures: FailureRow,
    clock: ClockReader,
    is_abandoned: bool,
}

/// What a worker is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The name of its thread.
    pub thread: String,
    /// Its [`WorkerState`](crate::WorkerState), such as `"stepping"`; `None` once it has ended.
    pub state: Option<&'static str>,
    /// How long it has been in this state.
    pub since: Duration,
    /// The environment call it is in, if any. Always `None` where environments are in groups or tasks.
    pub call: Option<EnvCall>,
    /// Whether it was abandoned in an environment that hangs.
    pub is_abandoned: bool,
}

impl StatusBoard {
    /// Locks the board: calls under one lock are one change for its readers.
    pub(super) fn lock(&self) -> MutexGuard<'_, Members> {
        // No method of `Members` can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    /// Adds a worker whose thread is about to be started.
    pub(super) fn add(&mut self, worker: &SupervisedWorker, ends: CurrentEnds) -> Member {
        let member = Member {
            id: self.members.last().map_or(0, |last| last.id + 1),
            worker: worker.seat.worker,
            thread: worker.thread.clone(),
            monitor: worker.seat.monitor.clone(),
            slots: Arc::clone(&worker.seat.slots),
            ends,
            failures: worker.restarts.failures.clone(),
            clock: worker.clock.reader(),
            is_abandoned: false,
        };
        self.members.push(member.clone());
        member
    }

    pub(super) fn abandon(&mut self, id: usize) {
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            member.is_abandoned = true;
        }
    }

    pub(super) fn remove(&mut self, id: usize) {
        self.members.retain(|member| member.id != id);
    }

    /// The threads that were not abandoned.
    pub(super) fn running(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_abandoned)
    }

    pub(super) fn statuses(&self) -> Vec<WorkerStatus> {
        self.members.iter().map(Member::status).collect()
    }

    /// Names of the threads that have not ended.
    pub(super) fn not_ended(&self) -> Vec<String> {
        self.members.iter().map(|member| member.thread.clone()).collect()
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
