//! Keeps one worker going: restarts after failures, with growing pauses, up to a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::{MailboxSender, MultiAgentBatch, ShutdownToken, WeightCell};
use pronk_metrics::{ByPolicy, ClockReader, StateClock, StepLedger, catch};
use pronk_policy::Params;
use tracing::debug_span;

use super::budget::RestartBudget;
use super::failure::{WorkerFailure, WorkerFailureCause};
use super::report::WorkerReport;
use crate::env::{EnvFailure, EnvFailureCause, VectorContext};
use crate::worker::{
    AnyEnvSpec, BuildError, Collected, MakeWorker, RolloutWorker, SHUTDOWN, SampleError, WorkerSeat, WorkerState,
};

/// What a worker is supervised with.
pub(crate) struct Supervision {
    pub(crate) make: Arc<MakeWorker>,
    pub(crate) seat: WorkerSeat,
    /// What its environments have to be, if others are there already.
    pub(crate) spaces: Option<AnyEnvSpec>,
    /// The name of its thread.
    pub(crate) thread: String,
    pub(crate) budget: RestartBudget,
    /// Says when enough is sampled.
    pub(crate) steps: StepLedger,
    pub(crate) token: ShutdownToken,
    pub(crate) reports: MailboxSender<WorkerReport>,
    pub(crate) clock: StateClock<WorkerState>,
}

/// A worker with its reports, its clock and its restarts.
pub(crate) struct SupervisedWorker {
    /// `None` until it is made: one that replaces another is made on its own thread, for its factory may hang as well.
    worker: Option<RolloutWorker>,
    supervision: Supervision,
    consecutive_failures: u32,
    /// The pause to keep before the next restart.
    pause: Option<Pause>,
    /// Set when the worker has given up: after that it only says that it is closed.
    gave_up: bool,
}

struct Pause {
    began: Instant,
    length: Duration,
}

/// Why a supervised worker gives no fragment.
pub(crate) enum NoFragment {
    /// The worker still pauses before a restart.
    TimedOut,
    /// The run is ending, its limit of env-steps is reached, the worker was replaced, or it gave up before.
    Closed,
    /// The worker gives up now.
    Failed(WorkerFailure),
}

/// Why there is no fragment this time.
enum Missed {
    Closed,
    /// An environment failed: there may be one next time.
    Environment(EnvFailure),
    /// All environments failed, which is in the report; there may be one next time.
    AllFailed(Arc<EnvFailure>),
    /// There never will be one.
    Fatal(WorkerFailureCause),
}

impl SupervisedWorker {
    /// Of a worker that is made now.
    ///
    /// # Errors
    /// Those of its maker.
    pub(crate) fn make(supervision: Supervision) -> Result<Self, BuildError> {
        let worker = make(&supervision)?;
        Ok(Self { worker: Some(worker), ..Self::to_be_made(supervision) })
    }

    /// Of a worker that is made when its first fragment is asked for.
    pub(crate) fn to_be_made(supervision: Supervision) -> Self {
        Self { worker: None, supervision, consecutive_failures: 0, pause: None, gave_up: false }
    }

    /// The name of the worker's thread.
    pub(crate) fn thread(&self) -> &str {
        &self.supervision.thread
    }

    /// What its environments are, once it is made.
    pub(crate) fn env_spec(&self) -> Option<AnyEnvSpec> {
        self.worker.as_ref().map(|worker| worker.env_spec())
    }

    /// Drops the environments; a panic while one is dropped is contained.
    pub(crate) fn drop_envs(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.drop_envs();
        }
    }

    pub(crate) fn clock(&self) -> ClockReader {
        self.supervision.clock.reader()
    }

    pub(crate) fn enter(&mut self, state: WorkerState) {
        self.supervision.clock.enter(state);
    }

    /// Makes a fragment with the newest weights, restarting the worker as often as it takes and is allowed. None is begun once the
    /// limit of env-steps is reached.
    ///
    /// Blocks for a fragment; in pauses between restarts for at most `timeout`, and not at all once the run ends.
    pub(crate) fn next_fragment(
        &mut self,
        weights: &WeightCell<ByPolicy<Params>>,
        timeout: Duration,
    ) -> Result<MultiAgentBatch, NoFragment> {
        let asked = Instant::now();
        loop {
            self.keep_pause(timeout.saturating_sub(asked.elapsed()))?;
            let Supervision { token, steps, .. } = &self.supervision;
            // A fragment under way when the limit is reached is completed: what has been sampled can be learned from.
            if self.gave_up || token.is_shut_down() || steps.limit_reached() {
                return Err(NoFragment::Closed);
            }

            let mut report = WorkerReport::default();
            let missed = match debug_span!("fragment").in_scope(|| self.sample(weights, &mut report)) {
                Ok(batch) => {
                    self.consecutive_failures = 0;
                    report.fragments = 1;
                    report.steps = batch.steps();
                    self.post(report);
                    return Ok(batch);
                }
                Err(missed) => missed,
            };
            // Everything else is tried again after a pause, which is timed by itself.
            let keeps_waiting = matches!(missed, Missed::AllFailed(_));
            let given_up = match missed {
                Missed::Closed => {
                    self.post(report);
                    return Err(NoFragment::Closed);
                }
                Missed::Environment(failure) => {
                    report.add_failure(failure.to_string());
                    self.note(failure).err()
                }
                Missed::AllFailed(last) => self.count_failure(last).err(),
                Missed::Fatal(cause) => Some(cause),
            };
            let failure = given_up.map(|cause| self.give_up(cause));
            report.ended.extend(failure.clone());
            self.post(report);
            if let Some(failure) = failure {
                return Err(NoFragment::Failed(failure));
            }
            if keeps_waiting && asked.elapsed() >= timeout {
                return Err(NoFragment::TimedOut);
            }
        }
    }

    /// One fragment of the worker, which is made first if it has to be, and what `report` says of it.
    fn sample(
        &mut self,
        weights: &WeightCell<ByPolicy<Params>>,
        report: &mut WorkerReport,
    ) -> Result<MultiAgentBatch, Missed> {
        let Self { worker, supervision, .. } = self;
        let worker = match worker {
            Some(worker) => worker,
            None => {
                supervision.clock.enter(WorkerState::Restarting);
                match make(supervision) {
                    Ok(made) => worker.insert(made),
                    Err(error) => {
                        supervision.seat.incarnation += 1;
                        return Err(error.into());
                    }
                }
            }
        };
        let incarnation = worker.incarnation();
        let weights = weights.load();
        let made = catch(|| worker.sample(&weights, &mut supervision.clock));
        report.restarts = u64::from(worker.incarnation() - incarnation);
        let Collected { episodes, policy_returns, failures, abandoned } = worker.take_collected();
        report.add_episodes(episodes);
        report.policy_returns = policy_returns;
        report.abandoned = abandoned.into();
        let (mut over, mut last) = (None, None);
        for failure in failures {
            report.restarts += 1;
            report.add_failure(failure.to_string());
            let failure = Arc::new(failure);
            // Collateral failures do not consume the budget.
            if !matches!(failure.cause, EnvFailureCause::Lost { .. }) {
                over = over.or(supervision.budget.spend(Arc::clone(&failure)).err());
            }
            last = Some(failure);
        }
        match made {
            Ok(Ok(mut batch)) if over.is_some() => {
                if let Some(ticket) = batch.take_ticket() {
                    ticket.dropped(SHUTDOWN);
                }
                Err(over.map_or(Missed::Closed, Missed::Fatal))
            }
            Ok(Err(SampleError::AllFailed)) => {
                Err(over.map(Missed::Fatal).or(last.map(Missed::AllFailed)).unwrap_or(Missed::Closed))
            }
            Ok(made) => made.map_err(Missed::from),
            Err(text) => {
                worker.lose_fragment("worker_panic");
                Err(Missed::Fatal(WorkerFailureCause::Panic(text)))
            }
        }
    }

    /// Ends the worker after a panic that no environment made.
    pub(crate) fn panicked(&mut self, text: String) -> WorkerFailure {
        if let Some(worker) = &mut self.worker {
            worker.lose_fragment("worker_panic");
        }
        let failure = self.give_up(WorkerFailureCause::Panic(text));
        self.post(WorkerReport { ended: vec![failure.clone()], ..WorkerReport::default() });
        failure
    }

    /// Drops the worker with its environments. A panic in there changes nothing about how the worker ended, so it is
    /// reported as a failure and goes no further.
    pub(crate) fn take_down(self) {
        let Self { worker, supervision, .. } = self;
        // Its time goes on until all is taken down.
        let Supervision { thread, reports, clock: _clock, .. } = supervision;
        let mut report = WorkerReport::default();
        let dropped = catch(|| {
            if let Some(mut worker) = worker {
                report.abandoned = worker.close().into();
            }
        });
        if let Err(text) = dropped {
            report.add_failure(format!("{thread} panicked while its environments were dropped: {text}"));
        }
        if report.n_failures > 0 || report.abandoned.count > 0 {
            // Refused only when the reader is gone: then there is nobody to report to.
            let _ = reports.post(report);
        }
    }

    fn give_up(&mut self, cause: WorkerFailureCause) -> WorkerFailure {
        self.gave_up = true;
        let thread = self.supervision.thread.clone();
        WorkerFailure { thread, consecutive_failures: self.consecutive_failures, cause }
    }

    /// Decides what follows a failure: a restart after a pause, or the end.
    fn note(&mut self, failure: EnvFailure) -> Result<(), WorkerFailureCause> {
        let failure = Arc::new(failure);
        self.count_failure(Arc::clone(&failure))?;
        self.supervision.budget.spend(failure)?;
        let length = self.supervision.budget.policy.backoff(self.consecutive_failures);
        self.pause = Some(Pause { began: Instant::now(), length });
        Ok(())
    }

    /// One more in a row.
    fn count_failure(&mut self, failure: Arc<EnvFailure>) -> Result<(), WorkerFailureCause> {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        let tolerance = self.supervision.budget.policy.num_consecutive_worker_failures_tolerance;
        match self.consecutive_failures > tolerance {
            true => Err(WorkerFailureCause::Environment(failure)),
            false => Ok(()),
        }
    }

    /// Waits until the pause is over.
    fn keep_pause(&mut self, timeout: Duration) -> Result<(), NoFragment> {
        let Some(pause) = &self.pause else { return Ok(()) };
        self.supervision.clock.enter(WorkerState::Restarting);
        let left = pause.length.saturating_sub(pause.began.elapsed());
        self.supervision.token.sleep(left.min(timeout)).map_err(|_closed| NoFragment::Closed)?;
        if left > timeout {
            return Err(NoFragment::TimedOut);
        }
        self.pause = None;
        Ok(())
    }

    fn post(&self, report: WorkerReport) {
        // Refused only when the reader is gone: then there is nobody to report to.
        let _ = self.supervision.reports.post(report);
    }
}

/// Makes the worker; a panic of its maker is an error like any other.
fn make(supervision: &Supervision) -> Result<RolloutWorker, BuildError> {
    let Supervision { make, seat, spaces, .. } = supervision;
    let worker = catch(|| make(seat))
        .unwrap_or_else(|text| Err(BuildError::Panic { what: "the making of the worker", text }))?;
    if let Some(spaces) = spaces {
        let context = VectorContext { worker: seat.worker, incarnation: seat.incarnation, first_env: 0, seed: 0 };
        spaces.check_rebuilt(&worker.env_spec(), &context)?;
    }
    Ok(worker)
}

impl From<BuildError> for Missed {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Environment(failure) => Missed::Environment(failure),
            error => Missed::Fatal(WorkerFailureCause::Build(Arc::new(error))),
        }
    }
}

impl From<SampleError> for Missed {
    fn from(error: SampleError) -> Self {
        match error {
            // With nobody who failed there is nothing to wait for.
            SampleError::Closed | SampleError::AllFailed => Missed::Closed,
            SampleError::Environment(failure) => Missed::Environment(failure),
            SampleError::Policy(fault) => Missed::Fatal(WorkerFailureCause::Policy(Arc::new(fault))),
            SampleError::Batch(error) => Missed::Fatal(WorkerFailureCause::Batch(error)),
        }
    }
}

/// The name of a worker's first thread, in the time ledger and in errors.
pub(crate) fn thread_name(worker: u32) -> String {
    format!("rollout-{worker}")
}

#[cfg(test)]
mod tests;
