//! [`Run`]: what is left when a run has ended.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use pronk_metrics::{ByPolicy, ReportError, StepTotals, ThreadTime};
use pronk_rollout::{AbandonedThreads, WorkerFailure};
use serde_json::json;

use crate::checkpoint::{Checkpoint, CheckpointError, save_all};
use crate::config::TrainerConfig;
use crate::result::TrainResult;
use crate::stop::StopReason;

/// What is left when a run has ended, well or not: the last result, the ledgers as they closed, and the
/// trained policy.
#[derive(Debug)]
#[non_exhaustive]
pub struct Run {
    /// The last result.
    pub result: TrainResult,
    /// The limit or signal that ended it; `None` when the program did, or a failure.
    pub reason: Option<StopReason>,
    /// Whether it failed, or had a return to reach and did not.
    pub(super) fell_short: bool,
    /// Time from building the trainer to the end of training.
    pub time: Duration,
    /// Env-steps sampled a second from the first update on: what building the trainer and filling the first
    /// batch took does not count. `None` if nothing was sampled after an update.
    pub env_steps_per_s: Option<f64>,
    /// The step ledger after everything had ended: nothing is in flight.
    pub steps: StepTotals,
    /// The time ledger after all threads had ended.
    pub thread_times: Vec<ThreadTime>,
    /// The settings of the run.
    pub config: TrainerConfig,
    /// Name of the environment.
    pub env: String,
    /// What of the learner is in `checkpoints`: all of it, unless the run failed.
    pub whole: Whole,
    /// The policies that were trained, and their optimisers; `default_policy` alone where there is one agent.
    /// Empty if nothing is whole.
    pub checkpoints: ByPolicy<Checkpoint>,
    /// Threads that did not end in time and were abandoned.
    pub not_joined: Vec<String>,
    /// Workers that gave up, while others went on or as the run ended.
    pub worker_failures: Vec<WorkerFailure>,
    /// Threads that were abandoned in an environment that hangs: how many, and the newest with what each was
    /// stuck in. Those that have not ended since are in `not_joined` too.
    pub abandoned: AbandonedThreads,
    /// Reporters that failed on the way.
    pub reporter_failures: Vec<ReportError>,
    /// Why periodic checkpoints could not be saved, each cause once: see [`Trainer::checkpoint_every`](crate::Trainer::checkpoint_every).
    pub checkpoint_failures: Vec<CheckpointError>,
}

/// What of the learner was whole as its run ended.
///
/// A learner may fail in the middle of an update, and what it holds is then not to be trusted.
///
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::Whole;
///
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
/// let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
/// assert_eq!(trainer.finish()?.whole, Whole::Learner);
/// # Ok::<(), pronk::TrainError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whole {
    /// All of it: weights, optimiser and counters as its last update left them.
    Learner,
    /// The newest published weights: the learner returned an error, panicked (in `Learner::save` too), or did
    /// not end in time. Going on from them, the optimiser and what the algorithm keeps begin anew; schedules
    /// go on.
    PublishedWeights,
    /// Nothing: it failed before it had published weights.
    #[default]
    Nothing,
}

impl Run {
    /// Whether the return that the run was to stop at was reached: over how many episodes, is in
    /// [`result.episodes_covered`](TrainResult::episodes_covered).
    pub fn reached(&self) -> bool {
        self.reason == Some(StopReason::ReturnReached)
    }

    /// Whether both ledgers close now that all is over: each thread's states sum to its wall time within 0.1
    /// %, `sampled = trained once + dropped + lost` exactly, and nothing is in flight.
    pub fn ledger_closed(&self) -> bool {
        self.steps.is_closed()
            && self.steps.in_flight.env == 0
            && self.steps.in_flight.agent == 0
            && self.thread_times.iter().all(ThreadTime::is_closed)
    }

    /// Writes all policies that were trained and their optimisers into `dir`, under one manifest: a process
    /// killed at any instant leaves those of one save. [`Checkpoint::load`] reads the only policy, or one by
    /// its name, and [`Checkpoint::load_all`] all.
    ///
    /// After a failure it writes what [`whole`](Self::whole) says.
    ///
    /// # Errors
    /// The path that could not be written and why, or nothing is whole.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        save_whole(&self.checkpoints, dir.as_ref())
    }

    /// The exit status for a program that ends with the run: 130 when Ctrl-C ended it and 143 when SIGTERM
    /// did, as a shell and a scheduler expect; otherwise 1 when it failed, or had a return to reach and did
    /// not, and 0 for everything else.
    ///
    /// ```
    /// use std::process::ExitCode;
    ///
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    ///
    /// fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    ///     let mut config = TrainerConfig::default();
    ///     config.results.min_time_s_per_iteration = 0.01;
    ///     let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
    ///     let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    ///     println!("{}", run.summary());
    ///     Ok(run.exit_status().into())
    /// }
    /// ```
    pub fn exit_status(&self) -> u8 {
        self.reason.and_then(StopReason::signal_status).unwrap_or(self.fell_short.into())
    }

    /// The run in one line of JSON, for programs that compare runs.
    pub fn summary(&self) -> RunSummary<'_> {
        RunSummary(self)
    }
}

/// As [`save_all`], where a failure may have left nothing.
pub(super) fn save_whole(checkpoints: &ByPolicy<Checkpoint>, dir: &Path) -> Result<(), CheckpointError> {
    if checkpoints.is_empty() {
        let reason = "the run failed before weights were published, so nothing that was learned is whole".to_owned();
        return Err(CheckpointError::NoState { reason });
    }
    save_all(checkpoints, dir)
}

/// A [`Run`] in one line of JSON:
/// `{"env":…,"algorithm":…,"seed":…,"num_sgd_iter":…,"env_steps":…,"seconds":…,"env_steps_per_s":…,
/// "env_steps_per_s_after_start_up":…,"episode_return_mean":…,"episodes":…,"reached":…,"ledger_closed":…}`.
///
/// `episodes` is how many the mean is of; the first rate is over the whole run, the second
/// [`Run::env_steps_per_s`].
#[derive(Clone, Copy, Debug)]
pub struct RunSummary<'a>(&'a Run);

impl fmt::Display for RunSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.0;
        let secs = run.time.as_secs_f64();
        let env_steps = run.steps.sampled.env;
        let line = json!({
            "env": run.env,
            "algorithm": run.checkpoints.values().next().map(|checkpoint| &checkpoint.algorithm),
            "seed": run.config.seed,
            "num_sgd_iter": run.config.learner.num_sgd_iter,
            "env_steps": env_steps,
            "seconds": secs,
            "env_steps_per_s": if secs > 0.0 { env_steps as f64 / secs } else { 0.0 },
            "env_steps_per_s_after_start_up": run.env_steps_per_s,
            "episode_return_mean": run.result.episode_return_mean,
            "episodes": run.result.episodes_covered,
            "reached": run.reached(),
            "ledger_closed": run.ledger_closed(),
        });
        line.fmt(f)
    }
}
