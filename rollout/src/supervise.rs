//! Keeps one worker going: restarts after failures, with growing pauses, up to a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pronk_buffer::{MailboxSender, MultiAgentBatch, Tether, WeightCell};
use pronk_metrics::{ByPolicy, ClockReader, StateClock};
use pronk_policy::Params;

use crate::failure::{EnvFailure, catch};
use crate::report::{WorkerFailure, WorkerFailureCause, WorkerReport};
use crate::sampler::{AnyEnvSpec, Sampler};
use crate::worker::{SampleError, WorkerState};

/// How a worker whose environments fail is restarted.
///
/// ```
/// use std::time::Duration;
/// use pronk_rollout::RestartPolicy;
///
/// let policy = RestartPolicy { first_backoff: Duration::from_millis(100), ..RestartPolicy::default() };
/// assert_eq!(policy.backoff(1), Duration::from_millis(100));
/// assert_eq!(policy.backoff(3), Duration::from_millis(400));
/// assert_eq!(policy.backoff(1000), policy.max_backoff);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// How many failures in a row, without a complete fragment between them, a worker survives. One more ends it. With 0
    /// the first failure does.
    pub num_consecutive_worker_failures_tolerance: u32,
    /// The pause before the first restart; it doubles with every further failure in a row.
    pub first_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
}

impl Default for RestartPolicy {
    /// Ten failures in a row are tolerated, with pauses from 10 ms to 1 s between them. RLlib tolerates 100 and does not
    /// pause; with pauses, ten take seconds already, in which an environment that can recover has done so.
    fn default() -> Self {
        Self {
            num_consecutive_worker_failures_tolerance: 10,
            first_backoff: Duration::from_millis(10),
            max_backoff: Duration::from_secs(1),
        }
    }
}

impl RestartPolicy {
    /// The pause after so many failures in a row.
    pub fn backoff(&self, consecutive_failures: u32) -> Duration {
        let doublings = consecutive_failures.saturating_sub(1).min(31);
        self.first_backoff.saturating_mul(1 << doublings).min(self.max_backoff)
    }
}

/// A worker with its reports, its clock and its restarts.
pub(crate) struct SupervisedWorker {
    worker: Box<dyn Sampler>,
    restart: RestartPolicy,
    tether: Tether,
    reports: MailboxSender<WorkerReport>,
    clock: StateClock<WorkerState>,
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
    /// The run is ending, or the worker gave up before.
    Closed,
    /// The worker gives up now.
    Failed(WorkerFailure),
}

impl SupervisedWorker {
    pub(crate) fn new(
        worker: Box<dyn Sampler>,
        restart: RestartPolicy,
        tether: Tether,
        reports: MailboxSender<WorkerReport>,
        clock: StateClock<WorkerState>,
    ) -> Self {
        Self { worker, restart, tether, reports, clock, consecutive_failures: 0, pause: None, gave_up: false }
    }

    /// The name of the worker's thread.
    pub(crate) fn thread(&self) -> String {
        thread_name(self.worker.worker())
    }

    pub(crate) fn env_spec(&self) -> AnyEnvSpec {
        self.worker.env_spec()
    }

    /// Drops the environments; one that panics at it takes nobody along.
    pub(crate) fn drop_envs(&mut self) {
        self.worker.drop_envs();
    }

    pub(crate) fn clock(&self) -> ClockReader {
        self.clock.reader()
    }

    pub(crate) fn enter(&mut self, state: WorkerState) {
        self.clock.enter(state);
    }

    /// Makes a fragment with the newest weights, restarting the worker as often as it takes and is allowed.
    ///
    /// Blocks for a fragment; in pauses between restarts for at most `timeout`, and not at all once the run ends.
    pub(crate) fn next_fragment(
        &mut self,
        weights: &WeightCell<ByPolicy<Params>>,
        timeout: Duration,
    ) -> Result<MultiAgentBatch, NoFragment> {
        let asked = Instant::now();
        loop {
            if self.gave_up || self.tether.is_cut() {
                return Err(NoFragment::Closed);
            }
            self.keep_pause(timeout.saturating_sub(asked.elapsed()))?;

            let incarnation = self.worker.incarnation();
            let weights = weights.load();
            let made = catch(|| self.worker.sample(&weights, &mut self.clock));
            let mut report = WorkerReport {
                restarts: u64::from(self.worker.incarnation() - incarnation),
                ..WorkerReport::default()
            };
            report.add_episodes(self.worker.take_episodes());
            report.policy_returns = self.worker.take_policy_returns();
            let given_up = match made {
                Ok(Ok(batch)) => {
                    self.consecutive_failures = 0;
                    report.fragments = 1;
                    report.steps = batch.steps();
                    self.post(report);
                    return Ok(batch);
                }
                Ok(Err(SampleError::Closed)) => {
                    self.post(report);
                    return Err(NoFragment::Closed);
                }
                Ok(Err(SampleError::Environment(failure))) => {
                    report.add_failure(failure.to_string());
                    self.note(failure)
                }
                Ok(Err(SampleError::Policy(fault))) => Some(WorkerFailureCause::Policy(Arc::new(fault))),
                Ok(Err(SampleError::Batch(error))) => Some(WorkerFailureCause::Batch(error)),
                Err(text) => {
                    self.worker.lose_fragment("worker_panic");
                    Some(WorkerFailureCause::Panic(text))
                }
            };
            let failure = given_up.map(|cause| self.give_up(cause));
            report.ended.extend(failure.clone());
            self.post(report);
            if let Some(failure) = failure {
                return Err(NoFragment::Failed(failure));
            }
        }
    }

    /// Ends the worker after a panic that no environment made.
    pub(crate) fn panicked(&mut self, text: String) -> WorkerFailure {
        self.worker.lose_fragment("worker_panic");
        let failure = self.give_up(WorkerFailureCause::Panic(text));
        self.post(WorkerReport { ended: vec![failure.clone()], ..WorkerReport::default() });
        failure
    }

    /// Drops the worker with its environments. A panic in there changes nothing about how the worker ended, so it is
    /// reported as a failure and goes no further.
    pub(crate) fn take_down(self) {
        let thread = self.thread();
        let Self {
            worker,
            reports,
            // Its time goes on until all is taken down.
            clock: _clock,
            ..
        } = self;
        if let Err(text) = catch(|| drop(worker)) {
            let mut report = WorkerReport::default();
            report.add_failure(format!("{thread} panicked while its environments were dropped: {text}"));
            // Refused only when the reader is gone: then nobody is left who could be told.
            let _ = reports.post(report);
        }
    }

    fn give_up(&mut self, cause: WorkerFailureCause) -> WorkerFailure {
        self.gave_up = true;
        WorkerFailure { thread: self.thread(), consecutive_failures: self.consecutive_failures, cause }
    }

    /// Decides what follows a failure: a restart after a pause, or the end.
    fn note(&mut self, failure: EnvFailure) -> Option<WorkerFailureCause> {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        if self.consecutive_failures > self.restart.num_consecutive_worker_failures_tolerance {
            return Some(WorkerFailureCause::Environment(Arc::new(failure)));
        }
        let length = self.restart.backoff(self.consecutive_failures);
        self.pause = Some(Pause { began: Instant::now(), length });
        None
    }

    /// Waits until the pause is over.
    fn keep_pause(&mut self, timeout: Duration) -> Result<(), NoFragment> {
        let Some(pause) = &self.pause else { return Ok(()) };
        self.clock.enter(WorkerState::Restarting);
        let left = pause.length.saturating_sub(pause.began.elapsed());
        self.tether.sleep(left.min(timeout)).map_err(|_closed| NoFragment::Closed)?;
        if left > timeout {
            return Err(NoFragment::TimedOut);
        }
        self.pause = None;
        Ok(())
    }

    fn post(&self, report: WorkerReport) {
        // Refused only when the reader is gone: then nobody is left who could be told.
        let _ = self.reports.post(report);
    }
}

/// The name of a worker's thread, in the time ledger and in errors.
pub(crate) fn thread_name(worker: u32) -> String {
    format!("rollout-{worker}")
}

#[cfg(test)]
mod tests;
