//! How a run ends, and its outcome.

use std::time::{Duration, Instant};

use pronk_buffer::Fold;
use pronk_hosts::Over;
use pronk_learner::{LearnerFailure, LearnerState};
use pronk_metrics::{ByPolicy, ReportError};
use pronk_rollout::WorkerFailure;
use serde_json::json;

use super::engine::{EngineEnd, SHUTDOWN_DEADLINE, is_late, saved};
use super::evaluations::Evaluations;
use super::failed_run::FailedRun;
use super::handle::{Trainer, TrainerState};
use super::remains::Remains;
use super::run::{Run, Whole};
use crate::error::TrainError;
use crate::run_info::RunInfoError;
use crate::stop::{StopReason, StopWhen};

impl Trainer {
    /// Ends the run; an error if the learner failed meanwhile or the run had ended before.
    pub(super) fn end(&mut self, reason: Option<StopReason>, stop: &StopWhen) -> Result<Run, FailedRun> {
        if self.engine.is_none() {
            let cause = TrainError::Ended { failure: self.failure.clone() };
            return Err(self.failed(cause, stop));
        }
        if self.last.is_none() {
            self.complete_iteration(None);
        }
        self.save_last();
        // A run that a signal stopped may be resumed, and its hosts wait for that.
        if reason.and_then(StopReason::signal_status).is_none() {
            self.over = Over::Finished;
        }
        let failure = self.shut_down();
        let mut run = self.hand_back(reason, stop);
        // A program that ends its run by itself, or a user by a signal, has not asked for episodes.
        let reached_limit = reason.is_some_and(|reason| reason.signal_status().is_none());
        let why_no_episode = || run.env_failures.why_no_episode(run.result.episodes_covered, run.steps.sampled.env);
        let cause = failure.map(TrainError::from).or_else(|| why_no_episode().filter(|_| reached_limit));
        self.complete_info(&mut run, cause.as_ref());
        match cause {
            None => Ok(run),
            Some(cause) => Err(failed(cause, run)),
        }
    }

    /// The error of a run that has ended with `cause`.
    pub(super) fn failed(&mut self, cause: TrainError, stop: &StopWhen) -> FailedRun {
        let mut run = self.hand_back(None, stop);
        self.complete_info(&mut run, Some(&cause));
        failed(cause, run)
    }

    /// Ends a run that failed, with the error `stepped` or one from the reports; passes the cause to the
    /// reporters and returns it.
    pub(super) fn fail(&mut self, stepped: Option<TrainError>) -> TrainError {
        let learner = self.shut_down();
        let error = stepped.unwrap_or_else(|| self.first_cause(learner));
        // For the reporters only.
        self.failure = Some(error.to_string());
        self.complete_iteration(None);
        error
    }

    /// The failure that came first when the learner or all workers have ended unasked.
    fn first_cause(&self, learner: Option<LearnerFailure>) -> TrainError {
        let workers = || TrainError::Workers(self.worker_failures.clone());
        match learner {
            _ if self.worker_failures.iter().any(WorkerFailure::ends_the_run) => workers(),
            // The learner only missed its deadline after the workers had given up.
            Some(failure) if is_late(&failure) && !self.worker_failures.is_empty() => workers(),
            Some(failure) => failure.into(),
            // Without workers the learner ends without a failure.
            None if self.worker_failures.is_empty() => TrainError::Ended { failure: None },
            None => workers(),
        }
    }

    /// Joins all threads and keeps what is intact; returns the learner's failure.
    fn shut_down(&mut self) -> Option<LearnerFailure> {
        let time = self.time_total();
        // Before joining, because a learner that hangs reports nothing more.
        self.collect();
        let sampled = self.steps.snapshot().sampled.env;
        let rate = |(since, before): (Instant, u64)| (sampled - before) as f64 / since.elapsed().as_secs_f64();
        let env_steps_per_s = self.first_update.map(rate).filter(|rate| rate.is_finite() && *rate > 0.0);
        let restarts = self.engine.as_ref().map(|engine| engine.spent_restarts()).unwrap_or_default();
        let ended = self.stop_threads(self.finish_deadline)?;
        self.note_failures(&ended);
        if let Some(log) = &self.log {
            log.finish();
        }
        self.save_ended(ended.learner.last, restarts);
        self.finish_saves();
        let saved = ended.learner.learner.and_then(|learner| {
            saved(&*learner).inspect_err(|error| tracing::error!(%error, "only published weights are left")).ok()
        });
        let (whole, states) = match saved {
            Some(states) => (Whole::Learner, states),
            None => self.published_states(),
        };
        let checkpoints = self.spec.checkpoints(&self.config, states, &self.weights.load().moments);
        self.remains.not_joined.extend(ended.not_joined);
        let not_joined = std::mem::take(&mut self.remains.not_joined);
        self.remains = Remains { whole, checkpoints, not_joined, time, env_steps_per_s };
        ended.learner.failure
    }

    /// Joins all threads, the learner's before `learner_deadline`. `None` if the run had ended before.
    fn stop_threads(&mut self, learner_deadline: Duration) -> Option<EngineEnd> {
        self.shutdown.release();
        let began = Instant::now();
        let mut ended = self.engine.take()?.join(learner_deadline, self.over);
        ended.not_joined.extend(self.join_evaluator(SHUTDOWN_DEADLINE.saturating_sub(began.elapsed())));
        for thread in &ended.not_joined {
            tracing::warn!(%thread, "this thread missed its deadline and is abandoned");
        }
        Some(ended)
    }

    /// Records workers that gave up while the run ended; that is no failure of the run.
    fn note_failures(&mut self, ended: &EngineEnd) {
        for failure in ended.worker_failures() {
            if self.worker_failures.iter().all(|known| known.thread != failure.thread) {
                self.worker_failures.push(failure);
            }
        }
        for report in &ended.unread {
            self.abandoned.fold(report.abandoned.clone());
            self.env_failures.add(report);
        }
    }

    /// The newest published weights, for a learner that is not intact or missed its deadline: published
    /// snapshots are immutable.
    ///
    /// Of the rest of a learner's state only the counters are known.
    fn published_states(&self) -> (Whole, ByPolicy<LearnerState>) {
        let published = self.weights.load();
        if published.version == 0 {
            return (Whole::Nothing, ByPolicy::new());
        }
        let state = |(policy, params)| {
            let state = self.spec.state_with(&self.config, &policy, params, self.counters(&policy))?;
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

    /// Finishes the reporters and returns the outcome.
    fn hand_back(&mut self, reason: Option<StopReason>, stop: &StopWhen) -> Run {
        self.clock.enter(TrainerState::Reporting);
        self.reporters.finish();
        self.clock.enter(TrainerState::Caller);
        // Last, because processes may take longer to close than checkpoints and reports should wait.
        self.remains.not_joined.extend(self.reaper.wait());
        let result = match self.last.take() {
            Some(result) => result,
            None => self.complete_iteration(None),
        };
        // What has come after the last result.
        let mut env_failures = std::mem::take(&mut self.env_failures);
        env_failures.add(&self.iteration.workers);
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
            signals: self.interrupts.take(),
            best: self.evaluations.take().map(Evaluations::into_best).unwrap_or_default(),
            not_joined,
            env_failures,
            worker_failures: std::mem::take(&mut self.worker_failures),
            abandoned: std::mem::take(&mut self.abandoned),
            reporter_failures: self.reporters.take_failures(),
            checkpoint_failures: self.saves.take().map(|saves| saves.failures).unwrap_or_default(),
        }
    }

    /// Completes `run.json`, unless the program does that. If it cannot be written, that is known like a log.
    fn complete_info(&mut self, run: &mut Run, cause: Option<&TrainError>) {
        let failure = self.failure.clone().or(cause.map(ToString::to_string));
        for info in std::mem::take(&mut self.info) {
            let Err(RunInfoError { path, cause }) = info.end(run, failure.as_deref()) else { continue };
            run.reporter_failures.push(ReportError::of_file("log_to", "write", &path, cause));
        }
    }
}

fn failed(cause: TrainError, run: Run) -> FailedRun {
    FailedRun { cause, run: Box::new(Run { fell_short: true, ..run }) }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.stop_threads(SHUTDOWN_DEADLINE);
        if let Some(saves) = &mut self.saves {
            // As long as at the end of a run: until it is written, no other run can go on in the folder.
            saves.finish(self.finish_deadline);
        }
        // Reporters of a dropped run write what they have, too.
        self.reporters.finish();
        for info in std::mem::take(&mut self.info) {
            let panic = || std::thread::panicking().then(|| "its program panicked".to_owned());
            let unbegun =
                || (self.iterations == 0).then(|| "its program dropped it before its first result".to_owned());
            let failure = self.failure.clone().or_else(panic).or_else(unbegun);
            let outcome = json!({ "reason": null, "failure": failure, "reached": false, "ledger_closed": null });
            // Nothing is left that could say so.
            let _ = info.complete(outcome);
        }
    }
}
