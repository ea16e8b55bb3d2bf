use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
use pronk_buffer::{ShutdownGuard, WorkerEnds};
use pronk_metrics::{ByPolicy, StateClock, TimeLedger, thread_states};
use pronk_policy::Params;

use super::status_board::{Member, StatusBoard};
use crate::env::{CallMonitor, EnvCall, EnvFailure, EnvFailureCause, HangDetector, poll_interval};
use crate::run::failure::{WorkerFailure, WorkerFailureCause};
use crate::run::report::WorkerReport;
use crate::run::start_error::StartError;
use crate::run::supervised::{Shared, SupervisedWorker, thread_name};
use crate::run::worker_loop::run_worker;
use crate::worker::{AnyEnvSpec, WorkerSeat, WorkerState};

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
    /// Of each worker, for replacements. They are dropped when the worker leaves, so that its lane closes,
    /// and the inqueue with the last one.
    pub(super) ends: BTreeMap<u32, WorkerEnds<ByPolicy<Params>>>,
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
        let events = self.threads.events.clone();
        while self.board.lock().running().count() > 0 {
            let check = interval.map_or_else(never, after);
            select! {
                recv(events) -> event => match event {
                    Ok(ThreadEvent::Left { id }) => self.left(id),
                    Ok(ThreadEvent::Ended { id, result }) => self.ended(id, result),
                    Err(_) => return,
                },
                recv(unwanted) -> _ => return,
                recv(check) -> _ => self.check_for_hangs(&mut hang_detectors),
            }
        }
    }

    /// Drops the ends of a worker that has dropped its own.
    fn left(&mut self, id: usize) {
        if let Some(worker) = self.threads.pushing.remove(&id) {
            self.ends.remove(&worker);
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
        let Some(ends) = self.ends.get(&member.worker).cloned() else { return };
        // `None` when the call has come back in this very moment.
        let Some(taken) = member.monitor.take_over(call) else { return };
        if taken.steps.env > 0 || taken.steps.agent > 0 {
            self.shared.steps.sampled(taken.steps).lost(ENV_HANG);
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
        let paid = self.shared.budget.spend(Arc::new(failure));
        match paid.and_then(|()| self.start_replacement(member, call.incarnation + 1, ends)) {
            Ok(()) => {
                self.threads.pushing.remove(&member.id);
                report.restarts = 1;
            }
            Err(cause) => {
                self.left(member.id);
                let failure = WorkerFailure { thread: member.thread.clone(), consecutive_failures: 1, cause };
                let mut board = self.board.lock();
                board.failure.get_or_insert_with(|| failure.clone());
                board.abandon(member.id);
                report.ended.push(failure);
            }
        }
        // Refused only when the reader is gone: then the report is not wanted.
        let _ = self.shared.reports.post(report);
    }

    fn start_replacement(
        &mut self,
        member: &Member,
        incarnation: u32,
        ends: WorkerEnds<ByPolicy<Params>>,
    ) -> Result<(), WorkerFailureCause> {
        let (worker, slots) = (member.worker, Arc::clone(&member.slots));
        let monitor = CallMonitor::keeping_observations();
        let seat = WorkerSeat { worker, incarnation, monitor, slots, resume: None };
        let thread = self.threads.name_replacement(member.worker);
        let worker =
            SupervisedWorker::unmade(self.shared.clone(), seat, thread, self.spec.clone(), WorkerState::Restarting);
        self.time.add(worker.clock.reader());
        let replacement = {
            // One change, so that no reader finds the set without this worker.
            let mut board = self.board.lock();
            board.abandon(member.id);
            board.add(&worker)
        };
        let id = replacement.id;
        self.threads.spawn(replacement, worker, ends, None).map_err(|error| {
            self.board.lock().remove(id);
            WorkerFailureCause::NoThread(Arc::new(error))
        })
    }
}

/// The threads of a set, and the channel on which they announce their ends.
pub(super) struct Threads {
    handles: BTreeMap<usize, JoinHandle<()>>,
    /// Threads that still hold their worker's ends, and the number of the worker.
    pushing: BTreeMap<usize, u32>,
    /// How often each worker was replaced.
    replaced: BTreeMap<u32, u32>,
    sender: Sender<ThreadEvent>,
    events: Receiver<ThreadEvent>,
}

/// What a worker's thread announces.
enum ThreadEvent {
    /// It dropped its ends of the edges.
    Left { id: usize },
    /// It ends now.
    Ended { id: usize, result: Result<(), WorkerFailure> },
}

impl Threads {
    /// Room for the events of `n` threads; more wait for the supervisor.
    pub(super) fn new(n: usize) -> Self {
        let (sender, events) = bounded(2 * n);
        Self { handles: BTreeMap::new(), pushing: BTreeMap::new(), replaced: BTreeMap::new(), sender, events }
    }

    /// Starts the thread of a worker, which waits for a message from `gate`, if there is one, and ends if
    /// that closes.
    pub(super) fn spawn(
        &mut self,
        member: Member,
        worker: SupervisedWorker,
        ends: WorkerEnds<ByPolicy<Params>>,
        gate: Option<Receiver<()>>,
    ) -> Result<(), StartError> {
        let (id, number, sender) = (member.id, member.worker, self.sender.clone());
        let body = move || {
            // Refused only when the supervisor is gone: then the events are not wanted.
            let send = |event| drop(sender.send(event));
            let result = match gate.is_none_or(|gate| gate.recv().is_ok()) {
                true => run_worker(worker, ends, || send(ThreadEvent::Left { id })),
                false => Ok(()),
            };
            send(ThreadEvent::Ended { id, result });
        };
        let spawned = thread::Builder::new().name(member.thread.clone()).spawn(body);
        let handle = spawned.map_err(|cause| StartError::Spawn { thread: member.thread, cause })?;
        self.handles.insert(id, handle);
        self.pushing.insert(id, number);
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
