//! Workers on threads: all of them start or none does, each ends as a value, and one that hangs is replaced.

mod edges;
mod error;
mod status_board;
mod supervisor;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use pronk_buffer::{Mailbox, ShutdownToken, mailbox};
use pronk_metrics::StateClock;

use super::budget::RestartBudget;
use super::failure::WorkerFailure;
use super::report::WorkerReport;
use super::supervise::{SupervisedWorker, Supervision, thread_name};
use crate::env::CallMonitor;
use crate::worker::{AnyEnvSpec, MakeWorker, RestartPolicy, WorkerSeat, WorkerState};

use status_board::StatusBoard;
use supervisor::{Supervisor, Threads};

pub use edges::WorkerEdges;
pub use error::StartError;
pub use status_board::WorkerStatus;
pub use supervisor::SupervisorState;

/// Reports that wait unread before they are folded together.
const MAILBOX_CAPACITY: NonZeroUsize = match NonZeroUsize::new(16) {
    Some(capacity) => capacity,
    None => NonZeroUsize::MIN,
};

/// How many workers a set has, and how they are kept going.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSetConfig {
    /// How many workers, each on its thread: `rollout-1`, `rollout-2`, …
    pub num_rollout_workers: NonZeroU32,
    /// How workers whose environments fail are restarted.
    pub restart: RestartPolicy,
    /// How long a call of an environment may take before it counts as hanging and the worker is replaced; `None` waits for
    /// ever.
    pub env_hang_timeout: Option<Duration>,
}

/// Workers on threads.
///
/// Each worker takes the newest weights, makes a fragment, reports and pushes; a full inqueue blocks it. It ends when the
/// run's shutdown guard is dropped, when nobody takes fragments any more, when the limit of the step ledger is reached, or when it gives up
/// after too many failures in a row.
/// Then it lets go of its end of the inqueue, so that with the last worker the inqueue closes.
///
/// # Environments that hang
/// One more thread, `supervisor`, looks at what the workers are doing. When a call of an environment has not come back for
/// `env_hang_timeout`, nothing can end it, so its thread is abandoned and named in a report with environment, seed, step and
/// the last observation; its fragment is lost to `env_hang`, and another thread, such as `rollout-3.1`, takes its worker's
/// place. Should the call come back after all, the thread finds that it was replaced, and ends.
///
/// ```
/// use std::num::{NonZeroU32, NonZeroUsize};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pronk_buffer::{Notifier, Gate, Pool, inqueue, shutdown, weight_cell};
/// use pronk_metrics::{ByPolicy, StepLedger, TimeLedger, default_policy};
/// use pronk_policy::{CpuNetwork, GaussianConfig, NetworkSpec};
/// use pronk_rollout::{
///     CartPole, EnvContext, RestartPolicy, RolloutWorker, WorkerConfig, WorkerEdges, WorkerLinks, WorkerSeat,
///     WorkerSet, WorkerSetConfig, probe_spec,
/// };
///
/// let factory = Arc::new(|_: &EnvContext| CartPole::new());
/// let spec = probe_spec(factory.as_ref(), 0)?;
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let (_publisher, weights) = weight_cell(ByPolicy::from([(default_policy(), network.init_params(0)?)]));
/// let (shutdown, token) = shutdown();
/// let (sender, fragments) = inqueue(2, Gate::Bounded, &token)?;
/// let (pool, steps) = (Pool::new(4), StepLedger::new());
/// let edges =
///     WorkerEdges { fragments: sender, weights, notifier: Notifier::new(), time: TimeLedger::new(), steps: steps.clone() };
///
/// let of_run = token.clone();
/// let make = move |seat: &WorkerSeat| {
///     let config = WorkerConfig {
///         worker: seat.worker,
///         incarnation: seat.incarnation,
///         seed: 0,
///         num_envs_per_worker: NonZeroUsize::new(4).expect("4 > 0"),
///         rollout_fragment_length: NonZeroUsize::new(8).expect("8 > 0"),
///         gaussian: GaussianConfig::default(),
///     };
///     let links = WorkerLinks::new(pool.clone(), steps.clone(), of_run.clone());
///     let links = WorkerLinks { monitor: seat.monitor.clone(), ..links };
///     let network = Box::new(CpuNetwork::new(&network)?);
///     let worker = RolloutWorker::new(config, factory.clone(), network, links)?;
///     Ok(worker)
/// };
/// let set = WorkerSetConfig {
///     num_rollout_workers: NonZeroU32::new(2).expect("2 > 0"),
///     restart: RestartPolicy::default(),
///     env_hang_timeout: Some(Duration::from_secs(60)),
/// };
/// let workers = WorkerSet::start(set, Arc::new(make), token, edges)?;
/// assert_eq!(fragments.pop(Duration::from_secs(10))?.env_steps(), 32);
///
/// drop(shutdown);
/// let outcome = workers.join(Duration::from_secs(1));
/// assert!(outcome.failure.is_none() && outcome.not_joined.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkerSet {
    reports: Mailbox<WorkerReport>,
    board: StatusBoard,
    supervisor: JoinHandle<()>,
    /// Closes when the supervisor has ended.
    over: Receiver<()>,
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
    /// The names of the threads that had not ended at the deadline. They are left to themselves: nothing can end a
    /// thread from outside, and a process can end without them.
    pub not_joined: Vec<String>,
    /// The reports that nobody had read.
    pub unread: Vec<WorkerReport>,
}

impl WorkerSet {
    /// Makes all workers, one after the other on the calling thread, and starts their threads; `make` is kept for those that
    /// replace others.
    ///
    /// # Errors
    /// When a worker cannot be made, or has other spaces than the first, or when the system gives no thread. Then no
    /// environment has been reset and nothing is left running.
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

    /// As [`start`](Self::start), but the workers make no fragment before [`begin`](Self::begin): so that what they are to keep to, such
    /// as a limit of the step ledger, can be set first.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn prepare(
        config: WorkerSetConfig,
        make: Arc<MakeWorker>,
        token: ShutdownToken,
        edges: WorkerEdges,
    ) -> Result<Self, StartError> {
        let (sender, reports) = mailbox(MAILBOX_CAPACITY, &edges.notifier);
        let budget = RestartBudget::new(config.restart);
        let build = |worker| {
            let thread = thread_name(worker);
            let seat = WorkerSeat { worker, incarnation: 0, monitor: monitor(&config) };
            let clock = StateClock::new(thread.clone(), WorkerState::Starting);
            let supervision = Supervision {
                make: Arc::clone(&make),
                seat: seat.clone(),
                spaces: None,
                thread: thread.clone(),
                budget: budget.clone(),
                steps: edges.steps.clone(),
                token: token.clone(),
                reports: sender.clone(),
                clock,
            };
            match SupervisedWorker::make(supervision) {
                Ok(worker) => Ok((seat, worker)),
                Err(cause) => Err(StartError::Worker { thread, cause: Box::new(cause) }),
            }
        };
        let first = build(1)?;
        let spec = first.1.env_spec();
        let mut workers = vec![first];
        for number in 2..=config.num_rollout_workers.get() {
            let worker = build(number)?;
            check_spaces(number, spec.as_ref(), worker.1.env_spec())?;
            workers.push(worker);
        }

        let (board, mut threads) = (StatusBoard::default(), Threads::new(workers.len()));
        let (go, gate) = bounded(workers.len());
        let mut clocks = Vec::with_capacity(workers.len());
        for (seat, worker) in workers {
            clocks.push(worker.clock());
            let member = board.add(&seat, &worker);
            let gate = gate.clone();
            // The gate closes unopened when a later thread could not be spawned, or the set is joined before it has begun.
            threads.spawn(member, worker, edges.clone(), move || gate.recv().is_ok())?;
        }
        let (wanted, unwanted) = bounded(0);
        let (ending, over) = bounded(0);
        let time = edges.time.clone();
        let supervisor = Supervisor {
            env_hang_timeout: config.env_hang_timeout,
            make,
            spec,
            token,
            edges: Some(edges),
            reports: sender,
            budget,
            board: board.clone(),
            threads,
            clock: StateClock::new("supervisor", SupervisorState::Watching),
        };
        clocks.push(supervisor.clock.reader());
        let supervisor = supervisor.spawn(unwanted, ending)?;
        for clock in clocks {
            time.add(clock);
        }
        Ok(Self { reports, board, supervisor, over, go: Some(go), _wanted: wanted })
    }

    /// Has the workers begin, unless they have.
    pub fn begin(&mut self) {
        if let Some(go) = self.go.take() {
            // There is room for one message of each thread, so that none of these is refused.
            for _ in 0..go.capacity().unwrap_or(0) {
                let _ = go.try_send(());
            }
        }
    }

    /// What the workers report.
    pub fn reports(&self) -> &Mailbox<WorkerReport> {
        &self.reports
    }

    /// How many workers are at work: those that were abandoned are not.
    pub fn n_running(&self) -> usize {
        self.board.n_running()
    }

    /// What every worker is doing now, and since when; those that were abandoned too, as long as they have not ended.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.board.read()
    }

    /// Waits for all threads to end, until one deadline for all of them.
    ///
    /// Drop the run's shutdown guard first; a worker then ends after at most one step of its environments.
    ///
    /// Blocks: for at most `timeout`.
    pub fn join(self, timeout: Duration) -> JoinOutcome {
        // Threads that have not begun wait for it, and end without.
        drop(self.go);
        // Nothing is ever sent: it closes.
        let over = self.over.recv_timeout(timeout);
        if over.is_err_and(|end| end.is_disconnected()) {
            // Closing was the supervisor's last act, so its join does not wait.
            let _ = self.supervisor.join();
        }
        JoinOutcome { failure: self.board.failure(), not_joined: self.board.not_ended(), unread: self.reports.drain() }
    }
}

/// The monitor of a new worker; observations are only kept where somebody may look at them.
fn monitor(config: &WorkerSetConfig) -> CallMonitor {
    match config.env_hang_timeout {
        Some(_) => CallMonitor::keeping_observations(),
        None => CallMonitor::new(),
    }
}

fn check_spaces(number: u32, first: Option<&AnyEnvSpec>, spec: Option<AnyEnvSpec>) -> Result<(), StartError> {
    match (first, spec) {
        (Some(first), Some(this)) if !this.has_spaces_of(first) => Err(StartError::SpacesDiffer {
            thread: thread_name(number),
            first: Box::new(first.clone()),
            this: Box::new(this),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
