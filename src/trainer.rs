//! [`Trainer`]: the loop of a run.

mod acting;
mod begin;
mod best;
mod builder;
mod checkpoint_thread;
mod compose;
mod cut;
mod ending;
mod engine;
mod env_failures;
mod episodes;
mod evaluating;
mod evaluations;
mod evaluator;
mod failed_run;
mod handle;
mod hosting;
mod hosts_plan;
mod iteration;
mod log;
mod making;
mod networks;
mod parts;
mod processors;
mod promise;
mod remains;
mod reporters;
mod restored;
mod resume_report;
mod run;
mod run_spec;
mod saves;
mod saving;
#[cfg(test)]
mod tests;
mod train_batches;
mod turn_reports;
mod video_folder;
mod wiring;

use std::time::{Duration, Instant};

use pronk_buffer::Fold;
use pronk_metrics::{PolicyId, Reporter, StateClock};
use pronk_rollout::{EnvSpec, WorkerFailure, WorkerStatus};
use tracing::debug_span;

pub use acting::{ActingError, ActingHost, ActingOutcome};
pub use builder::{OneAgent, SeveralAgents, TrainerBuilder};
pub use env_failures::EnvFailures;
pub use failed_run::FailedRun;
pub use handle::{Trainer, TrainerState};
pub use run::{Run, RunSummary, Whole};

use crate::config::Admission;
use crate::error::TrainError;
use crate::record::RunLog;
use crate::result::TrainResult;
use crate::signals::{Interrupts, OnThisThread};
use crate::stop::{StopReason, StopWhen};
use engine::{Engine, Stepped};
use turn_reports::TurnReports;

/// How long the trainer lets reports accumulate after a wake-up, so that it does not compete with workers and
/// learner.
const GATHER: Duration = Duration::from_millis(5);

/// How long a signal waits for the end of an iteration, where a run that repeats can be saved exactly.
/// Schedulers kill after 10 s or more.
const WAIT_FOR_ITERATION: Duration = Duration::from_secs(6);

/// Longest wait without a bound by the iteration's time.
const LISTEN: Duration = Duration::from_secs(1);

impl Trainer {
    /// Listens for signals until the [`Run`] is dropped.
    pub(crate) fn listen_for_signals(&mut self) {
        let monitor = self.engine.as_ref().and_then(Engine::monitor);
        let saves_itself = self.saves.is_some() && self.rests();
        let patience = if saves_itself { WAIT_FOR_ITERATION } else { Duration::ZERO };
        let on_this_thread = monitor.map(|monitor| OnThisThread { shutdown: self.shutdown.clone(), monitor, patience });
        match Interrupts::new(&self.notifier, on_this_thread) {
            Ok(interrupts) => self.interrupts = Some(interrupts),
            Err(error) => tracing::warn!(%error, "signals will end the process instead of the run"),
        }
    }

    /// Adds a reporter, which receives every result. One that fails is dropped and named in the results.
    ///
    /// It [finishes](Reporter::finish) when the run ends, well or not.
    pub fn add_reporter(&mut self, reporter: impl Reporter + 'static) {
        if let Some(clock) = reporter.clock() {
            self.time.add(clock);
        }
        self.reporters.add(Box::new(reporter));
    }

    /// The policies of the run with their spaces.
    pub fn env_specs(&self) -> impl Iterator<Item = (&PolicyId, &EnvSpec)> {
        self.spec.specs()
    }

    /// What every worker thread is doing, and since when.
    ///
    /// Empty without threads and after the run.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    ///
    /// let mut config = TrainerConfig::default();
    /// config.workers.num_rollout_workers = 2;
    /// let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
    /// for worker in trainer.workers() {
    ///     println!("{} {:?} since {:?}, in {:?}", worker.thread, worker.state, worker.since, worker.call);
    /// }
    /// # assert_eq!(trainer.workers().len(), 2);
    /// # Ok::<(), pronk::TrainError>(())
    /// ```
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.engine.as_ref().map(Engine::workers).unwrap_or_default()
    }

    /// Runs until a limit of `stop`, a signal or a failure.
    ///
    /// See [signals](Trainer#signals). [`Run::exit_status`] is the exit status for a program that ends with
    /// the run.
    ///
    /// *Blocks* until the run has ended and the learner has finished its pass, a minute at most.
    ///
    /// The limit of time ends calls of environments in processes, too; without threads, any other call is
    /// waited for.
    ///
    /// # Errors
    /// The failure that ended the run, or [`TrainError::NoEpisode`] at a limit, with the rest of the run.
    pub fn run(mut self, stop: StopWhen) -> Result<Run, FailedRun> {
        self.give_up_calls_after(stop.time);
        if let Some(env_steps) = stop.env_steps {
            self.steps.limit_env_steps(env_steps);
        }
        // A run that had ended before it was resumed does not go on beyond its limits. Where this process has
        // trained already, hosts may be making fragments of which the books do not know yet.
        let has_all =
            self.first_update.is_none() && self.steps.limit_reached() && self.steps.snapshot().in_flight.env == 0;
        let reached =
            self.last.as_ref().and_then(|last| stop.reached(last).or(has_all.then_some(StopReason::EnvSteps)));
        let interrupted = self.signal().filter(|_| !self.is_under_way);
        if let Some(reason) = reached.or(interrupted) {
            return self.end(Some(reason), &stop);
        }
        loop {
            let result = match self.iterate(Some(&stop)) {
                Ok(result) => result,
                Err(cause) => return Err(self.failed(cause, &stop)),
            };
            let replayed = self.has_replayed_all().then_some(StopReason::Replayed);
            let sampled = self.has_learned_all().then_some(StopReason::EnvSteps);
            if let Some(reason) = replayed.or_else(|| stop.reached(&result)).or(sampled).or_else(|| self.signal()) {
                return self.end(Some(reason), &stop);
            }
        }
    }

    /// Ends the run: joins all threads and counts the steps in flight as dropped. [`Run::reason`] is the
    /// signal that ended the iteration, if one did.
    ///
    /// *Blocks* until the learner has finished its pass, a minute at most.
    ///
    /// # Errors
    /// The learner failed or missed its deadline, or the run had ended before; with the rest of the run.
    pub fn finish(mut self) -> Result<Run, FailedRun> {
        let signal = self.signal();
        self.end(signal, &StopWhen::default())
    }

    /// The next result, asynchronously; `None` once the run has ended, has repeated all of a record, or got a
    /// [signal](Trainer#signals).
    ///
    /// Cancel-safe: the next call resumes the same iteration. Without threads (`num_rollout_workers: 0`) it
    /// blocks, because it does the work itself.
    ///
    /// *Needs* a tokio runtime with its timer enabled.
    ///
    /// # Errors
    /// The failure that ended the run.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    ///
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// runtime.block_on(async {
    ///     let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
    ///     if let Some(result) = trainer.next_result().await {
    ///         println!("{} env-steps", result?.env_steps_sampled);
    ///     }
    ///     Ok::<_, pronk::TrainError>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn next_result(&mut self) -> Option<Result<TrainResult, TrainError>> {
        if self.has_no_more_results() {
            return None;
        }
        self.begin_iteration();
        while !(self.must_end() || self.has_learned_all() || self.iteration_is_complete()) {
            // Before the wait, or calls that are given up early would never come to a result.
            self.clock.enter(TrainerState::Listening);
            if let Err(error) = debug_span!("take_in").in_scope(|| self.take_in()) {
                return Some(Err(error));
            }
            if let Some(wait_limit) = self.wait_limit() {
                let _listening = Listening(&mut self.clock);
                // Woken or timed out, the loop condition decides.
                let _ = tokio::time::timeout(wait_limit, self.notifier.notified()).await;
                tokio::time::sleep(GATHER.min(wait_limit)).await;
            }
        }
        Some(Ok(self.complete_iteration(None)))
    }

    /// One iteration, which a signal ends early. After an error the run has ended and all threads are joined.
    fn iterate(&mut self, stop: Option<&StopWhen>) -> Result<TrainResult, TrainError> {
        self.begin_iteration();
        let time_is_up = |trainer: &Self| stop.is_some_and(|stop| stop.time_is_up(trainer.time_total()));
        while !(self.must_end() || time_is_up(self) || self.has_learned_all() || self.iteration_is_complete()) {
            let listen = debug_span!("listen").entered();
            if let Some(wait_limit) = self.wait_limit()
                && self.notifier.wait(wait_limit)
            {
                // A few milliseconds, which nothing needs to interrupt.
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(GATHER.min(wait_limit));
            }
            drop(listen);
            debug_span!("take_in").in_scope(|| self.take_in())?;
        }
        Ok(self.complete_iteration(stop))
    }

    /// Begins an iteration, unless a call of `next_result` that was given up has begun it.
    fn begin_iteration(&mut self) {
        let limit = self.limit_of_turns();
        if std::mem::replace(&mut self.is_under_way, true) {
            self.engine.iter().for_each(|engine| engine.limit(limit));
            return;
        }
        // Before anything moves again, so that a run that repeats evaluates the same weights.
        self.evaluate_if_due();
        self.engine.iter_mut().for_each(|engine| engine.begin(limit));
    }

    /// The limit of env-steps, as turns of this process see it.
    fn limit_of_turns(&self) -> Option<u64> {
        let outside = self.resumed.as_ref().map_or(0, |resumed| resumed.outside_turns);
        self.steps.limit().map(|limit| limit.saturating_sub(outside))
    }

    /// Whether a signal ends the iteration: at once, or where the iteration ends if a checkpoint needs that.
    fn must_end(&mut self) -> bool {
        if self.signal().is_none() {
            return false;
        }
        let since = *self.signalled.get_or_insert_with(Instant::now);
        let waits = self.saves.is_some() && self.turn_reports.is_some();
        !waits || since.elapsed() >= WAIT_FOR_ITERATION
    }

    /// Without threads, ends calls of environments in processes at the limit of time: nothing else could.
    fn give_up_calls_after(&self, limit: Option<Duration>) {
        let at = limit.and_then(|limit| self.started.checked_add(limit.saturating_sub(self.time_before)));
        if let (Some(monitor), Some(at)) = (self.engine.as_ref().and_then(Engine::monitor), at) {
            monitor.give_up_at(at);
        }
    }

    /// The reason to end the run, after a signal.
    fn signal(&self) -> Option<StopReason> {
        self.interrupts.as_ref().and_then(Interrupts::reason)
    }

    /// Whether an iterator of results has come to its end.
    fn has_no_more_results(&self) -> bool {
        let is_interrupted = !self.is_under_way && self.signal().is_some();
        self.engine.is_none() || is_interrupted || self.has_told_all()
    }

    /// The time of the run, that of earlier processes included.
    pub(super) fn time_total(&self) -> Duration {
        self.time_before + self.started.elapsed()
    }

    /// Whether the limit of env-steps is reached and the learner has trained on all of them, or is starved
    /// because a worker is stuck in its last fragment.
    fn has_learned_all(&self) -> bool {
        self.has_replayed_all() || self.steps.limit_reached() && (self.source_ended || self.starves_for_good())
    }

    /// Whether the learner starves, and not because a host is cut off that will ship what it has.
    fn starves_for_good(&self) -> bool {
        let Some(starved) = self.learner_metrics.read().starved else { return false };
        match self.engine.as_ref().and_then(Engine::hosts) {
            // By then its lease is over; the rest are workers that are stuck.
            Some(hosts) if hosts.n_hosts() > 0 => starved.waited_in_a_row > 2 * hosts.lease(),
            _ => true,
        }
    }

    /// Whether the record that the run repeats has ended.
    fn has_replayed_all(&self) -> bool {
        self.source_ended && self.log.as_ref().is_some_and(RunLog::has_replayed_all)
    }

    /// Whether the last result was about the end of the record.
    fn has_told_all(&self) -> bool {
        self.has_replayed_all() && self.last.as_ref().is_some_and(|last| last.steps == self.steps.snapshot())
    }

    fn iteration_is_complete(&self) -> bool {
        let Some(turns) = &self.turn_reports else {
            let waits_for_hosts = self.engine.as_ref().is_some_and(Engine::waits_for_hosts);
            return self.iteration.is_complete(&self.config, &self.steps, &self.learner_metrics, waits_for_hosts);
        };
        // The workers have used all their turns, too, so that all that a result counts is at rest. One that
        // has given up will not.
        let is_quiet = |engine: &Engine| !self.worker_failures.is_empty() || turns.fragments() >= engine.granted();
        self.engine.as_ref().is_some_and(|engine| engine.round_is_over() && is_quiet(engine))
    }

    /// Ends the promise of a run that repeats, if something in this iteration depended on time.
    fn check_promise(&mut self) {
        let why = if let Some(failure) = self.worker_failures.first() {
            failure.to_string()
        } else if let Some(thread) = self.abandoned.newest.first() {
            format!("abandoned {thread}")
        } else if !self.has_learned_all() && !self.iteration_is_complete() {
            "the iteration was ended by the clock or a signal".to_owned()
        } else {
            return;
        };
        self.promise.end(self.iterations, self.updates, &why);
    }

    fn complete_iteration(&mut self, stop: Option<&StopWhen>) -> TrainResult {
        self.clock.enter(TrainerState::Reporting);
        // What the learner reported between the last look and the end of the round.
        if self.turn_reports.is_some() {
            self.collect();
            self.check_promise();
        }
        let reports = self.turn_reports.as_mut().map(TurnReports::take).unwrap_or_default();
        reports.into_iter().for_each(|report| self.iteration.workers.fold(report));
        let is_due = self.is_save_due();
        // Nothing rests under free admission: the learner is cut first, and the result counts by its ledger.
        let cut = if is_due && !self.rests() { debug_span!("save").in_scope(|| self.cut()) } else { None };
        let result = debug_span!("report").in_scope(|| self.compose(stop, cut.as_ref()));
        let cut = if is_due && self.rests() { debug_span!("save").in_scope(|| self.cut()) } else { cut };
        self.last = Some(result.clone());
        self.is_under_way = false;
        if let Some(cut) = cut {
            self.save_cut(cut);
        }
        self.clock.enter(TrainerState::Caller);
        result
    }

    /// How long to wait for the notifier; `None` without threads, where nothing else would notify.
    fn wait_limit(&mut self) -> Option<Duration> {
        match self.engine {
            Some(Engine::Threads { .. }) => {
                self.clock.enter(TrainerState::Listening);
                let left = match self.config.learner.admission {
                    Admission::Free => self.iteration.time_left(&self.config),
                    Admission::Deterministic { .. } => None,
                };
                Some(left.unwrap_or(LISTEN).min(LISTEN))
            }
            Some(Engine::Inline { .. }) | None => None,
        }
    }

    /// Collects reports; without threads, does the work first. After an error the run has ended and all
    /// threads are joined.
    fn take_in(&mut self) -> Result<(), TrainError> {
        let Some(engine) = self.engine.as_mut() else {
            return Err(TrainError::Ended { failure: self.failure.clone() });
        };
        let stepped = match engine {
            Engine::Inline { .. } => {
                self.clock.enter(TrainerState::Training);
                engine.step_inline()
            }
            Engine::Threads { .. } if engine.outqueue().is_closed() => Ok(Stepped::Ended),
            Engine::Threads { .. } => Ok(Stepped::GoesOn),
        };
        let has_no_workers = engine.has_no_workers();
        // At the limit of env-steps the workers end first, then the learner, once it has trained on the rest.
        let is_sampled = self.steps.limit_reached() || self.log.as_ref().is_some_and(RunLog::has_replayed_all);
        self.collect();
        let out_of_restarts = self.worker_failures.iter().any(WorkerFailure::ends_the_run);
        match stepped {
            Ok(stepped) if is_sampled && !out_of_restarts => self.source_ended = stepped == Stepped::Ended,
            Ok(Stepped::GoesOn) if !has_no_workers && !out_of_restarts => {}
            stepped => return Err(self.fail(stepped.err())),
        }
        if !self.rests() {
            self.evaluate_if_due();
        }
        Ok(())
    }

    /// Empties the mailboxes.
    fn collect(&mut self) {
        let Some(engine) = &self.engine else { return };
        self.iteration.collect(engine.outqueue(), engine.worker_reports(), self.turn_reports.as_mut());
        if self.first_update.is_none() && self.iteration.learner.updates > 0 {
            self.first_update = Some((Instant::now(), self.steps.snapshot().sampled.env));
        }
        let restarted = std::mem::take(&mut self.iteration.workers.restarted);
        if let Some(resumed) = &mut self.resumed {
            resumed.add_restarted(restarted);
        }
        self.worker_failures.append(&mut self.iteration.workers.ended);
        self.abandoned.fold(std::mem::take(&mut self.iteration.workers.abandoned));
        self.collect_evaluations();
    }
}

/// A wait for the workers or the learner. Given up or not, the caller's time begins with its end.
struct Listening<'a>(&'a mut StateClock<TrainerState>);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.enter(TrainerState::Caller);
    }
}

impl Iterator for Trainer {
    type Item = Result<TrainResult, TrainError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.has_no_more_results()).then(|| self.iterate(None))
    }
}
