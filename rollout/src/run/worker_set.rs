//! Workers on threads: all start or none does, and a worker that hangs is replaced.

mod status_board;
mod supervisor;

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::time::Duration;

use pronk_buffer::{Mailbox, MailboxSender, ShutdownToken, mailbox, shutdown};
use pronk_metrics::StateClock;

use super::edges::{CurrentEnds, ResumedSeats, WorkerEdges};
use super::failure::WorkerFailure;
use super::failure_log::FailureLog;
use super::report::WorkerReport;
use super::restarts::{RestartBudget, SpentRestarts};
use super::start_error::StartError;
use super::supervised::{Shared, SupervisedWorker, thread_name};
use crate::env::CallMonitor;
use crate::sync::Arc;
use crate::sync::channel::{Sender, bounded};
use crate::sync::thread::{self, JoinHandle, ScopedJoinHandle};
use crate::worker::{BuildError, MakeWorker, RestartPolicy, SeatState, WorkerSeat};

use status_board::StatusBoard;
use supervisor::{Supervisor, Threads};

pub use status_board::WorkerStatus;
pub use supervisor::SupervisorState;

/// Reports that wait unread before they are folded together.
const MAILBOX_CAPACITY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);

/// How failures and hangs of workers are handled.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSetConfig {
    /// How workers whose environments fail are restarted.
    pub restart: RestartPolicy,
    /// How long one environment call may take before it counts as hanging and the worker is replaced; `None`
    /// never replaces.
    pub env_hang_timeout: Option<Duration>,
    /// The number of the first worker: 1 unless the run has workers on several machines.
    pub first_worker: u32,
}

/// Rollout workers on threads.
///
/// Each worker loads the newest weights, samples a fragment, reports and pushes; a full inqueue blocks it. It
/// ends when the run's shutdown guard or the receiver of the inqueue is dropped, when the step ledger reaches
/// its limit, or when it gives up after too many failures in a row. The inqueue closes with the last worker.
///
/// # Environments that hang
/// The thread `supervisor` is the watchdog. When an environment call takes longer than `env_hang_timeout`,
/// its thread is abandoned, because no thread can be ended from outside, and reported with environment, seed,
/// step and the last observation. Its fragment is lost to `env_hang`, and a thread such as `rollout-3.1`
/// takes its place. If the call returns after all, the abandoned thread ends.
pub struct WorkerSet {
    reports: Mailbox<WorkerReport>,
    board: StatusBoard,
    supervisor: JoinHandle<()>,
    /// Shut down when the supervisor has ended.
    ended: ShutdownToken,
    spent_restarts: SpentRestarts,
    /// Takes one message for each thread that has not begun; `None` once all have.
    go: Option<Sender<()>>,
    /// Closes when the set is dropped.
    _wanted: Sender<()>,
}

/// How the threads of a set ended.
#[derive(Debug)]
pub struct JoinOutcome {
    /// The first worker that gave up, if one did.
    pub failure: Option<WorkerFailure>,
    /// The names of the threads that had not ended at the deadline. They are abandoned.
    pub not_joined: Vec<String>,
    /// The reports that were not read.
    pub unread: Vec<WorkerReport>,
}

impl WorkerSet {
    /// Makes a worker for each of the edges' ends, as many at a time as there are cores, and starts their
    /// threads: `rollout-1`, `rollout-2`, … `make` is kept for replacements.
    ///
    /// # Errors
    /// A worker that cannot be made or has other spaces than the first, or a thread that cannot be spawned.
    /// No environment has been reset then, and no thread keeps running.
    pub fn start(
        config: WorkerSetConfig,
        make: Arc<MakeWorker>,
        token: ShutdownToken,
        edges: WorkerEdges,
    ) -> Result<Self, StartError> {
        let mut set = Self::prepare(config, make, token, edges)?;
        set.begin();
        Ok(set)
    }

    /// As [`start`](Self::start), but the workers wait for [`begin`](Self::begin), so that a limit of the
    /// step ledger can be set first.
    pub fn prepare(
        config: WorkerSetConfig,
        make: Arc<MakeWorker>,
        token: ShutdownToken,
        edges: WorkerEdges,
    ) -> Result<Self, StartError> {
        // Those of turns are put into order before they fold; a round of the learner bounds how many wait.
        let by_turns = edges.ends.iter().any(|ends| ends.weights.is_granted());
        let capacity = if by_turns { NonZeroUsize::MAX } else { MAILBOX_CAPACITY };
        let (sender, reports) = mailbox(capacity, &edges.notifier);
        let ResumedSeats { seats, restarts } = edges.resumed;
        let budget = RestartBudget::resumed(config.restart, &restarts);
        let spent_restarts = budget.spent();
        let (steps, helper) = (edges.steps.clone(), edges.helper);
        let failures = FailureLog::default();
        let shared = Shared { make, budget, steps, token, reports: sender, failures, helper };
        let workers = make_workers(&config, edges.ends.len(), &shared, seats)?;
        let spec = workers.first().and_then(SupervisedWorker::env_spec);

        let (board, mut threads) = (StatusBoard::default(), Threads::new(workers.len()));
        let (go, gate) = bounded(workers.len());
        let (of_workers, time) = (edges.ends, edges.time);
        let mut clocks = Vec::with_capacity(workers.len() + 1);
        for (worker, own) in workers.into_iter().zip(of_workers) {
            clocks.push(worker.clock.reader());
            let member = board.lock().add(&worker, CurrentEnds::new(own));
            threads.spawn(member, worker, Some(gate.clone()))?;
        }
        let (wanted, unwanted) = bounded(0);
        let (ending, ended) = shutdown();
        let clock = StateClock::new("supervisor", SupervisorState::Watching);
        clocks.push(clock.reader());
        let env_hang_timeout = config.env_hang_timeout;
        let supervisor =
            Supervisor { env_hang_timeout, spec, shared, time: time.clone(), board: board.clone(), threads, clock };
        let supervisor = supervisor.spawn(unwanted, ending)?;
        // Only now: the ledger has no clock of a set that did not start.
        for clock in clocks {
            time.add(clock);
        }
        Ok(Self { reports, board, supervisor, ended, spent_restarts, go: Some(go), _wanted: wanted })
    }

    /// Has the workers begin, unless they have.
    pub fn begin(&mut self) {
        let Some(go) = self.go.take() else { return };
        // The channel has room for one message per thread, so none is refused.
        for _ in 0..go.capacity().unwrap_or(0) {
            let _ = go.try_send(());
        }
    }

    /// What the workers report.
    pub fn reports(&self) -> &Mailbox<WorkerReport> {
        &self.reports
    }

    /// Another sender of such reports: for those of workers on other machines.
    pub fn reporter(&self) -> MailboxSender<WorkerReport> {
        self.reports.sender()
    }

    /// How long ago workers were restarted, within the window of the budget.
    pub fn spent_restarts(&self) -> Vec<Duration> {
        self.spent_restarts.read()
    }

    /// How many workers run; abandoned threads do not count.
    pub fn n_running(&self) -> usize {
        self.board.lock().running().count()
    }

    /// What every worker is doing now, abandoned threads that have not ended included.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.board.lock().statuses()
    }

    /// Waits for all threads to end, for at most `timeout`. Drop the run's shutdown guard first; a worker
    /// then ends after at most one step of its environments.
    pub fn join(self, timeout: Duration) -> JoinOutcome {
        // Threads that have not begun end without beginning.
        drop(self.go);
        if self.ended.sleep(timeout).is_err() {
            // Dropping its guard was the supervisor's last act, so its join does not block.
            let _ = self.supervisor.join();
        }
        let board = self.board.lock();
        JoinOutcome { failure: board.failure.clone(), not_joined: board.not_ended(), unread: self.reports.drain() }
    }
}

/// Makes so many workers, from the first number on; all have the spaces of the first.
fn make_workers(
    config: &WorkerSetConfig,
    n: usize,
    shared: &Shared,
    seats: Vec<SeatState>,
) -> Result<Vec<SupervisedWorker>, StartError> {
    let mut saved = seats.into_iter();
    let mut seats = (config.first_worker..).take(n).map(|number| {
        // A monitor keeps observations only for the report of a hang.
        let monitor = match config.env_hang_timeout {
            Some(_) => CallMonitor::keeping_observations(),
            None => CallMonitor::new(),
        };
        match saved.next() {
            Some(saved) => WorkerSeat::resumed(number, monitor, saved),
            None => WorkerSeat::first(number, monitor),
        }
    });
    let mut workers: Vec<SupervisedWorker> = Vec::new();
    // More at a time would only share the cores.
    let at_a_time = thread::available_parallelism().map_or(1, usize::from);
    while workers.len() < n {
        for worker in start_together(shared, seats.by_ref().take(at_a_time))? {
            let first = workers.first().and_then(SupervisedWorker::env_spec);
            if let (Some(first), Some(this)) = (first, worker.env_spec())
                && !this.has_spaces_of(&first)
            {
                let (first, this) = (Box::new(first), Box::new(this));
                let (thread, first_thread) = (worker.thread.clone(), thread_name(config.first_worker));
                return Err(StartError::SpacesDiffer { thread, first_thread, first, this });
            }
            workers.push(worker);
        }
    }
    Ok(workers)
}

/// Makes the workers of these seats, each on a thread of its own: environments may take seconds to start.
fn start_together(
    shared: &Shared,
    seats: impl Iterator<Item = WorkerSeat>,
) -> Result<Vec<SupervisedWorker>, StartError> {
    thread::scope(|scope| {
        let spawn = |seat: WorkerSeat| {
            let (thread, shared) = (thread_name(seat.worker), shared.clone());
            let made = thread::Builder::new()
                .name(thread.clone())
                .spawn_scoped(scope, move || SupervisedWorker::start(shared, seat))
                .map_err(|cause| StartError::Spawn { thread: thread.clone(), cause })?;
            Ok((thread, made))
        };
        // All are spawned before the first is waited for.
        let making = seats.map(spawn).collect::<Result<Vec<_>, StartError>>()?;
        let made = |(thread, made): (String, ScopedJoinHandle<'_, Result<SupervisedWorker, BuildError>>)| {
            // It catches the panics of environments; any other is passed on as one.
            let made = made.join().unwrap_or_else(|panic| resume_unwind(panic));
            made.map_err(|cause| StartError::Worker { thread, cause: Box::new(cause) })
        };
        // All are waited for, so that what a failed start drops is dropped here.
        let made: Vec<_> = making.into_iter().map(made).collect();
        made.into_iter().collect()
    })
}

#[cfg(test)]
mod tests;
