//! How a run ends, and what of it is left.

use std::time::{Duration, Instant};

use pronk_buffer::Fold;
use pronk_learner::{LearnerFailure, LearnerState};
use pronk_metrics::{ByPolicy, PolicyId};
use pronk_rollout::WorkerFailure;

use super::engine::{EngineEnd, SHUTDOWN_DEADLINE, is_late, saved};
use super::handle::{Trainer, TrainerState};
use super::remains::{Counters, Remains};
use super::run::{Run, Whole};
use crate::error::{FailedRun, TrainError};
use crate::stop::{StopReason, StopWhen};

impl Trainer {
    /// Ends the run well, unless the learner failed meanwhile or the run had ended before.
    pub(super) fn end(&mut self, reason: Option<StopReason>, stop: &StopWhen) -> Result<Run, FailedRun> {
        if self.engine.is_none() {
            let cause = TrainError::Ended { failure: self.failure.clone() };
            return Err(self.failed(cause, stop));
        }
        if self.last.is_none() {
            self.complete_iteration(None);
        }
        let failure = self.shut_down();
        self.save_last();
        let run = self.hand_back(reason, stop);
        match failure {
            None => Ok(run),
            Some(failure) => Err(failed(failure.into(), run)),
        }
    }

    /// The error of a run that has ended with `cause`.
    pub(super) fn failed(&mut self, cause: TrainError, stop: &StopWhen) -> FailedRun {
        failed(cause, self.hand_back(None, stop))
    }

    /// Ends a run whose step failed with `stepped`, or that a report said is over; shows the reporters why,
    /// and returns it.
    pub(super) fn fail(&mut self, stepped: Option<TrainError>) -> TrainError {
        let learner = self.shut_down();
        let error = stepped.unwrap_or_else(|| self.first_cause(learner));
        self.save_last();
        // No caller gets this result; it is there for the reporters.
        self.failure = Some(error.to_string());
        self.complete_iteration(None);
        error
    }

    /// The learner or all workers are gone though nothing ended the run: which of them was the first to fail?
    fn first_cause(&self, learner: Option<LearnerFailure>) -> TrainError {
        let workers = || TrainError::Workers(self.worker_failures.clone());
        match learner {
            _ if self.worker_failures.iter().any(WorkerFailure::ends_the_run) => workers(),
            // Still in a pass when the workers had given up: it is late, and not the cause.
            Some(failure) if is_late(&failure) && !self.worker_failures.is_empty() => workers(),
            Some(failure) => failure.into(),
            // The learner ends without a failure of its own when the workers have given up.
            None if self.worker_failures.is_empty() => TrainError::Ended { failure: None },
            None => workers(),
        }
    }

    /// Ends every thread, joins it, and keeps what is whole; returns how the learner failed, if it did.
    fn shut_down(&mut self) -> Option<LearnerFailure> {
        let time = self.started.elapsed();
        // What the learner has reported so far: from one that does not come back there is nothing more.
        self.collect();
        let sampled = self.steps.snapshot().sampled.env;
        let rate = |(since, before): (Instant, u64)| (sampled - before) as f64 / since.elapsed().as_secs_f64();
        let env_steps_per_s = self.first_update.map(rate).filter(|rate| rate.is_finite() && *rate > 0.0);
        let ended = self.stop_threads(self.finish_deadline)?;
        self.note_failures(&ended);
        let saved = ended.learner.learner.and_then(|learner| {
            saved(&*learner).inspect_err(|error| tracing::error!(%error, "only published weights are left")).ok()
        });
        let (whole, states) = match saved {
            Some(states) => (Whole::Learner, states),
            None => self.published_states(),
        };
        let checkpoints = self.spec.checkpoints(&self.config, states);
        self.remains = Remains { whole, checkpoints, not_joined: ended.not_joined, time, env_steps_per_s };
        ended.learner.failure
    }

    /// Ends every thread and joins it, the learner's before `learner_deadline`. `None` if the run has ended
    /// before.
    fn stop_threads(&mut self, learner_deadline: Duration) -> Option<EngineEnd> {
        self.shutdown.cut();
        let ended = self.engine.take()?.join(learner_deadline);
        for thread in &ended.not_joined {
            tracing::warn!(%thread, "this thread did not end in time and is left behind");
        }
        Some(ended)
    }

    /// Adds the workers that gave up as the run ended. They take nothing away from what was reached.
    fn note_failures(&mut self, ended: &EngineEnd) {
        for failure in ended.worker_failures() {
            if self.worker_failures.iter().all(|known| known.thread != failure.thread) {
                self.worker_failures.push(failure);
            }
        }
        for report in &ended.unread {
            self.abandoned.fold(report.abandoned.clone());
        }
    }

    /// The newest published weights, where the learner is not whole, did not come back, or cannot be saved: a
    /// published snapshot never changes.
    ///
    /// All else that a learner's state has begins anew, but for the counters.
    fn published_states(&self) -> (Whole, ByPolicy<LearnerState>) {
        let published = self.weights.load();
        if published.version == 0 {
            return (Whole::Nothing, ByPolicy::new());
        }
        let counted = |policy: &PolicyId| {
            let begun: Counters = self.begun.get(policy).copied().unwrap_or_default();
            Counters {
                updates: begun.updates + self.updates + self.iteration.learner.updates,
                env_steps: begun.env_steps + self.steps.snapshot().trained_once.env,
            }
        };
        let state = |(policy, params)| {
            let state = self.spec.state_with(&self.config, &policy, params, counted(&policy))?;
            Ok((policy, state))
        };
        let states = published.weights.clone().into_iter().map(state).collect::<Result<_, TrainError>>();
        match states {
            Ok(states) => (Whole::PublishedWeights, states),
            Err(error) => {
                tracing::error!(%error, "the published weights could not be made a checkpoint");
                (Whole::Nothing, ByPolicy::new())
            }
        }
    }

    /// What is left of the run, with the reporters finished.
    fn hand_back(&mut self, reason: Option<StopReason>, stop: &StopWhen) -> Run {
        self.clock.enter(TrainerState::Reporting);
        self.reporters.finish();
        self.clock.enter(TrainerState::Caller);
        // Last of all: processes of environments may take longer to close than a checkpoint or a report
        // should have to wait.
        self.remains.not_joined.extend(self.reaper.wait());
        let result = match self.last.take() {
            Some(result) => result,
            None => self.complete_iteration(None),
        };
        let Remains { whole, checkpoints, not_joined, time, env_steps_per_s } = std::mem::take(&mut self.remains);
        Run {
            result,
            reason,
            fell_short: stop.has_target() && reason != Some(StopReason::ReturnReached),
            time,
            env_steps_per_s,
            steps: self.steps.snapshot(),
            thread_times: self.time.read(),
            config: self.config.clone(),
            env: self.spec.env.clone(),
            whole,
            checkpoints,
            not_joined,
            worker_failures: std::mem::take(&mut self.worker_failures),
            abandoned: std::mem::take(&mut self.abandoned),
            reporter_failures: self.reporters.take_failures(),
            checkpoint_failures: self.periodic.take().map(|periodic| periodic.failures).unwrap_or_default(),
        }
    }
}

fn failed(cause: TrainError, run: Run) -> FailedRun {
    FailedRun { cause, run: Box::new(Run { fell_short: true, ..run }) }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.stop_threads(SHUTDOWN_DEADLINE);
        // Also those of a run that was dropped in the middle write what they have.
        self.reporters.finish();
    }
}
