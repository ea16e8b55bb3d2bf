use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use pronk_buffer::{Closed, MailboxSender, ShutdownToken};
use pronk_metrics::{StateClock, catch, thread_states};
use tracing::debug_span;

use super::edges::WorkerEdges;
use super::error::StartError;
use super::status_board::{Member, StatusBoard};
use crate::env::{CallMonitor, EnvCall, EnvFailure, EnvFailureCause, HangDetector, poll_interval};
use crate::run::{
    NoFragment, RestartBudget, SupervisedWorker, Supervision, WorkerFailure, WorkerFailureCause, WorkerReport,
    thread_name,
};
use crate::worker::{AnyEnvSpec, MakeSampler, SHUTDOWN, WorkerSeat, WorkerState};

/// The longest time between two looks.
const RAREST: Duration = Duration::from_secs(1);

/// The reason under which the steps of a worker that hangs are lost.
const ENV_HANG: &str = "env_hang";

thread_states! {
    /// What the thread does that looks after the workers.
    pub enum SupervisorState {
        /// Waiting until a worker ends, or for the next look at them.
        Watching = "watching",
        /// Replacing a worker that hangs.
        Replacing = "replacing",
    }
}

/// Looks after the threads of a set: takes note of those that end, and replaces those that hang.
pub(super) struct Supervisor {
    pub(super) env_hang_timeout: Option<Duration>,
    pub(super) make: Arc<MakeSampler>,
    /// What the environments of all workers are.
    pub(super) spec: Option<AnyEnvSpec>,
    pub(super) token: ShutdownToken,
    /// For those that replace others; `None` once the last worker has left, so that the inqueue closes.
    pub(super) edges: Option<WorkerEdges>,
    pub(super) reports: MailboxSender<WorkerReport>,
    pub(super) budget: RestartBudget,
    pub(super) board: StatusBoard,
    pub(super) threads: Threads,
    pub(super) clock: StateClock<SupervisorState>,
}

impl Supervisor {
    /// Starts the thread. It ends when all threads have, or when `unwanted` closes; `ending` closes with it.
    pub(super) fn spawn(self, unwanted: Receiver<()>, ending: Sender<()>) -> Result<JoinHandle<()>, StartError> {
        let name = "supervisor".to_owned();
        let body = move || {
            self.run(&unwanted);
            drop(ending);
        };
        thread::Builder::new().name(name.clone()).spawn(body).map_err(|cause| StartError::Spawn { thread: name, cause })
    }

    fn run(mut self, unwanted: &Receiver<()>) {
        let mut hang_detectors = BTreeMap::new();
        let pause = self.env_hang_timeout.map(|timeout| poll_interval(timeout).min(RAREST));
        let news = self.threads.news.clone();
        while self.board.n_running() > 0 {
            let pause = pause.map_or_else(crossbeam_channel::never, crossbeam_channel::after);
            select! {
                recv(news) -> news => match news {
                    Ok(News::Leaves { id }) => self.left(id),
                    Ok(News::Ended { id, result }) => self.ended(id, result),
                    Err(_) => return,
                },
                recv(unwanted) -> _ => return,
                recv(pause) -> _ => self.look(&mut hang_detectors),
            }
        }
    }

    /// A worker dropped its channel handles. With the last one we drop ours, so that the inqueue closes at once: its environments
    /// may take their time to be dropped.
    fn left(&mut self, id: usize) {
        self.threads.pushing.remove(&id);
        if self.threads.pushing.is_empty() {
            self.edges = None;
        }
    }

    fn ended(&mut self, id: usize, result: Result<(), WorkerFailure>) {
        self.threads.join(id);
        // The failure is recorded before the worker is removed, so that a reader who finds no worker finds the failure.
        if let Err(failure) = result {
            self.board.fail(failure);
        }
        self.board.remove(id);
    }

    /// Looks which workers have been in the same call for too long.
    fn look(&mut self, hang_detectors: &mut BTreeMap<usize, HangDetector>) {
        let Some(timeout) = self.env_hang_timeout else { return };
        let running = self.board.running();
        hang_detectors.retain(|id, _| running.iter().any(|member| member.id == *id));
        for member in running {
            let hang_detector = hang_detectors.entry(member.id).or_insert_with(HangDetector::new);
            if let Some((call, silent_for)) = hang_detector.poll(&member.monitor)
                && silent_for >= timeout
                // Who hangs when the run ends is named by the join.
                && !self.token.is_shut_down()
            {
                self.clock.enter(SupervisorState::Replacing);
                self.replace(&member, &call, silent_for);
                self.clock.enter(SupervisorState::Watching);
            }
        }
    }

    /// Leaves a thread behind, and starts another in its place if the budget allows it.
    fn replace(&mut self, member: &Member, call: &EnvCall, silent_for: Duration) {
        let Some(edges) = self.edges.clone() else { return };
        // Or else it came back at this very moment.
        let Some(taken) = member.monitor.take_over(call) else { return };
        if taken.steps.env > 0 || taken.steps.agent > 0 {
            edges.steps.sampled(taken.steps).lost(ENV_HANG);
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
        self.threads.pushing.remove(&member.id);

        let replaced =
            self.budget.spend(Arc::new(failure)).and_then(|()| self.seat_another(member, call.incarnation + 1, edges));
        match replaced {
            Ok(()) => report.restarts = 1,
            Err(cause) => {
                self.left(member.id);
                let failure = WorkerFailure { thread: member.thread.clone(), consecutive_failures: 1, cause };
                self.board.fail(failure.clone());
                self.board.leave_behind(member.id);
                report.ended.push(failure);
            }
        }
        // Refused only when the reader is gone: then there is nobody to report to.
        let _ = self.reports.post(report);
    }

    fn seat_another(
        &mut self,
        member: &Member,
        incarnation: u32,
        edges: WorkerEdges,
    ) -> Result<(), WorkerFailureCause> {
        let worker = member.worker;
        let seat = WorkerSeat { worker, incarnation, monitor: CallMonitor::keeping_observations() };
        let thread = self.threads.name_another(worker);
        let clock = StateClock::new(thread_name(worker), WorkerState::Restarting);
        edges.time.add(clock.reader());
        let worker = SupervisedWorker::to_be_made(Supervision {
            make: Arc::clone(&self.make),
            seat: seat.clone(),
            spaces: self.spec.clone(),
            thread,
            budget: self.budget.clone(),
            steps: edges.steps.clone(),
            token: self.token.clone(),
            reports: self.reports.clone(),
            clock,
        });
        let another = self.board.replace(member.id, &seat, &worker);
        let id = another.id;
        self.threads.spawn(another, worker, edges, || true).map_err(|error| {
            self.board.remove(id);
            WorkerFailureCause::NoThread(Arc::new(error))
        })
    }
}

/// The threads of a set, and what they say of their ends.
pub(super) struct Threads {
    handles: BTreeMap<usize, JoinHandle<()>>,
    /// Workers that still hold their channel handles.
    pushing: BTreeSet<usize>,
    /// How often each worker was replaced.
    replaced: BTreeMap<u32, u32>,
    teller: Sender<News>,
    news: Receiver<News>,
}

/// What a thread says of its end.
enum News {
    /// It dropped its channel handles.
    Leaves { id: usize },
    /// Its last word.
    Ended { id: usize, result: Result<(), WorkerFailure> },
}

impl Threads {
    /// Room for the news of so many; with more, they wait for the supervisor.
    pub(super) fn new(n: usize) -> Self {
        let (teller, news) = bounded(2 * n);
        Self { handles: BTreeMap::new(), pushing: BTreeSet::new(), replaced: BTreeMap::new(), teller, news }
    }

    /// Starts the thread of a worker, which begins when `may_begin` has returned true.
    pub(super) fn spawn(
        &mut self,
        member: Member,
        worker: SupervisedWorker,
        edges: WorkerEdges,
        may_begin: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<(), StartError> {
        let (id, teller) = (member.id, self.teller.clone());
        let body = move || {
            let result = match may_begin() {
                true => run(worker, edges, || teller.send(News::Leaves { id }).is_ok()),
                false => Ok(()),
            };
            // Refused only when the supervisor is gone: then there is nobody to report to.
            let _ = teller.send(News::Ended { id, result });
        };
        let spawned = thread::Builder::new().name(member.thread.clone()).spawn(body);
        let handle = spawned.map_err(|cause| StartError::Spawn { thread: member.thread, cause })?;
        self.handles.insert(id, handle);
        self.pushing.insert(id);
        Ok(())
    }

    /// Joins a thread that has said its last word, which does not wait.
    fn join(&mut self, id: usize) {
        if let Some(handle) = self.handles.remove(&id) {
            let _ = handle.join();
        }
    }

    /// The name of the thread that replaces the worker's present one: `rollout-3.1`, `rollout-3.2`, …
    fn name_another(&mut self, worker: u32) -> String {
        let replaced = self.replaced.entry(worker).or_default();
        *replaced += 1;
        format!("{}.{replaced}", thread_name(worker))
    }
}

/// The body of a thread. A panic that no environment made ends it like any other failure, but for one while the worker is
/// taken down: by then its work is done.
fn run(mut worker: SupervisedWorker, edges: WorkerEdges, leaves: impl FnOnce() -> bool) -> Result<(), WorkerFailure> {
    let result = catch(|| push_fragments(&mut worker, &edges)).unwrap_or_else(|text| Err(worker.panicked(text)));
    // First of all the inqueue closes: environments may take their time, or panic, when they are dropped.
    drop(edges);
    leaves();
    worker.take_down();
    result
}

fn push_fragments(worker: &mut SupervisedWorker, edges: &WorkerEdges) -> Result<(), WorkerFailure> {
    loop {
        let fragment = match worker.next_fragment(&edges.weights, Duration::MAX) {
            Ok(fragment) => fragment,
            Err(NoFragment::TimedOut) => continue,
            Err(NoFragment::Closed) => return Ok(()),
            Err(NoFragment::Failed(failure)) => return Err(failure),
        };
        worker.enter(WorkerState::Blocked);
        let pushed = debug_span!("push").in_scope(|| edges.fragments.push(fragment));
        if let Err(Closed(mut unwanted)) = pushed {
            if let Some(ticket) = unwanted.take_ticket() {
                ticket.dropped(SHUTDOWN);
            }
            return Ok(());
        }
    }
}
