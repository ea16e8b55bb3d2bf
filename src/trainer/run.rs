//! [`Run`]: the outcome of a run.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use pronk_metrics::{ByPolicy, ReportError, StepTotals, ThreadTime};
use pronk_rollout::{AbandonedThreads, WorkerFailure};
use serde_json::json;

use super::env_failures::EnvFailures;
use crate::checkpoint::{Checkpoint, CheckpointError, save_all};
use crate::config::TrainerConfig;
use crate::digest::Digest;
use crate::result::TrainResult;
use crate::run_info::{RunInfo, RunInfoError};
use crate::signals::Interrupts;
use crate::stop::StopReason;

/// The outcome of a run, successful or not: the last result, the closed ledgers, and the trained policies.
#[derive(Debug)]
#[non_exhaustive]
pub struct Run {
    /// The last result.
    pub result: TrainResult,
    /// The limit or signal that ended it; `None` if the program or a failure did.
    pub reason: Option<StopReason>,
    /// Signals are heard until the run is dropped, so that none ends the process while the run is saved.
    pub(super) signals: Option<Interrupts>,
    /// Whether it failed or missed its target return.
    pub(super) fell_short: bool,
    /// Time from building the trainer to the end of training.
    pub time: Duration,
    /// Env-steps sampled per second after the first update, which excludes start-up. `None` if there were
    /// none.
    pub env_steps_per_s: Option<f64>,
    /// The final step ledger: nothing is in flight.
    pub steps: StepTotals,
    /// The final time ledger.
    pub thread_times: Vec<ThreadTime>,
    /// The settings of the run.
    pub config: TrainerConfig,
    /// Name of the environment.
    pub env: String,
    /// What `checkpoints` contains: the whole learner, unless the run failed.
    pub whole: Whole,
    /// The trained policies with their optimisers; only `default_policy` for one agent. Empty if nothing is
    /// intact.
    pub checkpoints: ByPolicy<Checkpoint>,
    /// The policy with the highest mean return in an [evaluation](crate::config::EvaluationConfig) beside the
    /// run, with its `score` and a fresh optimiser, by name as in `checkpoints`; empty if no evaluation was
    /// made. With several agents these are all policies that played, also frozen ones.
    pub best: ByPolicy<Checkpoint>,
    /// Threads that missed their deadline and were abandoned.
    pub not_joined: Vec<String>,
    /// Failures of environments.
    pub env_failures: EnvFailures,
    /// Workers that gave up, during the run or at its end.
    pub worker_failures: Vec<WorkerFailure>,
    /// Threads abandoned in hung environments: the count, and the newest with their calls. Those still
    /// running are in `not_joined` too.
    pub abandoned: AbandonedThreads,
    /// Reporters that failed, and how many results are [missing](ReportError::missed) from those that go on.
    pub reporter_failures: Vec<ReportError>,
    /// Failures of periodic checkpoints, each cause once: see
    /// [`TrainerBuilder::checkpoints`](crate::TrainerBuilder::checkpoints).
    pub checkpoint_failures: Vec<CheckpointError>,
}

/// How much of the learner was intact at the end of its run.
///
/// After a failure in the middle of an update, the learner's state is inconsistent and discarded.
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
    /// All of it: weights, optimiser and counters after its last update.
    Learner,
    /// The newest published weights: the learner returned an error, panicked (in `Learner::save` too), or
    /// missed its deadline. A resumed run starts with a fresh optimiser and algorithm state; schedules
    /// continue.
    PublishedWeights,
    /// Nothing: it failed before its first publication.
    #[default]
    Nothing,
}

impl Run {
    /// Whether the target return was reached, over [`result.episodes_covered`](TrainResult::episodes_covered)
    /// episodes.
    pub fn reached(&self) -> bool {
        self.reason == Some(StopReason::ReturnReached)
    }

    /// Whether both ledgers close: each thread's states sum to its wall time within 0.1 %, `sampled = trained
    /// once + dropped + lost` exactly, and nothing is in flight.
    pub fn ledger_closed(&self) -> bool {
        self.steps.is_closed()
            && self.steps.in_flight.env == 0
            && self.steps.in_flight.agent == 0
            && self.thread_times.iter().all(ThreadTime::is_closed)
    }

    /// Saves all trained policies and their optimisers into `dir`, atomically. [`Checkpoint::load`] reads one
    /// policy, and [`Checkpoint::load_all`] all.
    ///
    /// After a failure it saves what [`whole`](Self::whole) says.
    ///
    /// # Errors
    /// The path that could not be written and why, or nothing is intact.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        save_whole(&self.checkpoints, dir.as_ref())
    }

    /// What is missing from the logs of the run, and why; `None` if each file of them is whole.
    pub fn log_failure(&self) -> Option<String> {
        let failures = self.reporter_failures.iter().filter(|failure| failure.file().is_some());
        let failures: Vec<_> = failures.map(ToString::to_string).collect();
        (!failures.is_empty()).then(|| format!("the logs are not whole: {}", failures.join("; ")))
    }

    /// The exit status for a program that ends with the run: 130 after Ctrl-C, 143 after SIGTERM and 129
    /// after SIGHUP, also if the signal came after the end of the run; 1 after a failure, a missed target
    /// return or a [log that is not whole](Self::log_failure), else 0.
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
        let fell_short = self.fell_short || self.log_failure().is_some();
        let late = self.signals.as_ref().and_then(Interrupts::reason);
        let signal = [self.reason, late].into_iter().flatten().find_map(StopReason::signal_status);
        signal.unwrap_or(fell_short.into())
    }

    /// The digest of the trained weights: equal in two runs that end with the same ones.
    pub fn weights_digest(&self) -> Digest {
        Digest::of_weights(self.checkpoints.iter().map(|(policy, checkpoint)| (policy, &checkpoint.state.params)))
    }

    /// The run as one line of JSON.
    pub fn summary(&self) -> RunSummary<'_> {
        RunSummary(self)
    }
}

impl RunInfo {
    /// Adds how the run ended: `failure` says why it failed, if it did. Logs that are not whole are a
    /// failure, too.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(self, run: &Run, failure: Option<&str>) -> Result<(), RunInfoError> {
        self.complete(json!({
            "reason": run.reason,
            "failure": failure.map(str::to_owned).or_else(|| run.log_failure()),
            "reached": run.reached(),
            "ledger_closed": run.ledger_closed(),
        }))
    }
}

/// [`save_all`], unless a failure left nothing.
pub(super) fn save_whole(checkpoints: &ByPolicy<Checkpoint>, dir: &Path) -> Result<(), CheckpointError> {
    if checkpoints.is_empty() {
        let reason = "the run failed before its first publication of weights, so there is nothing to save".to_owned();
        return Err(CheckpointError::NoState { reason });
    }
    save_all(checkpoints, dir)
}

/// A [`Run`] in one line of JSON:
/// `{"env":…,"algorithm":…,"seed":…,"num_sgd_iter":…,"env_steps":…,"seconds":…,"env_steps_per_s":…,
/// "env_steps_per_s_after_start_up":…,"episode_return_mean":…,"episodes":…,"reached":…,"ledger_closed":…,
/// "weights_digest":…}`.
///
/// `episodes` is the number that the mean covers; the first rate is over the whole run, the second is
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
            "weights_digest": run.weights_digest().to_string(),
        });
        line.fmt(f)
    }
}
