//! Construction, running and end of a learner loop.

use pronk_buffer::{Mailbox, MinibatchBuffer, Source, mailbox};
use pronk_metrics::{ClockReader, StateClock};

use super::{LearnerLoop, Starved};
use crate::sync::channel::{Receiver, never};
use crate::thread::clock::{Clock, MonotonicClock};
use crate::thread::config::LearnerLoopConfig;
use crate::thread::diagnosis::THREAD_NAME;
use crate::thread::drain_on_drop::DrainOnDrop;
use crate::thread::failure::LearnerLoopError;
use crate::thread::outcome::StepOutcome;
use crate::thread::parts::{LearnerParts, LearnerThreadState};
use crate::thread::requests::Request;
use crate::{HoldsBatch, Learner, LearnerMetrics, LearnerReport};

impl<S: Source<Item: HoldsBatch>> LearnerLoop<S> {
    /// A loop over `parts`, and the outqueue that it reports to. Its clock starts now.
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
            journal: parts.journal,
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

    /// Steps until the run ends.
    ///
    /// # Errors
    /// As [`step`](Self::step).
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

    /// Answers requests for the learner's state between two passes.
    pub(in crate::thread) fn answer_on(&mut self, requests: Receiver<Request>) {
        self.requests = requests;
    }

    /// Whether the next step takes a new train batch: all passes of the one in turn are done.
    pub fn needs_batch(&self) -> bool {
        self.held.ring.needs_item()
    }

    /// Live metrics of the loop.
    pub fn metrics(&self) -> &LearnerMetrics {
        &self.metrics
    }

    /// The learner.
    pub fn learner(&self) -> &dyn Learner {
        &*self.learner
    }

    /// Reads the states of the loop's thread.
    pub(crate) fn state_reader(&self) -> ClockReader {
        self.state.reader()
    }

    /// Ends the loop and returns the learner, unless it failed or panicked, which may have interrupted an
    /// update.
    pub fn finish(self) -> Option<Box<dyn Learner>> {
        self.is_whole.then_some(self.learner)
    }
}
