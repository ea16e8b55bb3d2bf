//! [`Trainer`]: what a run consists of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::{Notifier, WeightCell};
use pronk_learner::LearnerMetrics;
use pronk_metrics::{ByPolicy, StateClock, StepLedger, Steps, TimeLedger, TimerStat, thread_states};
use pronk_policy::Params;
use pronk_rollout::{AbandonedThreads, Reaper, WorkerFailure};

use super::engine::Engine;
use super::episodes::EpisodeHistory;
use super::iteration::Iteration;
use super::periodic::Periodic;
use super::remains::{Counters, Remains};
use super::reporters::Reporters;
use super::run_spec::RunSpec;
use crate::config::TrainerConfig;
use crate::result::TrainResult;
use crate::signals;

/// How long a run that ends, well or not, waits for the learner to finish the pass it is in, so that its
/// state can be saved. Workers are waited for no longer than [`SHUTDOWN_DEADLINE`](super::engine::SHUTDOWN_DEADLINE).
pub(super) const FINISH_DEADLINE: Duration = Duration::from_secs(60);

thread_states! {
    /// What the thread that owns the trainer is doing.
    pub enum TrainerState {
        /// Running code that is not the trainer's.
        Caller = "away",
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
/// `num_rollout_workers: 0` there are no threads: workers and learner run inside `next`. With threads, the
/// workers begin when the first result is asked for, and go on from then whether or not it is.
///
/// *Blocks*: each `next` for one iteration. Dropping a trainer ends its threads and waits for them, a second
/// at most, and for processes of environments as long as these may take to close.
///
/// *Errors*: the first failure that ended the run, with the thread's name; the iterator ends after it. What
/// is whole can then be saved with [`save`](Self::save), or is in the error of [`finish`](Self::finish).
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
    /// Ends what environments leave behind.
    pub(super) reaper: Reaper,
    /// Cutting it ends every wait of the run.
    pub(super) shutdown: signals::SharedLifeline,
    /// Rung with every report.
    pub(super) notifier: Notifier,
    pub(super) learner_metrics: LearnerMetrics,
    pub(super) steps: StepLedger,
    pub(super) time: TimeLedger,
    pub(super) clock: StateClock<TrainerState>,
    pub(super) reporters: Reporters,
    pub(super) history: EpisodeHistory,
    pub(super) started: Instant,
    pub(super) iterations: u64,
    pub(super) training_iteration: TimerStat,
    /// Showing results to the reporters.
    pub(super) reporting: TimerStat,
    pub(super) worker_restarts: u64,
    /// Workers that gave up, and why.
    pub(super) worker_failures: Vec<WorkerFailure>,
    /// Threads that were abandoned in environments that hang.
    pub(super) abandoned: AbandonedThreads,
    /// Steps of the fragments that were completed.
    pub(super) fragments_added: Steps,
    /// When the first update was seen, and how many env-steps were sampled by then.
    pub(super) first_update: Option<(Instant, u64)>,
    /// Whether the learner has ended because nothing more is sampled.
    pub(super) source_ended: bool,
    /// What ended the run, if something did.
    pub(super) failure: Option<String>,
    /// Newest published version of the weights.
    pub(super) version: u64,
    /// The published weights themselves.
    pub(super) weights: WeightCell<ByPolicy<Params>>,
    /// Where the learner of each policy stood as the run began.
    pub(super) begun: ByPolicy<Counters>,
    /// Updates of the run.
    pub(super) updates: u64,
    /// What has gathered since the last result.
    pub(super) iteration: Iteration,
    pub(super) last: Option<TrainResult>,
    /// Checkpoints that it writes by itself.
    pub(super) periodic: Option<Periodic>,
    /// [`FINISH_DEADLINE`]; a test need not wait that long.
    pub(super) finish_deadline: Duration,
    /// What is left, once the run has ended.
    pub(super) remains: Remains,
}
