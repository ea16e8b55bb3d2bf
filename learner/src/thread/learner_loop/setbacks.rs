//! Steps without a pass: a timeout, or an unusable batch.

use std::time::Duration;

use pronk_buffer::Source;
use pronk_metrics::{StepTicket, Steps};

use super::LearnerLoop;
use crate::thread::batch_name::BatchName;
use crate::thread::config::OnStarved;
use crate::thread::diagnosis::Diagnosis;
use crate::thread::failure::LearnerLoopError;
use crate::thread::journal::fragments_of;
use crate::thread::outcome::{ClosedBy, Quarantine, StepOutcome};
use crate::thread::pass::PassError;
use crate::{HoldsBatch, LearnerReport};

impl<S: Source<Item: HoldsBatch>> LearnerLoop<S> {
    /// No batch came within the timeout.
    pub(super) fn not_ready(&mut self, waited_secs: f64) -> Result<StepOutcome, LearnerLoopError> {
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

    pub(super) fn closed_by(&self) -> ClosedBy {
        if self.token.is_shut_down() { ClosedBy::ShutdownGuard } else { ClosedBy::Source }
    }

    /// Settles the steps of an unusable batch: quarantines it, or ends the loop.
    pub(super) fn take_out(
        &mut self,
        batch: Option<S::Item>,
        number: u32,
        cause: PassError,
    ) -> Result<StepOutcome, LearnerLoopError> {
        let made = cause.updates();
        self.updates += made;
        let update = self.updates + 1;
        let name = batch.as_ref().map(|batch| BatchName::of(batch.batch().samples)).unwrap_or_default();
        let fragments = match (&batch, &self.journal) {
            (Some(batch), Some(_)) if number == 1 => fragments_of(batch.batch().samples),
            _ => Vec::new(),
        };
        let steps = batch.as_ref().map(|batch| batch.batch().samples.steps()).unwrap_or_default();
        let ticket = batch.and_then(|mut batch| batch.samples_mut().take_ticket());
        let fresh = ticket.as_ref().map(StepTicket::steps).unwrap_or_default();
        // By contract a non-finite loss or gradient changes nothing in that update; after any other error the
        // learner's state is unknown.
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
        match ticket {
            // The pass has changed the weights.
            Some(ticket) if made > 0 => {
                self.steps.trained_pass(steps);
                ticket.trained();
                self.learner.advance(fresh.env);
            }
            Some(ticket) => ticket.dropped(cause.reason()),
            None if made > 0 => self.steps.trained_pass(steps),
            None => {}
        }
        if made > 0 {
            self.publish_when_due(made);
            let Steps { env, agent } = steps;
            let of_batch =
                LearnerReport { env_steps: env, agent_steps: agent, trained_once: fresh, ..Default::default() };
            let version = self.publisher.version();
            // Without a trainer it fails, as the report of the next pass will.
            drop(self.outqueue.post(LearnerReport { pass: number, updates: made, version, ..of_batch }));
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
        match self.note(&fragments, true)? {
            true => Ok(StepOutcome::Quarantined(quarantine)),
            false => Ok(StepOutcome::Closed(ClosedBy::Journal)),
        }
    }
}

fn duration(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs).unwrap_or_default()
}
