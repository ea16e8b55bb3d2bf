//! [`Hosts`]: the learner's side, from opening the listening end to closing it.

use std::collections::BTreeSet;
use std::time::Duration;

use pronk_buffer::{InqueueSender, MailboxSender, MultiAgentBatch, Pool, WeightCell};
use pronk_metrics::{ByPolicy, PolicyId, StateClock, StepLedger, Steps, ThreadState, TimeLedger};
use pronk_policy::Params;
use pronk_rollout::WorkerReport;

use super::desk::{DeskRun, HostsDesk};
use super::inlet::{Inlet, InletState};
use super::keeper::{Keeper, KeeperState};
use super::store::Store;
use super::times::Times;
use crate::frame::Expected;
use crate::link::{Limits, LinkError, Listen, Listening};
use crate::sync::channel::{Sender, bounded};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Instant};
use crate::terms::{Terms, TermsError};
use crate::wire::{Facts, MAX_HEADER, Over, Welcome};

/// What is longer than a frame in a message: its header, with a statement of many causes.
const HEADER_ROOM: usize = 64 << 10;

/// Requests for weights that wait for the keeper.
const MAX_WEIGHTS_ASKED: usize = 1024;

/// What a learner tells and asks its hosts.
#[derive(Clone, Debug)]
pub struct HostsConfig {
    /// How it treats them.
    pub terms: Terms,
    /// What they build their workers by.
    pub welcome: Welcome,
    /// What must be equal on both sides.
    pub facts: Facts,
    /// What their fragments look like.
    pub expected: Expected,
    /// All policies of the run, those that are not trained among them.
    pub policies: BTreeSet<PolicyId>,
    /// The number of the first worker of the first host.
    pub first_worker: u32,
}

/// The edges between hosts and the rest of the run.
#[derive(Debug)]
pub struct HostEdges {
    /// Forward: where fragments go.
    pub fragments: InqueueSender<MultiAgentBatch>,
    /// Backward: where weights come from.
    pub weights: WeightCell<ByPolicy<Params>>,
    /// Sideways: where reports go.
    pub reports: MailboxSender<WorkerReport>,
    /// Where steps are counted. At its limit, hosts are told to begin no further fragment.
    pub steps: StepLedger,
    /// Where the time of hosts, and of the threads that serve them, is booked.
    pub time: TimeLedger,
    /// Storage of the fragments.
    pub pool: Pool,
}

/// Why hosts cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A setting cannot work.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// The listening end cannot be opened.
    #[error("hosts cannot be listened to: {0}")]
    Link(#[from] LinkError),
    /// There is no thread to serve them.
    #[error("the thread {thread} cannot be started: {cause}")]
    Thread {
        /// Its name.
        thread: &'static str,
        /// Why.
        cause: std::io::Error,
    },
}

/// The hosts of a run, and the threads that serve them.
///
/// Dropping it closes the listening end; hosts then look for the learner until their patience ends.
pub struct Hosts {
    desk: Arc<HostsDesk>,
    listening: Option<Box<dyn Listening>>,
    inlet: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    /// Closes when the keeper is to end.
    open: Option<Sender<()>>,
}

/// One host, as the learner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostStatus {
    /// Its name in results.
    pub name: String,
    /// Whether results show it by its name, as they do with 64 hosts.
    pub is_listed: bool,
    /// How many workers it has, those that gave up not counted.
    pub workers: usize,
    /// Workers that have given up.
    pub gave_up: u64,
    /// Fragments that have arrived.
    pub fragments: u64,
    /// Their env-steps.
    pub env_steps: u64,
    /// Bytes of these fragments, and of copies that came after them.
    pub bytes: u64,
    /// Bytes of weights that it was sent.
    pub weights_bytes: u64,
    /// Steps that were lost on the host.
    pub lost: Steps,
    /// Shipments that came again after they had been taken.
    pub duplicates: u64,
    /// Since when nothing was heard of it.
    pub silent: Duration,
}

/// All hosts of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostsStatus {
    /// Those that are there, in the order in which they joined.
    pub hosts: Vec<HostStatus>,
    /// How often a host has joined.
    pub joined: u64,
    /// How many fell silent.
    pub lost: u64,
}

impl Hosts {
    /// Opens the listening end and starts the threads `inlet` and `hosts`.
    ///
    /// # Errors
    /// A setting that cannot work, an address that cannot be listened on, or a thread that cannot start.
    pub fn open(listen: Box<dyn Listen>, config: HostsConfig, edges: HostEdges) -> Result<Self, OpenError> {
        let HostsConfig { terms, welcome, facts, expected, policies, first_worker } = config;
        let HostEdges { fragments, weights, reports, steps, time, pool } = edges;
        terms.check()?;
        let (parcels, received) = bounded(terms.max_parked() as usize);
        let (asked, requests) = bounded(MAX_WEIGHTS_ASKED);
        let (open, closed) = bounded(0);
        let store = Store::new(weights.clone(), terms.weights_piece);
        let version = weights.version_reader();
        let fragment = expected.most_steps();
        let limits = Limits {
            hosts: terms.max_hosts as usize,
            request_bytes: expected.max_bytes().max(MAX_HEADER).saturating_add(HEADER_ROOM),
        };
        let run = DeskRun {
            terms,
            expected: Arc::new(expected),
            fragment,
            policies,
            welcome,
            facts,
            steps,
            time: Times::new(time.clone()),
            version,
            reports,
            weights: asked,
        };
        let desk = Arc::new(HostsDesk::new(run, first_worker, parcels));
        let inlet = Inlet {
            desk: Arc::clone(&desk),
            fragments,
            pool,
            weights,
            clock: clock(&time, Inlet::NAME, InletState::Waiting),
        };
        let keeper = Keeper { desk: Arc::clone(&desk), store, clock: clock(&time, Keeper::NAME, KeeperState::Waiting) };
        let mut hosts = Self { desk, listening: None, inlet: None, keeper: None, open: Some(open) };
        hosts.inlet = Some(spawn(Inlet::NAME, move || inlet.run(&received))?);
        hosts.keeper = Some(spawn(Keeper::NAME, move || keeper.run(&requests, &closed))?);
        hosts.listening = Some(listen.listen(Arc::clone(&hosts.desk) as Arc<_>, limits)?);
        Ok(hosts)
    }

    /// Where actors reach the learner.
    pub fn address(&self) -> String {
        self.listening.as_ref().map(|listening| listening.address()).unwrap_or_default()
    }

    /// How many there are.
    pub fn n_hosts(&self) -> usize {
        self.desk.members().sessions.len()
    }

    /// How long a host may be silent before its session ends.
    pub fn lease(&self) -> Duration {
        self.desk.run.terms.lease
    }

    /// How many workers all hosts have.
    pub fn n_workers(&self) -> usize {
        self.desk.members().sessions.values().map(|session| session.workers.len()).sum()
    }

    /// What there is to say about every host.
    pub fn status(&self) -> HostsStatus {
        let members = self.desk.members();
        let mut sessions: Vec<_> = members.sessions.values().cloned().collect();
        let (joined, lost) = (members.joined, members.lost);
        drop(members);
        sessions.sort_by_key(|session| session.workers.start);
        let status = |session: &super::session::Session| {
            let state = session.lock();
            let figures = state.figures;
            HostStatus {
                name: session.name.clone(),
                is_listed: session.is_listed,
                workers: session.workers.len().saturating_sub(figures.gave_up as usize),
                gave_up: figures.gave_up,
                fragments: figures.fragments,
                env_steps: figures.env_steps,
                bytes: figures.bytes,
                weights_bytes: figures.weights_bytes,
                lost: figures.lost,
                duplicates: figures.duplicates,
                silent: state.seen.elapsed(),
            }
        };
        HostsStatus { hosts: sessions.iter().map(|session| status(session)).collect(), joined, lost }
    }

    /// Tells all hosts that the run is over, waits for what they report last, for at most `within`, and ends
    /// the threads. Steps that have not arrived are lost. Drop the run's shutdown guard first, so that the
    /// inlet does not wait for the inqueue.
    pub fn end(mut self, over: Over, within: Duration) {
        let began = Instant::now();
        self.desk.close(over);
        // A host answers as soon as it is told, so hardly any of this time passes, unless a host is cut off.
        while began.elapsed() < within && !self.desk.members().sessions.is_empty() {
            thread::park_timeout(Duration::from_millis(2));
        }
        self.close();
        for thread in [self.inlet.take(), self.keeper.take()].into_iter().flatten() {
            let _ = thread.join();
        }
    }

    /// Has the threads end.
    fn close(&mut self) {
        self.desk.close(Over::Stopped);
        self.desk.end_all();
        self.listening = None;
        self.open = None;
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.close();
    }
}

fn clock<S: ThreadState>(time: &TimeLedger, name: &str, first: S) -> StateClock<S> {
    let clock = StateClock::new(name, first);
    time.add(clock.reader());
    clock
}

fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let cause = |cause| OpenError::Thread { thread: name, cause };
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(cause)
}
