//! The loop that turns train batches into updates, one pass per step.

mod cut;
mod publish;
mod setbacks;
mod setup;

use std::time::Duration;

use pronk_buffer::{MailboxSender, NextError, Pass, ShutdownToken, Source, Tag, WeightPublisher};
use pronk_metrics::{ByPolicy, StateClock, StepLedger, StepTicket, Steps, TimeLedger};
use pronk_policy::Params;
use tracing::debug_span;

use super::clock::Clock;
use super::config::LearnerLoopConfig;
use super::drain_on_drop::DrainOnDrop;
use super::failure::LearnerLoopError;
use super::journal::{Journal, fragments_of};
use super::outcome::{ClosedBy, StepOutcome, TrainedPass};
use super::parts::LearnerThreadState;
use super::pass::learn;
use super::requests::{ANSWER_WITHIN, Request};
use crate::sync::channel::Receiver;
use crate::{HoldsBatch, Learned, Learner, LearnerMetrics, LearnerReport, PolicyLag};

/// The learner's loop: waits for a train batch, learns from it, publishes the weights, reports.
///
/// It runs on the caller's thread by [`step`](Self::step), or on its own in a
/// [`LearnerThread`](crate::LearnerThread), as RLlib 2.2's `LearnerThread.step` with a deadline for every
/// wait. When it is dropped, batches that it still holds are counted as dropped under `shutdown`.
///
/// *Blocks*: only for a train batch, up to `learner_queue_timeout`.
pub struct LearnerLoop<S: Source> {
    config: LearnerLoopConfig,
    held: DrainOnDrop<S>,
    learner: Box<dyn Learner>,
    /// Whether the learner's last update is complete: false after a panic or an error.
    is_whole: bool,
    publisher: WeightPublisher<ByPolicy<Params>>,
    outqueue: MailboxSender<LearnerReport>,
    steps: StepLedger,
    time: TimeLedger,
    token: ShutdownToken,
    metrics: LearnerMetrics,
    clock: Box<dyn Clock>,
    state: StateClock<LearnerThreadState>,
    passes: u64,
    updates: u64,
    updates_unpublished: u64,
    quarantined_in_a_row: u32,
    starved: Starved,
    journal: Option<Box<dyn Journal>>,
    requests: Receiver<Request>,
}

/// Timeouts since the last batch.
#[derive(Clone, Copy, Default)]
struct Starved {
    secs: f64,
    time_outs: u32,
}

impl<S: Source<Item: HoldsBatch>> LearnerLoop<S> {
    /// One step: wait for a train batch, learn from it, count, publish, report.
    ///
    /// # Errors
    /// The learner failed or panicked, too many consecutive batches were not finite, the source failed, or
    /// the loop starved under `on_starved: fail`. The current batch is settled in the step ledger. Drop the
    /// loop then.
    pub fn step(&mut self) -> Result<StepOutcome, LearnerLoopError> {
        if self.token.is_shut_down() {
            return Ok(StepOutcome::Closed(ClosedBy::ShutdownGuard));
        }
        self.state.enter(LearnerThreadState::Starved);
        let outcome = self.dequeue_and_learn();
        self.state.enter(LearnerThreadState::Starved);
        outcome
    }

    /// Waits until the minibatch buffer has a batch, answering requests meanwhile. While the run rests, the
    /// wait has not `started`.
    fn wait_for_batch(&mut self, started: &mut f64) -> Result<(), NextError> {
        let mut left = self.config.learner_queue_timeout;
        loop {
            while let Ok(request) = self.requests.try_recv() {
                self.state.enter(LearnerThreadState::Reporting);
                // Fails only if the caller has stopped waiting.
                match request {
                    Request::State(reply) => drop(reply.send(self.learner.save(ByPolicy::new()))),
                    Request::Cut { number, storage, reply } => drop(reply.send(self.cut(number, storage))),
                }
                self.state.enter(LearnerThreadState::Starved);
            }
            let wait = left.min(ANSWER_WITHIN);
            match self.held.ring.load(wait) {
                Err(NextError::TimedOut) if left > wait => left -= wait,
                // However long the trainer takes between two iterations, the learner does not starve.
                Err(NextError::Resting) => *started = self.clock.now_secs(),
                loaded => return loaded,
            }
        }
    }

    fn dequeue_and_learn(&mut self) -> Result<StepOutcome, LearnerLoopError> {
        let mut started = self.clock.now_secs();
        let loaded = debug_span!("queue").in_scope(|| self.wait_for_batch(&mut started));
        let waited_secs = self.clock.now_secs() - started;
        self.metrics.record_wait(waited_secs);
        // It is loaded: `next` does not wait.
        let shown = match loaded.and_then(|()| self.held.ring.next(Duration::ZERO)) {
            Ok(shown) => shown,
            Err(NextError::TimedOut) => return self.not_ready(waited_secs),
            Err(NextError::Closed) => return Ok(StepOutcome::Closed(self.closed_by())),
            Err(source) => {
                return Err(LearnerLoopError::Source { passes: self.passes, source });
            }
        };
        self.starved = Starved::default();
        self.metrics.record_batch();
        self.state.enter(LearnerThreadState::Learning);
        let number = shown.number;
        let mut pass = shown.pass;
        let (result, grad_secs) = learn(&mut *self.learner, pass.item().batch(), number, &mut *self.clock);
        match result {
            Ok(learned) => {
                let batch = pass.item_mut().samples_mut();
                let ticket = batch.take_ticket();
                // In the order of admission, and once: later passes find none.
                for moments in batch.take_moments() {
                    self.publisher.merge(&moments);
                }
                let steps = batch.steps();
                let rows = batch.policies().map(|(policy, part)| (policy.clone(), part.steps())).collect();
                // Replayed fragments carry no ticket, since they were counted when new.
                let fresh = ticket.as_ref().map_or(Steps::default(), StepTicket::steps);
                let first = number == 1;
                let lag = if first {
                    PolicyLag::of(self.publisher.version(), batch.versions())
                } else {
                    PolicyLag::default()
                };
                let fragments = if first && self.journal.is_some() { fragments_of(batch) } else { Vec::new() };
                // After the last pass this returns the storage to the pool before workers need it.
                drop(pass);
                // Before the ticket, so that a reader in between sees one pass too many, not one too few.
                self.steps.trained_pass(steps);
                if let Some(ticket) = ticket {
                    ticket.trained();
                }
                self.complete(Completed { learned, grad_secs, number, steps, rows, fresh, lag, fragments })
            }
            Err(cause) => {
                let last = match pass {
                    Pass::Last(batch) => Some(batch),
                    Pass::Again(_) => None,
                };
                let batch = last.or_else(|| self.held.ring.discard());
                self.take_out(batch, number, cause)
            }
        }
    }

    fn complete(&mut self, done: Completed) -> Result<StepOutcome, LearnerLoopError> {
        let Completed { learned: Learned { info, updates }, grad_secs, number, steps, rows, fresh, lag, fragments } =
            done;
        self.passes += 1;
        self.updates += updates;
        self.quarantined_in_a_row = 0;
        if number == 1 {
            self.learner.advance(fresh.env);
        }
        self.publish_when_due(updates);
        let goes_on = self.note(&fragments, false)?;

        self.state.enter(LearnerThreadState::Reporting);
        let version = self.publisher.version();
        self.metrics.record_pass(grad_secs, self.held.ring.source().backlog(), &info);
        let report = LearnerReport {
            env_steps: steps.env,
            agent_steps: steps.agent,
            trained_once: fresh,
            info,
            rows,
            infos_replaced: 0,
            pass: number,
            passes: 1,
            updates,
            version,
            lag,
        };
        let _report = debug_span!("report").entered();
        Ok(match self.outqueue.post(report) {
            Ok(()) if goes_on => StepOutcome::Trained(TrainedPass { steps, number, version }),
            Ok(()) => StepOutcome::Closed(ClosedBy::Journal),
            Err(_) => StepOutcome::Closed(ClosedBy::Outqueue),
        })
    }
}

/// A completed pass, to be counted and reported.
struct Completed {
    learned: Learned,
    grad_secs: f64,
    number: u32,
    steps: Steps,
    /// Agent-steps of each policy.
    rows: ByPolicy<u64>,
    /// Steps trained on for the first time.
    fresh: Steps,
    lag: PolicyLag,
    /// For the journal.
    fragments: Vec<Tag>,
}
