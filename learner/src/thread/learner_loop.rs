//! The loop that turns train batches into updates, one pass per step.

use std::time::Duration;

use crossbeam_channel::{Receiver, never};
use pronk_buffer::{
    LoaderMetrics, Mailbox, MailboxSender, MinibatchBuffer, NextError, Notifier, Pass, ShutdownToken, Source,
    WeightPublisher, mailbox,
};
use pronk_metrics::{ByPolicy, ClockReader, StateClock, StepLedger, StepTicket, Steps, TimeLedger, thread_states};
use pronk_policy::Params;
use tracing::debug_span;

use super::drain_on_drop::DrainOnDrop;
use super::pass::{PassError, learn};
use super::requests::{ANSWER_WITHIN, Reply};
use super::{
    BatchName, Clock, ClosedBy, Diagnosis, LearnerLoopConfig, LearnerLoopError, MonotonicClock, OnStarved, Quarantine,
    StepOutcome, THREAD_NAME, TrainedPass,
};
use crate::{HoldsBatch, Learned, Learner, LearnerMetrics, LearnerReport, PolicyLag};

thread_states! {
    /// What the learner is doing; the states are disjoint and sum to the wall time of its thread.
    pub enum LearnerThreadState {
        /// Not yet in its loop.
        Starting = "starting",
        /// Waiting for a train batch: the rest of the run is the limit.
        Starved = "starved",
        /// Checking a batch and learning from it.
        Learning = "learning",
        /// Copying the weights for the workers.
        Publishing = "publishing",
        /// Counting, handing the report to the trainer, and copying the state for whoever asked for it.
        Reporting = "reporting",
    }
}

/// What a learner loop is joined to.
pub struct LearnerParts<S> {
    /// Where train batches come from.
    pub source: S,
    /// What learns from them.
    pub learner: Box<dyn Learner>,
    /// Where the workers find new weights.
    pub publisher: WeightPublisher<ByPolicy<Params>>,
    /// What the threads measure that load the source's batches, where it is [`LoaderStacks`](pronk_buffer::LoaderStacks): the
    /// learner's wait is then for a loaded batch, and theirs is the one for data.
    pub loaders: Option<LoaderMetrics>,
    /// Where trained, dropped and lost steps are counted.
    pub steps: StepLedger,
    /// Where the thread's time is accounted for, and where a starved learner sees what the others do.
    pub time: TimeLedger,
    /// Ends the loop when it is cut.
    pub token: ShutdownToken,
    /// Rung for every report.
    pub notifier: Notifier,
}

/// The loop of the learner: waits for a train batch, learns from it, publishes the weights, reports.
///
/// It runs on the caller's thread through [`step`](Self::step), or on its own in a
/// [`LearnerThread`](crate::LearnerThread). It is RLlib 2.2's `LearnerThread.step`, with an end for every wait.
///
/// *Blocks*: only while waiting for a train batch, up to `learner_queue_timeout`.
///
/// However it ends, what it still holds is taken out of the queue and counted as dropped under `shutdown`.
pub struct LearnerLoop<S: Source> {
    config: LearnerLoopConfig,
    held: DrainOnDrop<S>,
    learner: Box<dyn Learner>,
    /// Whether the learner's state is that after its last update: a panic or an error may have broken one off.
    is_whole: bool,
    publisher: WeightPublisher<ByPolicy<Params>>,
    outqueue: MailboxSender<LearnerReport>,
    steps: StepLedger,
    time: TimeLedger,
    token: ShutdownToken,
    metrics: LearnerMetrics,
    clock: Box<dyn Clock>,
    state: StateClock<LearnerThreadState>,
    /// Completed passes.
    passes: u64,
    /// Updates of this run.
    updates: u64,
    updates_unpublished: u64,
    quarantined_in_a_row: u32,
    starved: Starved,
    requests: Receiver<Reply>,
}

/// Waits that ran out since the last batch.
#[derive(Clone, Copy, Default)]
struct Starved {
    secs: f64,
    time_outs: u32,
}

impl<S: Source<Item: HoldsBatch>> LearnerLoop<S> {
    /// A loop over `parts`, and the outqueue it reports to.
    ///
    /// Its time counts from here: make it right before the thread that runs it.
    pub fn new(config: LearnerLoopConfig, parts: LearnerParts<S>) -> (Self, Mailbox<LearnerReport>) {
        let state = StateClock::new(THREAD_NAME, LearnerThreadState::Starting);
        parts.time.add(state.reader());
        let (outqueue, reports) = mailbox(config.outqueue_capacity, &parts.notifier);
        let (num_passes, init_num_passes) =
            (config.num_sgd_iter, config.init_num_sgd_iter.unwrap_or(config.num_sgd_iter).min(config.num_sgd_iter));
        let ring =
            MinibatchBuffer::new(parts.source, config.minibatch_buffer_size, num_passes.get(), init_num_passes.get());
        let learner_loop = Self {
            config,
            held: DrainOnDrop { ring, steps: parts.steps.clone() },
            learner: parts.learner,
            is_whole: true,
            publisher: parts.publisher,
            outqueue,
            steps: parts.steps,
            time: parts.time,
            token: parts.token,
            metrics: LearnerMetrics::beside(parts.loaders),
            clock: Box::new(MonotonicClock::start()),
            state,
            passes: 0,
            updates: 0,
            updates_unpublished: 0,
            quarantined_in_a_row: 0,
            starved: Starved::default(),
            requests: never(),
        };
        (learner_loop, reports)
    }

    /// The same loop with its timers driven by `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Answers those who ask for the learner's state on `requests`, between two passes.
    pub(super) fn answer_on(&mut self, requests: Receiver<Reply>) {
        self.requests = requests;
    }

    /// The live handle on what the loop measures.
    pub fn metrics(&self) -> &LearnerMetrics {
        &self.metrics
    }

    /// What learns.
    pub fn learner(&self) -> &dyn Learner {
        &*self.learner
    }

    /// Reads the time ledger of the thread that runs the loop.
    pub(crate) fn state_reader(&self) -> ClockReader {
        self.state.reader()
    }

    /// One step: wait for a train batch, learn from it, count, publish, report.
    ///
    /// # Errors
    /// The loop cannot go on: the learner failed or panicked, too many batches in a row were not finite, the source
    /// failed, or no data came and the run is to end then. The batch in hand is settled in the step ledger. Drop the
    /// loop.
    pub fn step(&mut self) -> Result<StepOutcome, LearnerLoopError> {
        if self.token.is_shut_down() {
            return Ok(StepOutcome::Closed(ClosedBy::ShutdownGuard));
        }
        self.state.enter(LearnerThreadState::Starved);
        let outcome = self.dequeue_and_learn();
        self.state.enter(LearnerThreadState::Starved);
        outcome
    }

    /// Steps until the end.
    ///
    /// # Errors
    /// Those of [`step`](Self::step).
    pub fn run(&mut self) -> Result<(), LearnerLoopError> {
        loop {
            match self.step()? {
                StepOutcome::Trained(_) => {}
                StepOutcome::NotReady(diagnosis) => tracing::warn!(%diagnosis, "learner not ready"),
                StepOutcome::Quarantined(quarantine) => tracing::warn!(%quarantine, "batch quarantined"),
                StepOutcome::Closed(by) => {
                    tracing::debug!(?by, passes = self.passes, "learner loop ends");
                    return Ok(());
                }
            }
        }
    }

    /// Ends the loop and gives the learner back, also after an error; but not after one that the learner returned or a panic in
    /// it, because a broken-off update may have left anything.
    pub fn finish(self) -> Option<Box<dyn Learner>> {
        self.is_whole.then_some(self.learner)
    }

    /// Waits until the minibatch buffer has a batch to show, and answers requests meanwhile.
    fn wait_for_batch(&mut self) -> Result<(), NextError> {
        let mut left = self.config.learner_queue_timeout;
        loop {
            while let Ok(reply) = self.requests.try_recv() {
                self.state.enter(LearnerThreadState::Reporting);
                // Refused only when whoever asked has stopped waiting.
                let _ = reply.send(self.learner.save());
                self.state.enter(LearnerThreadState::Starved);
            }
            let wait = left.min(ANSWER_WITHIN);
            match self.held.ring.load(wait) {
                Err(NextError::TimedOut) if left > wait => left -= wait,
                loaded => return loaded,
            }
        }
    }

    fn dequeue_and_learn(&mut self) -> Result<StepOutcome, LearnerLoopError> {
        let started = self.clock.now_secs();
        let loaded = debug_span!("queue").in_scope(|| self.wait_for_batch());
        let waited_secs = self.clock.now_secs() - started;
        self.metrics.record_wait(waited_secs);
        // What was loaded is shown without a wait.
        let shown = match loaded.and_then(|()| self.held.ring.next(Duration::ZERO)) {
            Ok(shown) => shown,
            Err(NextError::TimedOut) => return self.not_ready(waited_secs),
            Err(NextError::Closed) => return Ok(StepOutcome::Closed(self.closed_by())),
            Err(source) => {
                return Err(LearnerLoopError::Source { passes: self.passes, source });
            }
        };
        self.starved = Starved::default();
        self.state.enter(LearnerThreadState::Learning);
        let number = shown.number;
        let mut pass = shown.pass;
        let (result, grad_secs) = learn(&mut *self.learner, pass.item().batch(), number, &mut *self.clock);
        match result {
            Ok(learned) => {
                let batch = pass.item_mut().samples_mut();
                let ticket = batch.take_ticket();
                let steps = batch.steps();
                let rows = batch.policies().map(|(policy, part)| (policy.clone(), part.steps())).collect();
                // Replayed fragments carry no ticket: they were counted when they were new.
                let fresh = ticket.as_ref().map_or(Steps::default(), StepTicket::steps);
                let first = number == 1;
                let lag = if first {
                    PolicyLag::of(self.publisher.version(), batch.versions())
                } else {
                    PolicyLag::default()
                };
                // Storage of a batch shown for the last time goes home before the workers ask for more.
                drop(pass);
                // Before the ticket: whoever reads the books in between sees a pass too many, never one too few.
                self.steps.trained_pass(steps);
                if let Some(ticket) = ticket {
                    ticket.trained();
                }
                Ok(self.complete(Completed { learned, grad_secs, number, steps, rows, fresh, lag }))
            }
            Err(cause) => {
                let last = match pass {
                    Pass::Last(batch) => Some(batch),
                    Pass::Again(_) => None,
                };
                let batch = last.or_else(|| self.held.ring.discard());
                self.take_out(batch, cause)
            }
        }
    }

    fn complete(&mut self, done: Completed) -> StepOutcome {
        let Completed { learned: Learned { info, updates }, grad_secs, number, steps, rows, fresh, lag } = done;
        self.passes += 1;
        self.updates += updates;
        self.quarantined_in_a_row = 0;
        if number == 1 {
            self.learner.advance(fresh.env);
        }
        self.publish_when_due(updates);

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
        match self.outqueue.post(report) {
            Ok(()) => StepOutcome::Trained(TrainedPass { steps, number, version }),
            Err(_) => StepOutcome::Closed(ClosedBy::Outqueue),
        }
    }

    fn publish_when_due(&mut self, updates: u64) {
        self.updates_unpublished += updates;
        if self.updates_unpublished < self.config.broadcast_interval.get() {
            return;
        }
        self.state.enter(LearnerThreadState::Publishing);
        let _publish = debug_span!("publish").entered();
        self.updates_unpublished = 0;
        let weights = self.learner.weights();
        let version = self.publisher.publish_with(|retired| match retired {
            Some(mut retired) => {
                for (policy, params) in &weights {
                    match retired.get_mut(policy) {
                        Some(retired) => retired.copy_from(params),
                        None => drop(retired.insert(policy.clone(), (*params).clone())),
                    }
                }
                retired
            }
            None => weights.iter().map(|(policy, params)| (policy.clone(), (*params).clone())).collect(),
        });
        self.learner.published(version);
    }

    fn not_ready(&mut self, waited_secs: f64) -> Result<StepOutcome, LearnerLoopError> {
        self.starved.secs += waited_secs;
        self.starved.time_outs = self.starved.time_outs.saturating_add(1);
        let diagnosis = Diagnosis {
            waited: duration(waited_secs),
            waited_in_a_row: duration(self.starved.secs),
            time_outs_in_a_row: self.starved.time_outs,
            backlog: self.held.ring.source().backlog(),
            passes: self.passes,
            threads: self.time.read(),
        };
        self.metrics.record_starved(&diagnosis);
        match self.config.on_starved {
            OnStarved::Continue => Ok(StepOutcome::NotReady(diagnosis)),
            OnStarved::Fail => Err(LearnerLoopError::Starved(Box::new(diagnosis))),
        }
    }

    fn closed_by(&self) -> ClosedBy {
        if self.token.is_shut_down() { ClosedBy::ShutdownGuard } else { ClosedBy::Source }
    }

    /// Takes a batch that could not be learned from out of the run and counts its steps.
    fn take_out(&mut self, batch: Option<S::Item>, cause: PassError) -> Result<StepOutcome, LearnerLoopError> {
        let update = self.updates + 1;
        let name = batch.as_ref().map(|batch| BatchName::of(batch.batch().samples)).unwrap_or_default();
        let ticket = batch.and_then(|mut batch| batch.samples_mut().take_ticket());
        // Only of numbers that are not finite does a learner promise that they leave it as it was.
        self.is_whole = matches!(cause, PassError::NonFinite(_));
        let cause = match cause {
            PassError::NonFinite(cause) => cause,
            PassError::Failed(source) => {
                if let Some(ticket) = ticket {
                    ticket.lost("learner_error");
                }
                return Err(LearnerLoopError::Learn { update, batch: name, source: Box::new(source) });
            }
            PassError::Panicked(message) => {
                if let Some(ticket) = ticket {
                    ticket.lost("learner_panic");
                }
                return Err(LearnerLoopError::Panicked { update, batch: name, message });
            }
        };
        if let Some(ticket) = ticket {
            ticket.dropped(cause.reason());
        }
        let quarantine = Quarantine { update, batch: name, cause };
        self.metrics.record_quarantined(&quarantine);
        self.quarantined_in_a_row += 1;
        if self.quarantined_in_a_row >= self.config.max_consecutive_quarantined.get() {
            return Err(LearnerLoopError::Quarantined {
                in_a_row: self.quarantined_in_a_row,
                last: Box::new(quarantine),
            });
        }
        Ok(StepOutcome::Quarantined(quarantine))
    }
}

/// What a completed pass leaves to count and report.
struct Completed {
    learned: Learned,
    grad_secs: f64,
    number: u32,
    steps: Steps,
    /// Agent-steps of each policy.
    rows: ByPolicy<u64>,
    /// Those of data that was not trained on before.
    fresh: Steps,
    lag: PolicyLag,
}

fn duration(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs).unwrap_or_default()
}
