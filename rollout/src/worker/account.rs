use pronk_buffer::Tag;
use pronk_metrics::{ByPolicy, StepTicket, Steps, catch};

use super::config::{SHUTDOWN, WorkerLinks};
use crate::env::{CallGuard, EnvFailure, EpisodeStat, FailurePlace, ReturnStat};

/// The reason under which steps of frozen policies are dropped.
const NOT_TRAINED: &str = "not_trained";

/// What a worker has made and not yet handed over, and the number of the fragment that it makes.
///
/// Every step is counted once: by [`book`](Self::book) with its fragment, by [`lose`](Self::lose) when only a part of the
/// worker's environments failed, or by [`give_up`](Self::give_up).
pub struct Account {
    pub(super) links: WorkerLinks,
    worker: u32,
    incarnation: u32,
    /// Number of the next fragment within the incarnation.
    sequence: u64,
    /// Steps that are in no fragment yet: of the environments, and of agents that play policies in training.
    made: Steps,
    /// Steps of agents whose policy is frozen.
    untrained: u64,
    pub(super) episodes: Vec<EpisodeStat>,
    pub(super) policy_returns: ByPolicy<ReturnStat>,
    failures: Vec<EnvFailure>,
    /// Whether some of the failures are newer than those taken last.
    has_new_failures: bool,
    pub(super) abandoned: Vec<String>,
}

impl Account {
    pub(super) fn new(worker: u32, incarnation: u32, links: WorkerLinks) -> Self {
        Self {
            links,
            worker,
            incarnation,
            sequence: 0,
            made: Steps::default(),
            untrained: 0,
            episodes: Vec::new(),
            policy_returns: ByPolicy::new(),
            failures: Vec::new(),
            has_new_failures: false,
            abandoned: Vec::new(),
        }
    }

    pub(super) fn worker(&self) -> u32 {
        self.worker
    }

    pub(super) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The worker's environments are made anew.
    pub(super) fn begin_incarnation(&mut self) -> u32 {
        self.incarnation += 1;
        self.sequence = 0;
        self.incarnation
    }

    /// The tag of the fragment being made.
    pub(super) fn tag(&self) -> Tag {
        Tag { worker: self.worker, incarnation: self.incarnation, sequence: self.sequence }
    }

    /// Whether the run ends, or another worker has taken this one's place.
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
        // Whoever takes this worker's place over, because it hangs, loses these.
        self.links.monitor.set_unbooked(self.made);
    }

    /// Adds steps of an agent whose policy is frozen.
    pub(super) fn add_untrained(&mut self, steps: u64) {
        self.untrained += steps;
    }

    pub(super) fn add_failure(&mut self, failure: EnvFailure) {
        self.failures.push(failure);
        self.has_new_failures = true;
    }

    /// Whether an environment failed since the last call, or since failures were taken.
    pub(super) fn take_new_failures(&mut self) -> bool {
        std::mem::take(&mut self.has_new_failures)
    }

    pub(super) fn take_failures(&mut self) -> Vec<EnvFailure> {
        self.has_new_failures = false;
        std::mem::take(&mut self.failures)
    }

    /// The fragment is complete: counts its steps as sampled. `None` if another worker has taken this one's place and counted
    /// them.
    pub(super) fn book(&mut self, steps: Steps) -> Option<StepTicket> {
        self.sequence += 1;
        self.count(steps)
    }

    /// Counts steps that were made as lost to `cause`.
    pub(super) fn lose(&mut self, steps: Steps, cause: &'static str) {
        if let Some(ticket) = self.count(steps) {
            ticket.lost(cause);
        }
    }

    /// Counts all that is in no fragment as lost to `cause`, or without one as dropped because the run ends.
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

    /// The worker calls its environments until the returned value is dropped.
    #[inline]
    pub(super) fn enter(&self) -> CallGuard<'_> {
        self.links.monitor.enter(self.incarnation)
    }

    /// Drops environments that failed. A panic while dropping them is contained: the failure to report is the first.
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
        // What is in no fragment yet stays to be counted.
        monitor.set_unbooked(self.made);
        ticket
    }
}
