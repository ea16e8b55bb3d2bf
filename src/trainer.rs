//! [`Trainer`]: the rooms joined into a run.

mod builder;
mod compose;
mod ending;
mod engine;
mod episodes;
mod iteration;
mod log;
mod networks;
mod periodic;
mod processors;
mod reporters;
mod run;
mod run_spec;
#[cfg(test)]
mod tests;
mod wiring;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::{Bell, Fold, WeightCell};
use pronk_learner::LearnerMetrics;
use pronk_metrics::{
    ByPolicy, PolicyId, Reporter, StateClock, StepLedger, Steps, TimeLedger, TimerStat, thread_states,
};
use pronk_policy::Params;
use pronk_rollout::{AbandonedThreads, EnvSpec, Reaper, WorkerFailure, WorkerStatus};
use tracing::debug_span;

pub use builder::{OneAgent, SeveralAgents, TrainerBuilder};
pub use run::{Run, RunSummary, Whole};

use crate::checkpoint::{CheckpointError, save_all};
use crate::config::TrainerConfig;
use crate::error::{FailedRun, TrainError};
use crate::result::TrainResult;
use crate::signals;
use crate::stop::{StopReason, StopWhen};
use ending::{Counters, Remains};
use engine::{Engine, Stepped};
use episodes::EpisodeHistory;
use iteration::Iteration;
use periodic::Periodic;
use reporters::Reporters;
use run_spec::RunSpec;

/// How long workers and a dropped trainer are waited for. Threads that do not end by then are left behind; with them, too, a
/// trainer is dropped within a second. Only processes of environments that are closing are waited for longer: as long as they may take.
const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(600);

/// How long a run that ends, well or not, waits for the learner to finish the pass it is in, so that its state can be saved.
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
/// *Blocks*: each `next` for one iteration. Dropping a trainer ends its threads and waits for them, a second at most, and for
/// processes of environments as long as these may take to close.
///
/// *Errors*: the first failure that ended the run, with the thread's name; the iterator ends after it. What is whole can then be
/// saved with [`save`](Self::save), or is in the error of [`finish`](Self::finish).
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
///
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
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
    spec: Arc<RunSpec>,
    /// `None` once the run has ended.
    engine: Option<Engine>,
    /// Ends what environments leave behind.
    reaper: Reaper,
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
    abandoned: AbandonedThreads,
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
    /// The published weights themselves.
    weights: WeightCell<ByPolicy<Params>>,
    /// Where the learner of each policy stood as the run began.
    begun: ByPolicy<Counters>,
    /// Updates of the run.
    updates: u64,
    /// What has gathered since the last result.
    iteration: Iteration,
    last: Option<TrainResult>,
    /// Checkpoints that it writes by itself.
    periodic: Option<Periodic>,
    /// [`FINISH_DEADLINE`]; a test need not wait that long.
    finish_deadline: Duration,
    /// What is left, once the run has ended.
    remains: Remains,
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
        self.spec.specs()
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

    /// Iterates until a limit of `stop`, a signal or a failure, then ends the run.
    ///
    /// The signals are Ctrl-C and, on Unix, SIGTERM: see [`on_ctrl_c`](crate::on_ctrl_c). [`Run::exit_status`] is what a program that
    /// ends with the run should end with. A second signal ends the process at once.
    ///
    /// Without threads (`num_rollout_workers: 0`) an environment that does not come back has the only thread there is: at a
    /// signal the process then ends within a second, with status 130 or 143 and without a result.
    ///
    /// *Blocks* until the run has ended, and then for the pass that the learner is in, a minute at most.
    ///
    /// # Errors
    /// The first failure that ended the run, with what is left of the run.
    pub fn run(mut self, stop: StopWhen) -> Result<Run, FailedRun> {
        if let Some(env_steps) = stop.env_steps {
            self.steps.limit_env_steps(env_steps);
        }
        let watch = self.engine.as_ref().and_then(Engine::watch);
        let on_this_thread = watch.map(|watch| (self.lifeline.clone(), watch));
        let mut interrupts = match signals::Interrupts::new(&self.bell, on_this_thread) {
            Ok(interrupts) => Some(interrupts),
            Err(error) => {
                tracing::warn!(%error, "Ctrl-C and SIGTERM will end the process instead of the run");
                None
            }
        };
        let mut interrupted = || interrupts.as_mut().and_then(signals::Interrupts::first);
        loop {
            let result = match self.iterate(Some(&stop), &mut interrupted) {
                Ok(result) => result,
                Err(cause) => return Err(self.failed(cause, &stop)),
            };
            let sampled = self.has_learned_all().then_some(StopReason::EnvSteps);
            if let Some(reason) = stop.reached(&result).or(sampled).or_else(&mut interrupted) {
                return self.end(Some(reason), &stop);
            }
        }
    }

    /// Ends the run: threads are stopped and joined, and what was under way is counted as dropped.
    ///
    /// *Blocks* for the pass that the learner is in, a minute at most.
    ///
    /// # Errors
    /// The learner failed or took too long while it was ended, or the run had ended before: with what is left of the run.
    pub fn finish(mut self) -> Result<Run, FailedRun> {
        self.end(None, &StopWhen::default())
    }

    /// Writes weights and optimiser into `dir`: see [`Run::save`]. While the run goes on, it goes on; after a failure, it writes
    /// what of them is whole, as [`Run::whole`] says.
    ///
    /// *Blocks* until the learner has finished the pass it is in, and on the disk.
    ///
    /// # Errors
    /// The learner takes too long, nothing is whole, or the folder could not be written.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let Some(engine) = &self.engine else {
            return run::save_whole(&self.remains.checkpoints, dir.as_ref());
        };
        let state = engine.learner_state(self.finish_deadline);
        let state = state.map_err(|error| CheckpointError::NoState { reason: error.to_string() })?;
        save_all(&self.spec.checkpoints(&self.config, state), dir.as_ref())
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
    fn iterate(
        &mut self,
        stop: Option<&StopWhen>,
        interrupted: &mut dyn FnMut() -> Option<StopReason>,
    ) -> Result<TrainResult, TrainError> {
        if let Some(engine) = &mut self.engine {
            engine.begin();
        }
        let time_is_up = |trainer: &Self| stop.is_some_and(|stop| stop.time_is_up(trainer.started.elapsed()));
        while !(interrupted().is_some() || time_is_up(self) || self.has_learned_all() || self.iteration_is_complete()) {
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
        debug_span!("save").in_scope(|| self.save_when_due());
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
        let nobody_works = engine.nobody_works();
        // At the limit of env-steps the workers leave, and then the learner, once it has learned from what is there.
        let is_sampled = self.steps.limit_reached();
        self.collect();
        let out_of_restarts = self.worker_failures.iter().any(WorkerFailure::ends_the_run);
        match stepped {
            Ok(stepped) if is_sampled && !out_of_restarts => self.source_ended = stepped == Stepped::Ended,
            Ok(Stepped::GoesOn) if !nobody_works && !out_of_restarts => {}
            stepped => return Err(self.fail(stepped.err())),
        }
        Ok(())
    }

    /// Takes everything out of the mailboxes.
    fn collect(&mut self) {
        let Some(engine) = &self.engine else { return };
        self.iteration.collect(engine.outqueue(), engine.worker_reports());
        if self.first_update.is_none() && self.iteration.learner.updates > 0 {
            self.first_update = Some((Instant::now(), self.steps.snapshot().sampled.env));
        }
        self.worker_failures.append(&mut self.iteration.workers.ended);
        self.abandoned.fold(std::mem::take(&mut self.iteration.workers.abandoned));
    }
}

impl Iterator for Trainer {
    type Item = Result<TrainResult, TrainError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.engine.as_ref()?;
        Some(self.iterate(None, &mut || None))
    }
}
