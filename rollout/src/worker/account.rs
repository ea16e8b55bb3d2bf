use pronk_buffer::Tag;
use pronk_metrics::{ByPolicy, StepTicket, Steps, catch};
use pronk_policy::Rng;

use super::config::{SHUTDOWN, WorkerLinks};
use crate::env::{CallGuard, EnvFailure, EpisodeStat, FailurePlace, ReturnStat, seed};
use crate::sync::atomic::Ordering;

/// The cause under which steps are lost of a column whose environment could not get back into its episode.
pub(super) const RESUME: &str = "resume";

/// The reason under which steps of frozen policies are dropped.
pub(crate) const NOT_TRAINED: &str = "not_trained";

/// What a worker reports besides fragments.
#[derive(Debug, Default)]
pub struct Collected {
    /// Episodes that ended, those of failed fragments included.
    pub episodes: Vec<EpisodeStat>,
    /// Returns of agents whose episodes ended, by policy. Empty for environments with one agent, whose
    /// returns are those of the episodes.
    pub policy_returns: ByPolicy<ReturnStat>,
    /// Failures that cost only some environments, which the worker rebuilds.
    pub failures: Vec<EnvFailure>,
    /// Abandoned threads, each with the call that it hangs in.
    pub abandoned: Vec<String>,
    /// Environments of a resumed run that could not get back into their episodes, each with the reason.
    pub restarted: Vec<String>,
}

/// Accounts for a worker's steps until [`book`](Self::book) counts them with their fragment, or
/// [`lose`](Self::lose) or [`give_up`](Self::give_up) without one; and tags fragments.
pub(super) struct Account {
    pub(super) links: WorkerLinks,
    worker: u32,
    incarnation: u32,
    /// Steps that are in no fragment yet; agent-steps are those of trained policies.
    made: Steps,
    /// Agent-steps of frozen policies.
    untrained: u64,
    pub(super) collected: Collected,
    /// Whether a failure was added since failures were last taken.
    has_new_failures: bool,
}

impl Account {
    pub(super) fn new(worker: u32, incarnation: u32, links: WorkerLinks) -> Self {
        Self {
            links,
            worker,
            incarnation,
            made: Steps::default(),
            untrained: 0,
            collected: Collected::default(),
            has_new_failures: false,
        }
    }

    pub(super) fn worker(&self) -> u32 {
        self.worker
    }

    pub(super) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Starts the next incarnation, before its environments are rebuilt.
    pub(super) fn begin_incarnation(&mut self) -> u32 {
        self.incarnation += 1;
        self.incarnation
    }

    /// How many fragments the worker's seat has completed.
    pub(super) fn slot(&self) -> u64 {
        self.links.slots.load(Ordering::Relaxed)
    }

    /// The tag of the fragment being made.
    pub(super) fn tag(&self, version: u64) -> Tag {
        let Self { worker, incarnation, .. } = *self;
        Tag { life: self.links.life, worker, incarnation, slot: self.slot(), version }
    }

    /// The random stream that draws the actions of the fragment being made; `policy` tells several apart.
    pub(super) fn acting_stream(&self, seed: u64, policy: u64) -> Rng {
        self.acting_stream_of(self.slot(), seed, policy)
    }

    /// The same for another fragment.
    pub(super) fn acting_stream_of(&self, slot: u64, seed: u64, policy: u64) -> Rng {
        let worker = seed::of_worker(self.worker);
        Rng::stream(seed, &[seed::ACTING, worker, self.incarnation.into(), slot, policy])
    }

    /// Steps that are in no fragment: of trained policies, and agent-steps of others.
    pub(super) fn save(&self) -> (Steps, u64) {
        (self.made, self.untrained)
    }

    /// Continues with those of a saved worker.
    pub(super) fn load(&mut self, made: Steps, untrained: u64) {
        self.untrained = untrained;
        self.add(made);
    }

    /// Refuses columns with more steps than were made: a file may hold any number.
    pub(super) fn check_columns(&self, steps: Steps) -> Result<(), String> {
        let Steps { env, agent } = self.made;
        let is_made = steps.env <= env && steps.agent <= agent;
        if is_made { Ok(()) } else { Err(format!("its columns have {steps:?}, and it has made {:?}", self.made)) }
    }

    /// Whether the run is ending, or another worker has replaced this one.
    pub(super) fn is_ending(&self) -> bool {
        self.links.token.is_shut_down() || self.links.monitor.is_taken_over()
    }

    /// Steps that are in no fragment yet.
    pub(super) fn made(&self) -> Steps {
        self.made
    }

    #[inline]
    pub(super) fn add(&mut self, steps: Steps) {
        self.made += steps;
        // The supervisor books these as lost if it replaces this worker because of a hang.
        self.links.monitor.set_unbooked(self.made, self.untrained);
    }

    /// Adds agent-steps of a frozen policy.
    pub(super) fn add_untrained(&mut self, steps: u64) {
        self.untrained += steps;
        self.links.monitor.set_unbooked(self.made, self.untrained);
    }

    pub(super) fn add_failure(&mut self, failure: EnvFailure) {
        self.collected.failures.push(failure);
        self.has_new_failures = true;
    }

    /// Whether an environment failed since the last call and since failures were taken.
    pub(super) fn take_new_failures(&mut self) -> bool {
        std::mem::take(&mut self.has_new_failures)
    }

    pub(super) fn take_collected(&mut self) -> Collected {
        self.has_new_failures = false;
        std::mem::take(&mut self.collected)
    }

    /// Counts the steps of a complete fragment as sampled; `None` if the supervisor has taken them over.
    pub(super) fn book(&mut self, steps: Steps) -> Option<StepTicket> {
        let ticket = self.count(steps)?;
        self.links.slots.fetch_add(1, Ordering::Relaxed);
        Some(ticket)
    }

    /// Books steps as lost to `cause`.
    pub(super) fn lose(&mut self, steps: Steps, cause: &'static str) {
        if let Some(ticket) = self.count(steps) {
            ticket.lost(cause);
        }
    }

    /// Books the rest as lost to `cause`, or without a cause as dropped at shutdown.
    pub(super) fn give_up(&mut self, cause: Option<&'static str>) {
        if self.made == Steps::default() && self.untrained == 0 {
            return;
        }
        match (self.count(self.made), cause) {
            (Some(ticket), Some(cause)) => ticket.lost(cause),
            (Some(ticket), None) => ticket.dropped(SHUTDOWN),
            (None, _) => {}
        }
    }

    /// Marks the worker as inside its environments until the returned guard is dropped.
    #[inline]
    pub(super) fn enter(&self) -> CallGuard<'_> {
        self.links.monitor.enter(self.incarnation)
    }

    /// Drops failed environments. A panic in a destructor is contained: the first failure counts.
    pub(super) fn drop_envs<T>(&self, envs: T) {
        self.links.monitor.at(0, FailurePlace::Unknown);
        let _inside = self.enter();
        let _ = catch(|| drop(envs));
    }

    fn count(&mut self, steps: Steps) -> Option<StepTicket> {
        self.made -= steps;
        let untrained = Steps { env: 0, agent: std::mem::take(&mut self.untrained) };
        let WorkerLinks { monitor, steps: ledger, .. } = &self.links;
        let ticket = monitor.book(|| {
            if untrained.agent > 0 {
                ledger.sampled(untrained).dropped(NOT_TRAINED);
            }
            ledger.sampled(steps)
        });
        // Other columns may have steps left that are in no fragment.
        monitor.set_unbooked(self.made, 0);
        ticket
    }
}
