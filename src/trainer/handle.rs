//! [`Trainer`]: the state of a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::{Notifier, WeightCell};
use pronk_hosts::Over;
use pronk_learner::LearnerMetrics;
use pronk_metrics::{ByPolicy, StateClock, StepLedger, Steps, TimeLedger, TimerStat, thread_states};
use pronk_policy::Params;
use pronk_rollout::{AbandonedThreads, Reaper, WorkerFailure};

use super::engine::Engine;
use super::env_failures::EnvFailures;
use super::episodes::EpisodeHistory;
use super::evaluations::Evaluations;
use super::iteration::Iteration;
use super::promise::Promise;
use super::remains::{Counters, Remains};
use super::reporters::Reporters;
use super::resume_report::ResumeReport;
use super::run_spec::RunSpec;
use super::saves::Saves;
use super::turn_reports::TurnReports;
use crate::config::TrainerConfig;
use crate::record::RunLog;
use crate::result::TrainResult;
use crate::run_info::RunInfo;
use crate::signals::{Interrupts, SharedGuard};

/// How long the end of a run waits for the learner's pass, so that its state can be saved. Workers have
/// [`SHUTDOWN_DEADLINE`](super::engine::SHUTDOWN_DEADLINE).
pub(super) const FINISH_DEADLINE: Duration = Duration::from_secs(60);

thread_states! {
    /// What the thread that owns the trainer is doing.
    pub enum TrainerState {
        /// In the caller's code.
        Caller = "away",
        /// Waiting for reports of workers and learner.
        Listening = "listening",
        /// Running worker and learner inline; their own clocks split this time.
        Training = "training",
        /// Composing a result and passing it to reporters.
        Reporting = "reporting",
    }
}

/// A run: rollout workers, a learner, and this thread, which collects their reports.
///
/// An iterator of results, one per iteration; [`run`](Self::run) runs to the end. Workers start with the
/// first `next` and then sample continuously. With `num_rollout_workers: 0` there are no threads: worker and
/// learner run inside `next`.
///
/// # Signals
/// From its start until its [`Run`](crate::Run) is dropped, a run listens for Ctrl-C, SIGTERM (on Unix) and
/// SIGHUP (on Linux, unless the process ignores it, as below `nohup`). The first signal ends the run as a
/// limit does: [`run`](Self::run) returns, and the iterator ends, where [`finish`](Self::finish) hands back
/// the run. So a policy that is saved next is not lost. One that comes when the run has ended already only
/// changes its [exit status](crate::Run::exit_status). A second signal ends the process at once.
/// [`TrainerBuilder::without_signals`](crate::TrainerBuilder::without_signals) leaves signals to the program.
///
/// Without threads (`num_rollout_workers: 0`), if the environment hangs, a signal ends the process within a
/// second, with the status of the signal and without a result.
///
/// # Blocks
/// Each `next` for one iteration. Dropping a trainer joins its threads, for a second at most, and
/// waits for processes of environments to close.
///
/// # Errors
/// The failure that ended the run, with the thread's name; the iterator ends after it.
/// [`save`](Self::save) still writes what is intact, and the error of [`finish`](Self::finish) has it.
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
    pub(super) config: TrainerConfig,
    pub(super) spec: Arc<RunSpec>,
    /// `None` once the run has ended.
    pub(super) engine: Option<Engine>,
    /// Waits for processes of environments to close.
    pub(super) reaper: Reaper,
    /// Ends every wait of the run.
    pub(super) shutdown: SharedGuard,
    /// Notified with every report.
    pub(super) notifier: Notifier,
    pub(super) learner_metrics: LearnerMetrics,
    pub(super) steps: StepLedger,
    pub(super) time: TimeLedger,
    pub(super) clock: StateClock<TrainerState>,
    pub(super) reporters: Reporters,
    /// `run.json` of each folder that the run logs to, unless the program completes the file itself.
    pub(super) info: Vec<RunInfo>,
    pub(super) history: EpisodeHistory,
    pub(super) started: Instant,
    pub(super) iterations: u64,
    pub(super) training_iteration: TimerStat,
    /// Time in reporters.
    pub(super) reporting: TimerStat,
    pub(super) worker_restarts: u64,
    pub(super) env_failures: EnvFailures,
    /// Workers that gave up.
    pub(super) worker_failures: Vec<WorkerFailure>,
    /// Threads abandoned in hung environments.
    pub(super) abandoned: AbandonedThreads,
    /// Steps of completed fragments.
    pub(super) fragments_added: Steps,
    /// Time of the first update, and env-steps sampled by then.
    pub(super) first_update: Option<(Instant, u64)>,
    /// Whether the learner ended because sampling is complete.
    pub(super) source_ended: bool,
    /// The failure that ended the run.
    pub(super) failure: Option<String>,
    /// Newest published version of the weights.
    pub(super) version: u64,
    /// The published weights.
    pub(super) weights: WeightCell<ByPolicy<Params>>,
    /// Counters of each policy's learner at the start.
    pub(super) begun: ByPolicy<Counters>,
    /// Follows what the run trains on, if anything asks for it.
    pub(super) log: Option<RunLog>,
    /// Updates of the run.
    pub(super) updates: u64,
    /// Under deterministic admission, reports of workers since the last result.
    pub(super) turn_reports: Option<TurnReports>,
    /// Whether the run repeats.
    pub(super) promise: Promise,
    /// Reports since the last result.
    pub(super) iteration: Iteration,
    /// Whether the iteration has begun.
    pub(super) is_under_way: bool,
    pub(super) last: Option<TrainResult>,
    /// Checkpoints of the run.
    pub(super) saves: Option<Saves>,
    /// Evaluations beside the run.
    pub(super) evaluations: Option<Evaluations>,
    /// Whether it goes on with a saved run, if there is one.
    pub(super) goes_on: bool,
    /// What a resumed run says of that.
    pub(super) resumed: Option<ResumeReport>,
    /// Time of earlier processes of the run.
    pub(super) time_before: Duration,
    /// The signals of the run; `None` if the program handles them, or the system refused a handler.
    pub(super) interrupts: Option<Interrupts>,
    /// When a signal came while the run waits for the end of an iteration.
    pub(super) signalled: Option<Instant>,
    /// What hosts are told when the run ends.
    pub(super) over: Over,
    /// [`FINISH_DEADLINE`]; shorter in tests.
    pub(super) finish_deadline: Duration,
    /// What remains once the run has ended.
    pub(super) remains: Remains,
}
