//! Workers on threads: all of them start or none does, and each ends as a value.

mod error;

use std::num::{NonZeroU32, NonZeroUsize};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use pronk_buffer::{Bell, Closed, InqueueSender, Mailbox, MailboxSender, MultiAgentBatch, Tether, WeightCell, mailbox};
use pronk_metrics::{ByPolicy, StateClock, TimeLedger};
use pronk_policy::Params;

use crate::failure::catch;
use crate::report::{WorkerFailure, WorkerReport};
use crate::sampler::{AnyEnvSpec, MakeSampler};
use crate::supervise::{NoFragment, RestartPolicy, SupervisedWorker, thread_name};
use crate::worker::{BuildError, SHUTDOWN, WorkerState};

pub use error::StartError;

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
    /// How a worker whose environments fail is restarted.
    pub restart: RestartPolicy,
}

/// The edges between the workers and the rest of the run.
#[derive(Clone, Debug)]
pub struct WorkerEdges {
    /// Forward: where fragments go.
    pub fragments: InqueueSender<MultiAgentBatch>,
    /// Backward: where weights come from.
    pub weights: WeightCell<ByPolicy<Params>>,
    /// Sideways: rung with every report.
    pub bell: Bell,
    /// Where each thread's time is kept.
    pub time: TimeLedger,
}

/// Workers on threads.
///
/// Each worker takes the newest weights, makes a fragment, reports and pushes; a full inqueue blocks it. It ends when the
/// run's lifeline is dropped, when nobody takes fragments any more, or when it gives up after too many failures in a row.
/// Then it lets go of its end of the inqueue, so that with the last worker the inqueue closes.
///
/// ```
/// use std::num::{NonZeroU32, NonZeroUsize};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pronk_buffer::{Bell, Gate, Pool, inqueue, lifeline, weight_cell};
/// use pronk_metrics::{ByPolicy, StepLedger, TimeLedger, default_policy};
/// use pronk_policy::{CpuNetwork, Gaussian, NetworkSpec};
/// use pronk_rollout::{
///     CartPole, EnvContext, RestartPolicy, RolloutWorker, Sampler, WorkerConfig, WorkerEdges, WorkerLinks, WorkerSet,
///     WorkerSetConfig, probe_spec,
/// };
///
/// let factory = Arc::new(|_: &EnvContext| CartPole::new());
/// let spec = probe_spec(factory.as_ref(), 0)?;
/// let network = NetworkSpec::for_spaces(&spec.observation, &spec.action)?;
/// let (_publisher, weights) = weight_cell(ByPolicy::from([(default_policy(), network.init_params(0)?)]));
/// let (lifeline, tether) = lifeline();
/// let (sender, fragments) = inqueue(2, Gate::Bounded, &tether)?;
///
/// let config = |worker| WorkerConfig {
///     worker,
///     seed: 0,
///     num_envs_per_worker: NonZeroUsize::new(4).expect("4 > 0"),
///     rollout_fragment_length: NonZeroUsize::new(8).expect("8 > 0"),
///     gaussian: Gaussian::default(),
/// };
/// let links = WorkerLinks { pool: Pool::new(4), steps: StepLedger::new(), tether: tether.clone() };
/// let make = |worker| {
///     let network = Box::new(CpuNetwork::new(&network)?);
///     let worker = RolloutWorker::new(config(worker), factory.clone(), network, links.clone())?;
///     Ok(Box::new(worker) as Box<dyn Sampler>)
/// };
/// let set = WorkerSetConfig {
///     num_rollout_workers: NonZeroU32::new(2).expect("2 > 0"),
///     restart: RestartPolicy::default(),
/// };
/// let edges = WorkerEdges { fragments: sender, weights, bell: Bell::new(), time: TimeLedger::new() };
/// let workers = WorkerSet::start(set, &make, tether, edges)?;
/// assert_eq!(fragments.pop(Duration::from_secs(10))?.env_steps(), 32);
///
/// drop(lifeline);
/// let outcome = workers.join(Duration::from_secs(1));
/// assert!(outcome.failure.is_none() && outcome.not_joined.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkerSet {
    reports: Mailbox<WorkerReport>,
    threads: Vec<WorkerThread>,
    ended: Receiver<Ended>,
}

struct WorkerThread {
    name: String,
    handle: JoinHandle<()>,
}

/// The last word of a thread.
struct Ended {
    /// Which of the set's threads.
    index: usize,
    result: Result<(), WorkerFailure>,
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
    /// Has `make` make every worker, from number 1, on the calling thread, one after the other, and starts their threads
    /// once all are there. The pauses before restarts end when `tether` is cut.
    ///
    /// # Errors
    /// The first worker that could not be made, or that has other spaces than the first one. Then no thread has run.
    pub fn start(
        config: WorkerSetConfig,
        make: &MakeSampler<'_>,
        tether: Tether,
        edges: WorkerEdges,
    ) -> Result<Self, StartError> {
        let (sender, reports) = mailbox(MAILBOX_CAPACITY, &edges.bell);
        let build = |number| build_one(number, make, config.restart, &tether, &sender);
        let first = build(1)?;
        let spec = first.env_spec();
        let mut workers = vec![first];
        for number in 2..=config.num_rollout_workers.get() {
            let worker = build(number)?;
            check_spaces(number, &spec, worker.env_spec())?;
            workers.push(worker);
        }

        let (go, gate) = bounded(workers.len());
        let (ending, ended) = bounded(workers.len());
        let mut threads = Vec::with_capacity(workers.len());
        for (index, worker) in workers.into_iter().enumerate() {
            let name = worker.thread();
            let (clock, edges) = (worker.clock(), edges.clone());
            let (gate, ending) = (gate.clone(), ending.clone());
            let body = move || {
                // The gate closes unopened when a later thread could not be spawned.
                let result = match gate.recv() {
                    Ok(()) => run(worker, edges),
                    Err(_) => Ok(()),
                };
                // Refused only when the set is gone: then nobody is left who could be told.
                let _ = ending.send(Ended { index, result });
            };
            let handle = thread::Builder::new()
                .name(name.clone())
                .spawn(body)
                .map_err(|cause| StartError::Spawn { thread: name.clone(), cause })?;
            threads.push((WorkerThread { name, handle }, clock));
        }
        let threads = threads
            .into_iter()
            .map(|(thread, clock)| {
                edges.time.add(clock);
                // There is room for one message a thread, and this is its only one.
                let _ = go.send(());
                thread
            })
            .collect();
        Ok(Self { reports, threads, ended })
    }

    /// What the workers report.
    pub fn reports(&self) -> &Mailbox<WorkerReport> {
        &self.reports
    }

    /// How many threads have not ended.
    pub fn n_running(&self) -> usize {
        self.threads.len() - self.ended.len()
    }

    /// Waits for all threads to end, until one deadline for all of them.
    ///
    /// Drop the run's lifeline first; a worker then ends after at most one step of its environments.
    ///
    /// Blocks: for at most `timeout`.
    pub fn join(self, timeout: Duration) -> JoinOutcome {
        let began = Instant::now();
        let mut threads: Vec<Option<WorkerThread>> = self.threads.into_iter().map(Some).collect();
        let mut failure = None;
        while threads.iter().any(Option::is_some) {
            // Without a message before the deadline, or after every thread is gone, there is nothing more to learn.
            let Ok(Ended { index, result }) = self.ended.recv_timeout(timeout.saturating_sub(began.elapsed())) else {
                break;
            };
            // The message was the thread's last act, so its join does not wait.
            if let Some(thread) = threads[index].take() {
                let _ = thread.handle.join();
            }
            failure = failure.or(result.err());
        }
        JoinOutcome {
            failure,
            not_joined: threads.into_iter().flatten().map(|thread| thread.name).collect(),
            unread: self.reports.drain(),
        }
    }
}

/// Makes worker `number`.
fn build_one(
    number: u32,
    make: &MakeSampler<'_>,
    restart: RestartPolicy,
    tether: &Tether,
    reports: &MailboxSender<WorkerReport>,
) -> Result<SupervisedWorker, StartError> {
    let clock = StateClock::new(thread_name(number), WorkerState::Starting);
    let worker = catch(|| make(number))
        .unwrap_or_else(|text| Err(BuildError::Panic { what: "the making of the worker", text }))
        .map_err(|cause| StartError::Worker { thread: thread_name(number), cause: Box::new(cause) })?;
    Ok(SupervisedWorker::new(worker, restart, tether.clone(), reports.clone(), clock))
}

fn check_spaces(number: u32, first: &AnyEnvSpec, spec: AnyEnvSpec) -> Result<(), StartError> {
    if spec.has_spaces_of(first) {
        return Ok(());
    }
    Err(StartError::SpacesDiffer { thread: thread_name(number), first: Box::new(first.clone()), this: Box::new(spec) })
}

/// The body of a thread. A panic that no environment made ends it like any other failure, but for one while the worker is
/// taken down: by then its work is done.
fn run(mut worker: SupervisedWorker, edges: WorkerEdges) -> Result<(), WorkerFailure> {
    let result = catch(|| push_fragments(&mut worker, &edges)).unwrap_or_else(|text| Err(worker.panicked(text)));
    // First of all the inqueue closes: environments may take their time, or panic, when they are dropped.
    drop(edges);
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
        if let Err(Closed(mut unwanted)) = edges.fragments.push(fragment) {
            if let Some(ticket) = unwanted.take_ticket() {
                ticket.dropped(SHUTDOWN);
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
