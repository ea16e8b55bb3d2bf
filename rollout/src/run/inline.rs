//! A worker without a thread.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{
    CannotSave, Mailbox, MultiAgentBatch, NextError, Notifier, SavedSource, ShutdownToken, Source, WeightCell,
    WeightSource, mailbox,
};
use pronk_metrics::{ByPolicy, ClockReader, StepLedger};
use pronk_policy::Params;

use super::edges::ResumedSeats;
use super::failure_log::FailureLog;
use super::report::WorkerReport;
use super::restarts::{RestartBudget, SpentRestarts};
use super::supervised::{NoFragment, Shared, SupervisedWorker};
use crate::env::CallMonitor;
use crate::worker::{BuildError, MakeWorker, RestartPolicy, WorkerSeat, WorkerState};

/// Samples fragments on the caller's thread: what `num_rollout_workers: 0` runs.
///
/// Equal seeds and weights give equal fragments, so a whole run is reproducible bit for bit. Failures,
/// restarts and reports are those of a worker on a thread. Add its [`clock`](Self::clock) to the time ledger.
pub struct InlineSource {
    worker: SupervisedWorker,
    weights: WeightSource<ByPolicy<Params>>,
}

impl InlineSource {
    /// Makes worker 0 and the mailbox for its reports, from the first seat of a resumed run, if there is one.
    /// The source closes when the token is shut down, and when the step ledger reaches its limit. Errors are
    /// those of `make`, and of a seat that cannot be continued.
    pub fn new(
        make: Arc<MakeWorker>,
        restart: RestartPolicy,
        weights: WeightCell<ByPolicy<Params>>,
        (steps, token): (StepLedger, ShutdownToken),
        notifier: &Notifier,
        resumed: ResumedSeats,
    ) -> Result<(Self, Mailbox<WorkerReport>), BuildError> {
        let (sender, reports) = mailbox(NonZeroUsize::MIN, notifier);
        let ResumedSeats { seats, restarts } = resumed;
        let budget = RestartBudget::resumed(restart, &restarts);
        let failures = FailureLog::default();
        let shared = Shared { make, budget, steps, token, reports: sender, failures, helper: None };
        let seat = match seats.into_iter().next() {
            Some(saved) => WorkerSeat::resumed(0, CallMonitor::new(), saved),
            None => WorkerSeat::first(0, CallMonitor::new()),
        };
        let mut worker = SupervisedWorker::start(shared, seat)?;
        worker.clock.enter(WorkerState::Idle);
        Ok((Self { worker, weights: WeightSource::Newest(weights) }, reports))
    }

    /// Which environment call the worker is in, for another thread to read.
    pub fn monitor(&self) -> CallMonitor {
        self.worker.seat.monitor.clone()
    }

    /// How long ago the worker was restarted, within the window of its budget.
    pub fn spent_restarts(&self) -> SpentRestarts {
        self.worker.spent_restarts()
    }

    /// How the worker's time is split; between fragments it is idle.
    pub fn clock(&self) -> ClockReader {
        self.worker.clock.reader()
    }
}

impl Drop for InlineSource {
    // A panic of an environment must not unwind into the trainer, which has a result to return.
    fn drop(&mut self) {
        if let Some(sampler) = &mut self.worker.sampler {
            sampler.drop_envs();
        }
    }
}

impl Source for InlineSource {
    type Item = MultiAgentBatch;

    /// Samples a fragment. Blocks for that, and in pauses before restarts for at most `timeout`.
    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        let made = self.worker.next_fragment(&self.weights, timeout, &|| false);
        self.worker.clock.enter(WorkerState::Idle);
        made.map_err(|end| match end {
            NoFragment::TimedOut => NextError::TimedOut,
            NoFragment::Closed => NextError::Closed,
            NoFragment::Failed(failure) => NextError::Failed(Box::new(failure)),
        })
    }

    /// Always 0: fragments are sampled on demand.
    fn backlog(&self) -> usize {
        0
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        Vec::new()
    }

    /// Posts the worker's state as its report.
    fn save(&mut self, saved: &mut SavedSource, _ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        self.worker.post_seat(saved.number);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
