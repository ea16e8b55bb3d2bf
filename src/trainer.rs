//! [`Trainer`]: the rooms joined into a run.

mod compose;
mod engine;
mod episodes;
mod iteration;
mod log;
mod model;
mod networks;
mod processors;
mod reporters;
mod run;
mod start;
mod wiring;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::Bell;
use pronk_learner::LearnerMetrics;
use pronk_metrics::{PolicyId, Reporter, StateClock, StepLedger, Steps, TimeLedger, TimerStat, thread_states};
use pronk_rollout::{EnvSpec, WorkerFailure, WorkerStatus};
use tracing::debug_span;

pub use run::{Run, RunSummary};

use crate::checkpoint::CheckpointError;
use crate::config::TrainerConfig;
use crate::error::TrainError;
use crate::result::TrainResult;
use crate::signals;
use crate::stop::{StopReason, StopWhen};
use engine::{Ended, Engine, Stepped};
use episodes::EpisodeHistory;
use iteration::Iteration;
use model::Model;
use reporters::Reporters;

/// How long a dropped or failed run is waited for. Threads that do not end by then are left behind; with them, too, a run
/// ends within a second.
const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(600);

/// How long a run that ended well waits for the learner to finish the pass it is in, so that its state can be saved.
/// Workers are waited for no longer than [`SHUTDOWN_DEADLINE`].
const FINISH_DEADLINE: Duration = Duration::from_secs(60);

/// How long the trainer lets reports gather after it was woken, so that it does not compete with those who work.
const GATHER: Duration = Duration::from_millis(5);

/// Longest wait of the trainer when no iteration time bounds it.
const LISTEN: Duration = Duration::from_secs(1);

thread_states! {
    /// What the thread that owns the trainer is doing.
    pub enum TrainerState {
        /// Running code that is not the trainer's.
        Away = "away",
        /// Waiting for reports of workers and learner.
        Listening = "listening",
        /// Running worker and learner itself, because there are no threads; their own clocks split this time.
        Training = "training",
        /// Composing a result and showing it to reporters.
        Reporting = "reporting",
    }
}

/// A run: rollout workers, a learner, and this thread, which listens to both.
///
/// It is an iterator of results, one per iteration, or runs to the end with [`run`](Self::run). With
/// `num_rollout_workers: 0` there are no threads: workers and learner run inside `next`. With threads, the workers begin when the first
/// result is asked for, and go on from then whether or not it is.
///
/// *Blocks*: each `next` for one iteration. Dropping a trainer ends its threads and waits for them, a second at most.
///
/// *Errors*: the first failure that ended the run, with the thread's name; the iterator ends after it.
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
///
/// let config = TrainerConfig { min_time_s_per_iteration: 0.01, ..TrainerConfig::default() };
/// let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
/// for result in trainer.by_ref().take(2) {
///     let result = result?;
///     println!("{} env-steps, return {:?}", result.env_steps_sampled, result.episode_return_mean);
/// }
/// let run = trainer.finish()?;
/// assert!(run.ledger_closed());
/// # Ok::<(), pronk::TrainError>(())
/// ```
pub struct Trainer {
    config: TrainerConfig,
    model: Arc<Model>,
    /// `None` once the run has ended.
    engine: Option<Engine>,
    /// Cutting it ends every wait of the run.
    lifeline: signals::SharedLifeline,
    /// Rung with every report.
    bell: Bell,
    learner_metrics: LearnerMetrics,
    steps: StepLedger,
    time: TimeLedger,
    clock: StateClock<TrainerState>,
    reporters: Reporters,
    history: EpisodeHistory,
    started: Instant,
    iterations: u64,
    training_iteration: TimerStat,
    /// Showing results to the reporters.
    reporting: TimerStat,
    worker_restarts: u64,
    /// Workers that gave up, and why.
    worker_failures: Vec<WorkerFailure>,
    /// Threads that were left behind in environments that hang.
    abandoned: Vec<String>,
    /// Steps of the fragments that were completed.
    fragments_added: Steps,
    /// When the first update was seen, and how many env-steps were sampled by then.
    first_update: Option<(Instant, u64)>,
    /// Whether the learner has ended because nothing more is sampled.
    source_ended: bool,
    /// What ended the run, if something did.
    failure: Option<String>,
    /// Newest published version of the weights.
    version: u64,
    /// What has gathered since the last result.
    iteration: Iteration,
    last: Option<TrainResult>,
}

impl Trainer {
    /// Adds something that is shown every result. One that fails is named in the results from then on and left out.
    ///
    /// It [finishes](Reporter::finish) as the run ends, in whatever way that is.
    pub fn add_reporter(&mut self, reporter: impl Reporter + 'static) {
        if let Some(clock) = reporter.clock() {
            self.time.add(clock);
        }
        self.reporters.add(Box::new(reporter));
    }

    /// The policies of the run, each with what the environments said about themselves to it: its spaces.
    pub fn env_specs(&self) -> impl Iterator<Item = (&PolicyId, &EnvSpec)> {
        self.model.specs()
    }

    /// What every worker is doing at this moment, and since when: what of a worker with a thread can be seen from outside.
    ///
    /// Empty without threads, and once the run has ended.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    ///
    /// let config = TrainerConfig { num_rollout_workers: 2, ..TrainerConfig::default() };
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

    /// Iterates until a limit of `stop`, Ctrl-C or a failure, then ends the run.
    ///
    /// Without threads (`num_rollout_workers: 0`) an environment that does not come back has the only thread there is: at
    /// Ctrl-C the process then ends within a second, with status 130 and without a result.
    ///
    /// # Errors
    /// The first failure that ended the run.
    pub fn run(mut self, stop: StopWhen) -> Result<Run, TrainError> {
        if let Some(env_steps) = stop.env_steps {
            self.steps.limit_env_steps(env_steps);
        }
        let watch = self.engine.as_ref().and_then(Engine::watch);
        let on_this_thread = watch.map(|watch| (self.lifeline.clone(), watch));
        let interrupts = match signals::Interrupts::new(&self.bell, on_this_thread) {
            Ok(interrupts) => Some(interrupts),
            Err(error) => {
                tracing::warn!(%error, "Ctrl-C will end the process instead of the run");
                None
            }
        };
        let interrupted = || interrupts.as_ref().is_some_and(signals::Interrupts::any);
        loop {
            let result = self.iterate(Some(&stop), &interrupted)?;
            let sampled = self.has_learned_all().then_some(StopReason::EnvSteps);
            let interrupt = interrupted().then_some(StopReason::Interrupted);
            if let Some(reason) = stop.reached(&result).or(sampled).or(interrupt) {
                return self.end(Some(reason));
            }
        }
    }

    /// Ends the run: threads are stopped and joined, and what was under way is counted as dropped.
    ///
    /// # Errors
    /// The learner failed while it was ended, or the run had ended before.
    pub fn finish(mut self) -> Result<Run, TrainError> {
        self.end(None)
    }

    /// Writes weights and optimiser into `dir` while the run goes on: see [`Run::save`].
    ///
    /// *Blocks* until the learner has finished the pass it is in, and on the disk.
    ///
    /// # Errors
    /// The run has ended, or the folder could not be written.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let no_state = |reason: String| CheckpointError::NoState { reason };
        let engine = self.engine.as_ref().ok_or_else(|| no_state("the run has ended".to_owned()))?;
        let state = engine.learner_state(FINISH_DEADLINE).map_err(|error| no_state(error.to_string()))?;
        run::save_all(&self.model.checkpoints(&self.config, state), dir.as_ref())
    }

    /// The next result, awaited instead of blocked on; `None` once the run has ended.
    ///
    /// A future dropped half-way loses nothing: the next one goes on with the same iteration. Without threads
    /// (`num_rollout_workers: 0`) the work is done inside and does block.
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
    /// let config = TrainerConfig { min_time_s_per_iteration: 0.01, ..TrainerConfig::default() };
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
        self.engine.as_mut()?.begin();
        while !self.iteration_is_complete() {
            if let Some(patience) = self.patience() {
                // Both ends of the wait mean the same: look again.
                let _ = tokio::time::timeout(patience, self.bell.rung()).await;
                tokio::time::sleep(GATHER.min(patience)).await;
            }
            if let Err(error) = debug_span!("take_in").in_scope(|| self.take_in()) {
                return Some(Err(error));
            }
        }
        Some(Ok(self.complete_iteration(None)))
    }

    /// One iteration; `interrupted` ends it early. After an error the run is over and all is joined.
    fn iterate(&mut self, stop: Option<&StopWhen>, interrupted: &dyn Fn() -> bool) -> Result<TrainResult, TrainError> {
        if let Some(engine) = &mut self.engine {
            engine.begin();
        }
        let time_is_up = |trainer: &Self| stop.is_some_and(|stop| stop.time_is_up(trainer.started.elapsed()));
        while !(interrupted() || time_is_up(self) || self.has_learned_all() || self.iteration_is_complete()) {
            let listen = debug_span!("listen").entered();
            if let Some(patience) = self.patience()
                && self.bell.wait(patience)
            {
                // Milliseconds, so that reports gather; there is nothing that could end it sooner.
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(GATHER.min(patience));
            }
            drop(listen);
            debug_span!("take_in").in_scope(|| self.take_in())?;
        }
        Ok(self.complete_iteration(stop))
    }

    /// Whether the limit of env-steps is reached, and the learner has come to the end of what was sampled. Should a worker be stuck in
    /// the fragment that it was making, the learner has waited for it in vain.
    fn has_learned_all(&self) -> bool {
        self.steps.limit_reached() && (self.source_ended || self.learner_metrics.read().starved.is_some())
    }

    fn iteration_is_complete(&self) -> bool {
        self.iteration.is_complete(&self.config, &self.steps, &self.learner_metrics)
    }

    fn complete_iteration(&mut self, stop: Option<&StopWhen>) -> TrainResult {
        self.clock.enter(TrainerState::Reporting);
        let result = debug_span!("report").in_scope(|| self.compose(stop));
        self.clock.enter(TrainerState::Away);
        self.last = Some(result.clone());
        result
    }

    /// How long to wait for the bell before the next look; `None` without threads, where nobody else would ring it.
    fn patience(&mut self) -> Option<Duration> {
        match self.engine {
            Some(Engine::Threads { .. }) => {
                self.clock.enter(TrainerState::Listening);
                let left = self.iteration.time_left(&self.config);
                Some(left.unwrap_or(LISTEN).min(LISTEN))
            }
            Some(Engine::Inline { .. }) | None => None,
        }
    }

    /// Takes in what there is; without threads, makes it first. After an error the run is over and all is joined.
    fn take_in(&mut self) -> Result<(), TrainError> {
        let Some(engine) = self.engine.as_mut() else {
            return Err(TrainError::Ended);
        };
        let stepped = match engine {
            Engine::Inline { .. } => {
                self.clock.enter(TrainerState::Training);
                engine.step_inline()
            }
            Engine::Threads { .. } if engine.outqueue().is_closed() => Ok(Stepped::Ended),
            Engine::Threads { .. } => Ok(Stepped::GoesOn),
        };
        let nobody_works = engine.nobody_works();
        // At the limit of env-steps the workers leave, and then the learner, once it has learned from what is there.
        let is_sampled = self.steps.limit_reached();
        self.iteration.collect(engine.outqueue(), engine.worker_reports());
        if self.first_update.is_none() && self.iteration.learner.updates > 0 {
            self.first_update = Some((Instant::now(), self.steps.snapshot().sampled.env));
        }
        self.worker_failures.append(&mut self.iteration.workers.ended);
        self.abandoned.append(&mut self.iteration.workers.abandoned);
        let error = match stepped {
            Err(error) => error,
            Ok(_) if self.worker_failures.iter().any(WorkerFailure::ends_the_run) => {
                TrainError::Workers(self.worker_failures.clone())
            }
            Ok(stepped) if is_sampled => {
                self.source_ended = stepped == Stepped::Ended;
                return Ok(());
            }
            Ok(stepped) if stepped == Stepped::Ended || nobody_works => self.first_cause(),
            Ok(_) => return Ok(()),
        };
        self.shut_down(SHUTDOWN_DEADLINE);
        // Nobody is returned this result; it is there for the reporters.
        self.failure = Some(error.to_string());
        self.complete_iteration(None);
        Err(error)
    }

    /// The learner is gone though nobody ended the run: who was the first to fail?
    fn first_cause(&mut self) -> TrainError {
        let ended = self.shut_down(SHUTDOWN_DEADLINE);
        self.note_failures(&ended);
        // The learner ends without a failure of its own when the workers have given up.
        match ended.learner {
            Some(Err(failure)) => failure.into(),
            _ if self.worker_failures.is_empty() => TrainError::Ended,
            _ => TrainError::Workers(self.worker_failures.clone()),
        }
    }

    /// Ends every thread and joins it, before `deadline`.
    fn shut_down(&mut self, deadline: Duration) -> Ended {
        self.lifeline.cut();
        let ended = self.engine.take().map(|engine| engine.join(deadline)).unwrap_or_default();
        for thread in &ended.not_joined {
            tracing::warn!(%thread, "this thread did not end in time and is left behind");
        }
        ended
    }

    /// Adds the workers that gave up as the run ended.
    fn note_failures(&mut self, ended: &Ended) {
        for failure in ended.worker_failures() {
            if self.worker_failures.iter().all(|known| known.thread != failure.thread) {
                self.worker_failures.push(failure);
            }
        }
        self.abandoned.extend(ended.unread.iter().flat_map(|report| &report.abandoned).cloned());
    }

    fn end(&mut self, reason: Option<StopReason>) -> Result<Run, TrainError> {
        let trained_for = self.started.elapsed();
        let sampled = self.steps.snapshot().sampled.env;
        let rate = |(since, before): (Instant, u64)| (sampled - before) as f64 / since.elapsed().as_secs_f64();
        let env_steps_per_s = self.first_update.map(rate).filter(|rate| rate.is_finite() && *rate > 0.0);
        let last = match self.last.take() {
            Some(result) => result,
            None => self.complete_iteration(None),
        };
        let ended = self.shut_down(FINISH_DEADLINE);
        // Whoever gave up takes nothing away from what was reached.
        self.note_failures(&ended);
        let learner = ended.learner.ok_or(TrainError::Ended)??;
        self.clock.enter(TrainerState::Reporting);
        self.reporters.finish();
        self.clock.enter(TrainerState::Away);
        Ok(Run {
            result: last,
            reason,
            time: trained_for,
            env_steps_per_s,
            steps: self.steps.snapshot(),
            thread_times: self.time.read(),
            config: self.config.clone(),
            env: self.model.env.clone(),
            checkpoints: self.model.checkpoints(&self.config, learner.save()),
            not_joined: ended.not_joined,
            worker_failures: std::mem::take(&mut self.worker_failures),
            abandoned: std::mem::take(&mut self.abandoned),
            reporter_failures: self.reporters.take_failures(),
        })
    }
}

impl Iterator for Trainer {
    type Item = Result<TrainResult, TrainError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.engine.as_ref()?;
        Some(self.iterate(None, &|| false))
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.shut_down(SHUTDOWN_DEADLINE);
        // Of a run that failed, or that somebody just let go of, they still write what they have.
        self.reporters.finish();
    }
}
