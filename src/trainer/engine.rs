//! The execution backend of a run: threaded, or inline on the caller's thread.

use std::time::{Duration, Instant};

use pronk_buffer::{LoaderMetrics, Mailbox, MultiAgentBatch, NextError, Rounds, Source, TurnPosition, Turns};
use pronk_hosts::{Hosts, Over};
use pronk_learner::{
    ClosedBy, CutStorage, Learner, LearnerCut, LearnerEnd, LearnerFailure, LearnerFailureCause, LearnerLoop,
    LearnerLoopError, LearnerReport, LearnerState, LearnerThread, StateError, StepOutcome,
};
use pronk_metrics::{ByPolicy, catch};
use pronk_policy::Params;
use pronk_rollout::{
    CallMonitor, InferenceThread, SpentRestarts, WorkerFailure, WorkerReport, WorkerSet, WorkerStatus,
};

use crate::error::TrainError;

/// How long to wait for workers, and for all threads of a dropped trainer, before they are abandoned: a drop
/// takes a second at most. Only closing processes of environments may take longer.
pub(super) const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(600);

/// How long a run that finishes waits for what its hosts report last: their workers may take as long to stop
/// as those of this machine. One that is dropped has half of the time that its learner has.
const FAREWELL: Duration = Duration::from_secs(2);

/// The execution backend of a run.
#[allow(clippy::large_enum_variant)] // one per run, never moved
pub(super) enum Engine {
    /// A thread for the learner and one for each worker.
    Threads {
        learner: LearnerThread,
        workers: WorkerSet,
        /// Workers on other machines.
        hosts: Option<Hosts>,
        /// Metrics of the threads that load stacks.
        loaders: Option<LoaderMetrics>,
        /// The shared inference thread.
        inference: Option<InferenceThread>,
        /// Under deterministic admission, unless a record is replayed.
        turns: Option<Turns<ByPolicy<Params>>>,
        /// Under deterministic admission.
        rounds: Option<Rounds>,
    },
    /// One worker and the learner, both on the thread that calls the trainer.
    Inline {
        learner_loop: LearnerLoop<Box<dyn Source<Item = MultiAgentBatch> + Send>>,
        outqueue: Mailbox<LearnerReport>,
        reports: Mailbox<WorkerReport>,
        /// The worker's call in its environments.
        monitor: CallMonitor,
        /// Under deterministic admission.
        rounds: Option<Rounds>,
        /// Unless there is no worker.
        spent_restarts: Option<SpentRestarts>,
    },
}

/// Whether the learner has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    GoesOn,
    /// No further fragment will come.
    Ended,
}

/// How a run's threads ended.
#[derive(Default)]
pub(super) struct EngineEnd {
    pub(super) learner: LearnerEnd,
    /// Unread reports of workers.
    pub(super) unread: Vec<WorkerReport>,
    /// The first worker that gave up.
    pub(super) worker_failure: Option<WorkerFailure>,
    /// Threads that missed their deadline.
    pub(super) not_joined: Vec<String>,
}

impl Engine {
    /// Starts the workers, unless they have started, and under deterministic admission the next round, unless
    /// it is in progress. The workers make fragments up to `env_steps`.
    pub(super) fn begin(&mut self, env_steps: Option<u64>) {
        match self {
            Self::Threads { workers, turns, rounds, .. } => {
                workers.begin();
                turns.iter().for_each(|turns| turns.begin(env_steps));
                rounds.iter_mut().for_each(Rounds::begin);
            }
            Self::Inline { rounds: Some(rounds), .. } => rounds.begin(),
            Self::Inline { .. } => {}
        }
    }

    /// Limits the env-steps of a round that has begun without a limit.
    pub(super) fn limit(&self, env_steps: Option<u64>) {
        if let Self::Threads { turns: Some(turns), .. } = self {
            turns.begin(env_steps);
        }
    }

    /// Whether the learner has trained on the last batch of the round and reported it. Under free admission
    /// there are no rounds.
    pub(super) fn round_is_over(&self) -> bool {
        match self {
            Self::Threads { rounds, .. } => rounds.as_ref().is_some_and(Rounds::is_over),
            Self::Inline { rounds, learner_loop, .. } => {
                rounds.as_ref().is_some_and(|rounds| rounds.has_taken_all() && learner_loop.needs_batch())
            }
        }
    }

    /// How many turns the workers were granted; none without threads, where each fragment is sampled when it
    /// is asked for.
    pub(super) fn granted(&self) -> u64 {
        match self {
            Self::Threads { turns, .. } => turns.as_ref().map_or(0, Turns::granted),
            Self::Inline { .. } => 0,
        }
    }

    pub(super) fn outqueue(&self) -> &Mailbox<LearnerReport> {
        match self {
            Self::Threads { learner, .. } => learner.outqueue(),
            Self::Inline { outqueue, .. } => outqueue,
        }
    }

    pub(super) fn worker_reports(&self) -> &Mailbox<WorkerReport> {
        match self {
            Self::Threads { workers, .. } => workers.reports(),
            Self::Inline { reports, .. } => reports,
        }
    }

    pub(super) fn healthy_workers(&self) -> usize {
        match self {
            Self::Threads { workers, .. } => workers.n_running(),
            Self::Inline { .. } => 1,
        }
    }

    /// Whether no worker is left to sample, though abandoned threads may be.
    pub(super) fn has_no_workers(&self) -> bool {
        match self {
            // Hosts come and go.
            Self::Threads { workers, hosts, .. } => hosts.is_none() && workers.n_running() == 0,
            Self::Inline { .. } => false,
        }
    }

    /// Whether there is no worker on this machine, and none yet or any more on another.
    pub(super) fn waits_for_hosts(&self) -> bool {
        match self {
            Self::Threads { workers, hosts: Some(hosts), .. } => workers.n_running() == 0 && hosts.n_workers() == 0,
            Self::Threads { .. } | Self::Inline { .. } => false,
        }
    }

    /// Workers on other machines, if the run listens to any.
    pub(super) fn hosts(&self) -> Option<&Hosts> {
        match self {
            Self::Threads { hosts, .. } => hosts.as_ref(),
            Self::Inline { .. } => None,
        }
    }

    /// The status of every worker thread.
    pub(super) fn workers(&self) -> Vec<WorkerStatus> {
        match self {
            Self::Threads { workers, .. } => workers.workers(),
            Self::Inline { .. } => Vec::new(),
        }
    }

    /// Without threads: the monitor of the only worker's calls.
    pub(super) fn monitor(&self) -> Option<CallMonitor> {
        match self {
            Self::Threads { .. } => None,
            Self::Inline { monitor, .. } => Some(monitor.clone()),
        }
    }

    /// Without threads: one pass of the learner, with the sampling it needs. With threads, nothing.
    pub(super) fn step_inline(&mut self) -> Result<Stepped, TrainError> {
        let Self::Inline { learner_loop, monitor, .. } = self else {
            return Ok(Stepped::GoesOn);
        };
        match learner_loop.step().map_err(inline_failure)? {
            StepOutcome::Trained(_) => {}
            StepOutcome::NotReady(diagnosis) => tracing::warn!(%diagnosis, "learner not ready"),
            StepOutcome::Quarantined(quarantine) => tracing::warn!(%quarantine, "batch quarantined"),
            // After a signal, which the caller checks next.
            StepOutcome::Closed(ClosedBy::ShutdownGuard) => {}
            // At the limit of time, which the caller checks next, too.
            StepOutcome::Closed(_) if monitor.has_to_give_up() => {}
            StepOutcome::Closed(_) => return Ok(Stepped::Ended),
        }
        Ok(Stepped::GoesOn)
    }

    /// The learner's state between two passes.
    pub(super) fn learner_state(&self, deadline: Duration) -> Result<ByPolicy<LearnerState>, StateError> {
        match self {
            Self::Threads { learner, .. } => learner.state(deadline),
            Self::Inline { learner_loop, .. } => saved(learner_loop.learner()),
        }
    }

    /// Has workers that take turns post their seats for the checkpoint `number`; returns how many will. Marks
    /// are accepted for workers that gave up in an environment that hangs, too, and not answered.
    pub(super) fn mark(&self, number: u64) -> usize {
        match self {
            Self::Threads { turns: Some(turns), workers, .. } => turns.mark(number).len().min(workers.n_running()),
            Self::Threads { .. } => 0,
            Self::Inline { .. } => 0,
        }
    }

    /// Everything on the learner's side, for the checkpoint `number`. Without threads, the worker posts its
    /// seat meanwhile.
    ///
    /// *Blocks* for the learner's pass, up to `deadline`.
    pub(super) fn cut(
        &mut self,
        number: u64,
        storage: CutStorage,
        deadline: Duration,
    ) -> Result<LearnerCut, StateError> {
        match self {
            Self::Threads { learner, rounds, .. } => {
                learner.cut(number, storage, deadline, || rounds.iter().for_each(Rounds::wake))
            }
            Self::Inline { learner_loop, .. } => {
                let cut = catch(|| learner_loop.cut(number, storage)).map_err(|_| StateError::Panicked)?;
                cut.map_err(|error| StateError::CannotSave { why: error.to_string() })
            }
        }
    }

    /// Where the rotation of turns is.
    pub(super) fn turn_position(&self) -> Option<TurnPosition> {
        match self {
            Self::Threads { turns, .. } => turns.as_ref().map(Turns::position),
            Self::Inline { .. } => None,
        }
    }

    /// How long ago workers were restarted.
    pub(super) fn spent_restarts(&self) -> Vec<Duration> {
        match self {
            Self::Threads { workers, .. } => workers.spent_restarts(),
            Self::Inline { spent_restarts, .. } => spent_restarts.as_ref().map(SpentRestarts::read).unwrap_or_default(),
        }
    }

    /// Tells hosts that the run is `over`, and waits for the learner until `learner_deadline`, and for all
    /// workers until [`SHUTDOWN_DEADLINE`].
    pub(super) fn join(self, learner_deadline: Duration, over: Over) -> EngineEnd {
        match self {
            Self::Threads { learner, workers, hosts, loaders, inference, .. } => {
                if let Some(hosts) = hosts {
                    hosts.end(over, FAREWELL.min(learner_deadline / 2));
                }
                let began = Instant::now();
                let learner = learner.join(learner_deadline);
                let workers = workers.join(SHUTDOWN_DEADLINE.saturating_sub(began.elapsed()));
                let mut not_joined = workers.not_joined;
                not_joined
                    .extend(learner.failure.iter().filter(|failure| is_late(failure)).map(|it| it.thread.clone()));
                let left = SHUTDOWN_DEADLINE.saturating_sub(began.elapsed());
                not_joined.extend(inference.and_then(|thread| thread.join(left).err()));
                // The learner's loop has joined them.
                not_joined.extend(loaders.iter().flat_map(LoaderMetrics::running));
                EngineEnd { learner, unread: workers.unread, worker_failure: workers.failure, not_joined }
            }
            Self::Inline { mut learner_loop, reports, .. } => {
                let last = learner_loop.last_cut();
                let learner = LearnerEnd { learner: learner_loop.finish(), failure: None, last };
                EngineEnd { learner, unread: reports.drain(), ..EngineEnd::default() }
            }
        }
    }
}

impl EngineEnd {
    /// Workers that gave up, from reports and joined threads.
    pub(super) fn worker_failures(&self) -> Vec<WorkerFailure> {
        let mut failures: Vec<_> = self.unread.iter().flat_map(|report| &report.ended).cloned().collect();
        if let Some(joined) = &self.worker_failure
            && failures.iter().all(|failure| failure.thread != joined.thread)
        {
            failures.push(joined.clone());
        }
        failures
    }
}

/// The learner's state.
pub(super) fn saved(learner: &dyn Learner) -> Result<ByPolicy<LearnerState>, StateError> {
    catch(|| learner.save(ByPolicy::new())).map_err(|_| StateError::Panicked)
}

/// Whether it failed by missing its deadline.
pub(super) fn is_late(failure: &LearnerFailure) -> bool {
    matches!(failure.cause, LearnerFailureCause::NotJoined { .. })
}

/// Without threads, a worker that gives up appears as a failed source.
fn inline_failure(error: LearnerLoopError) -> TrainError {
    let learner = |error| {
        TrainError::from(LearnerFailure { thread: "learner".to_owned(), cause: LearnerFailureCause::Failed(error) })
    };
    match error {
        LearnerLoopError::Source { passes, source: NextError::Failed(source) } => {
            match source.downcast::<WorkerFailure>() {
                Ok(failure) => (*failure).into(),
                Err(source) => learner(LearnerLoopError::Source { passes, source: NextError::Failed(source) }),
            }
        }
        error => learner(error),
    }
}
