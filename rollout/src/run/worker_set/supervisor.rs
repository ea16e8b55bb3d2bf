use std::collections::BTreeMap;
use std::time::Duration;

use pronk_buffer::ShutdownGuard;
use pronk_metrics::{StateClock, Steps, TimeLedger, thread_states};

use super::status_board::{Member, StatusBoard};
use crate::env::{CallMonitor, EnvCall, EnvFailure, EnvFailureCause, HangDetector, poll_interval};
use crate::run::edges::CurrentEnds;
use crate::run::failure::{WorkerFailure, WorkerFailureCause};
use crate::run::report::WorkerReport;
use crate::run::start_error::StartError;
use crate::run::supervised::{Shared, SupervisedWorker, thread_name};
use crate::run::worker_loop::run_worker;
use crate::sync::Arc;
use crate::sync::channel::{Receiver, Sender, after, bounded, never, select};
use crate::sync::thread::{self, JoinHandle};
use crate::worker::{AnyEnvSpec, NOT_TRAINED, WorkerSeat, WorkerState};

/// The longest time between two checks for hangs.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason under which the steps of a worker that hangs are lost.
const ENV_HANG: &str = "env_hang";

thread_states! {
    /// What the supervisor thread does.
    pub enum SupervisorState {
        /// Waiting until a worker ends, or for the next check for hangs.
        Watching = "watching",
        /// Replacing a worker that hangs.
        Replacing = "replacing",
    }
}

/// The watchdog of a set: joins the threads that end, and replaces those that hang.
pub(super) struct Supervisor {
    pub(super) env_hang_timeout: Option<Duration>,
    /// What the environments of all workers are.
    pub(super) spec: Option<AnyEnvSpec>,
    pub(super) shared: Shared,
    /// Where each thread's time is booked.
    pub(super) time: TimeLedger,
    pub(super) board: StatusBoard,
    pub(super) threads: Threads,
    pub(super) clock: StateClock<SupervisorState>,
}

impl Supervisor {
    /// Starts the thread, which ends when all workers have or `unwanted` closes, and drops `ending`.
    pub(super) fn spawn(self, unwanted: Receiver<()>, ending: ShutdownGuard) -> Result<JoinHandle<()>, StartError> {
        let name = "supervisor".to_owned();
        let body = move || {
            self.run(&unwanted);
            drop(ending);
        };
        thread::Builder::new().name(name.clone()).spawn(body).map_err(|cause| StartError::Spawn { thread: name, cause })
    }

    fn run(mut self, unwanted: &Receiver<()>) {
        let mut hang_detectors = BTreeMap::new();
        let interval = self.env_hang_timeout.map(|timeout| poll_interval(timeout).min(MAX_CHECK_INTERVAL));
        let ended = self.threads.ended.clone();
        while self.board.lock().running().count() > 0 {
            let check = interval.map_or_else(never, after);
            select! {
                recv(ended) -> end => match end {
                    Ok(ThreadEnd { id, result }) => self.ended(id, result),
                    Err(_) => return,
                },
                recv(unwanted) -> _ => return,
                recv(check) -> _ => self.check_for_hangs(&mut hang_detectors),
            }
        }
    }

    fn ended(&mut self, id: usize, result: Result<(), WorkerFailure>) {
        self.threads.join(id);
        // One change, so that a reader who finds no worker finds the failure.
        let mut board = self.board.lock();
        if let Err(failure) = result {
            board.failure.get_or_insert(failure);
        }
        board.remove(id);
    }

    /// Replaces the workers that have been in one call for `env_hang_timeout`.
    fn check_for_hangs(&mut self, hang_detectors: &mut BTreeMap<usize, HangDetector>) {
        let Some(timeout) = self.env_hang_timeout else { return };
        let running: Vec<_> = self.board.lock().running().cloned().collect();
        hang_detectors.retain(|id, _| running.iter().any(|member| member.id == *id));
        for member in running {
            let hang_detector = hang_detectors.entry(member.id).or_insert_with(HangDetector::new);
            if let Some((call, silent_for)) = hang_detector.poll(&member.monitor)
                && silent_for >= timeout
                // At the end of a run a worker is not replaced; `join` names those that hang.
                && !self.shared.token.is_shut_down()
            {
                self.clock.enter(SupervisorState::Replacing);
                self.replace(&member, &call, silent_for);
                self.clock.enter(SupervisorState::Watching);
            }
        }
    }

    /// Abandons a thread, and starts another in its place if the budget allows it.
    fn replace(&mut self, member: &Member, call: &EnvCall, silent_for: Duration) {
        // One that has dropped its ends only has its environments left to drop.
        if member.ends.are_taken() {
            return;
        }
        // `None` when the call has come back in this very moment.
        let Some(taken) = member.monitor.take_over(call) else { return };
        if taken.steps.env > 0 || taken.steps.agent > 0 {
            self.shared.steps.sampled(taken.steps).lost(ENV_HANG);
        }
        if taken.untrained > 0 {
            self.shared.steps.sampled(Steps { env: 0, agent: taken.untrained }).dropped(NOT_TRAINED);
        }
        let failure = EnvFailure {
            env: self.spec.as_ref().map(|spec| spec.name().to_owned()).unwrap_or_default(),
            worker: member.worker,
            incarnation: call.incarnation,
            index: call.index,
            place: call.place,
            cause: EnvFailureCause::Hang { silent_for, last_obs: taken.last_obs },
            steps_made: 0,
        };
        let abandoned = vec![format!("{}: {failure}", member.thread)].into();
        let mut report = WorkerReport { abandoned, ..WorkerReport::default() };
        report.add_failure(failure.to_string());
        let (budget, failure) = (&self.shared.budget, Arc::new(failure));
        let paid = budget.count(&member.failures, Arc::clone(&failure)).and_then(|()| budget.spend(failure));
        // If there is no replacement, they are dropped: the lane closes, and the inqueue with the last one.
        let ends = member.ends.take();
        match paid.and_then(|()| self.start_replacement(member, call.incarnation + 1, ends)) {
            Ok(()) => report.restarts = 1,
            Err(cause) => {
                let consecutive_failures = member.failures.len();
                let failure = WorkerFailure { thread: member.thread.clone(), consecutive_failures, cause };
                let mut board = self.board.lock();
                board.failure.get_or_insert_with(|| failure.clone());
                board.abandon(member.id);
                report.ended.push(failure);
            }
        }
        self.shared.failures.note(&report);
        // Refused only when the reader is gone: then the report is not wanted.
        let _ = self.shared.reports.post(report);
    }

    fn start_replacement(
        &mut self,
        member: &Member,
        incarnation: u32,
        ends: CurrentEnds,
    ) -> Result<(), WorkerFailureCause> {
        let (worker, slots) = (member.worker, Arc::clone(&member.slots));
        let monitor = CallMonitor::keeping_observations();
        let seat = WorkerSeat { worker, incarnation, monitor, slots, resume: None };
        let thread = self.threads.name_replacement(member.worker);
        let mut worker =
            SupervisedWorker::unmade(self.shared.clone(), seat, thread, self.spec.clone(), WorkerState::Restarting);
        worker.restarts.failures = member.failures.clone();
        self.time.add(worker.clock.reader());
        let replacement = {
            // One change, so that no reader finds the set without this worker.
            let mut board = self.board.lock();
            board.abandon(member.id);
            board.add(&worker, ends)
        };
        let id = replacement.id;
        self.threads.spawn(replacement, worker, None).map_err(|error| {
            self.board.lock().remove(id);
            WorkerFailureCause::NoThread(Arc::new(error))
        })
    }
}

/// The threads of a set, and the channel on which they announce their ends.
pub(super) struct Threads {
    handles: BTreeMap<usize, JoinHandle<()>>,
    /// How often each worker was replaced.
    replaced: BTreeMap<u32, u32>,
    sender: Sender<ThreadEnd>,
    ended: Receiver<ThreadEnd>,
}

/// A worker's thread ends now.
struct ThreadEnd {
    id: usize,
    result: Result<(), WorkerFailure>,
}

impl Threads {
    /// Room for the ends of `n` threads; more wait for the supervisor.
    pub(super) fn new(n: usize) -> Self {
        let (sender, ended) = bounded(n);
        Self { handles: BTreeMap::new(), replaced: BTreeMap::new(), sender, ended }
    }

    /// Starts the thread of a worker, which waits for a message from `gate`, if there is one, and ends if
    /// that closes.
    pub(super) fn spawn(
        &mut self,
        member: Member,
        worker: SupervisedWorker,
        gate: Option<Receiver<()>>,
    ) -> Result<(), StartError> {
        let (id, ends, sender) = (member.id, member.ends, self.sender.clone());
        let body = move || {
            let begins = gate.is_none_or(|gate| gate.recv().is_ok());
            let result = if begins { run_worker(worker, &ends) } else { Ok(()) };
            // Refused only when the supervisor is gone: then it is not wanted.
            let _ = sender.send(ThreadEnd { id, result });
        };
        let spawned = thread::Builder::new().name(member.thread.clone()).spawn(body);
        let handle = spawned.map_err(|cause| StartError::Spawn { thread: member.thread, cause })?;
        self.handles.insert(id, handle);
        Ok(())
    }

    /// Joins a thread that has announced its end, which does not block.
    fn join(&mut self, id: usize) {
        if let Some(handle) = self.handles.remove(&id) {
            let _ = handle.join();
        }
    }

    /// The name of the thread that replaces the worker's current one: `rollout-3.1`, `rollout-3.2`, …
    fn name_replacement(&mut self, worker: u32) -> String {
        let replaced = self.replaced.entry(worker).or_default();
        *replaced += 1;
        format!("{}.{replaced}", thread_name(worker))
    }
}
