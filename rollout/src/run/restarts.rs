//! When a worker is restarted, after what pause, and when it gives up.

use std::collections::VecDeque;
use std::time::Duration;

use super::failure::WorkerFailureCause;
use super::report::WorkerReport;
use crate::env::{EnvFailure, EnvFailureCause};
use crate::sync::Instant;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, PoisonError};
use crate::worker::RestartPolicy;

/// The restarts that all workers of a run share.
#[derive(Clone)]
pub(crate) struct RestartBudget {
    policy: RestartPolicy,
    /// When workers were restarted within the window, oldest first; at most `max_num_worker_restarts`.
    spent: Arc<Mutex<VecDeque<Instant>>>,
}

impl RestartBudget {
    /// The budget of a resumed run, of which restarts so long ago are spent.
    pub(crate) fn resumed(policy: RestartPolicy, restarts: &[Duration]) -> Self {
        let now = Instant::now();
        let spent = restarts.iter().filter_map(|ago| now.checked_sub(*ago)).collect();
        Self { policy, spent: Arc::new(Mutex::new(spent)) }
    }

    /// A reader of what is spent.
    pub(crate) fn spent(&self) -> SpentRestarts {
        SpentRestarts(Arc::clone(&self.spent))
    }

    /// Counts one more failure of a row; an error beyond `num_consecutive_worker_failures_tolerance`.
    pub(crate) fn count(&self, row: &FailureRow, failure: Arc<EnvFailure>) -> Result<(), WorkerFailureCause> {
        row.set(row.len().saturating_add(1));
        match row.len() > self.policy.num_consecutive_worker_failures_tolerance {
            true => Err(WorkerFailureCause::Environment(failure)),
            false => Ok(()),
        }
    }

    /// Spends one restart for `failure`; an error if the budget is spent.
    pub(crate) fn spend(&self, failure: Arc<EnvFailure>) -> Result<(), WorkerFailureCause> {
        let RestartPolicy { max_num_worker_restarts: restarts, restart_window: window, .. } = self.policy;
        let now = Instant::now();
        // A panic cannot leave a list of instants half-changed.
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        while spent.front().is_some_and(|restart| now.duration_since(*restart) >= window) {
            spent.pop_front();
        }
        if spent.len() >= restarts as usize {
            return Err(WorkerFailureCause::BudgetSpent { restarts, window, last: failure });
        }
        spent.push_back(now);
        Ok(())
    }
}

/// Reads which restarts of a run are spent.
#[derive(Clone, Debug)]
pub struct SpentRestarts(Arc<Mutex<VecDeque<Instant>>>);

impl SpentRestarts {
    /// How long ago each was made, oldest first.
    pub fn read(&self) -> Vec<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Instant::elapsed).collect()
    }
}

/// A worker's failures in a row, without a complete fragment between them. A replacement counts on.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureRow(Arc<AtomicU32>);

impl FailureRow {
    pub(crate) fn len(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, len: u32) {
        self.0.store(len, Ordering::Relaxed);
    }
}

/// The restarts of one worker, and its pause before the next one.
pub(super) struct Restarts {
    budget: RestartBudget,
    pub(super) failures: FailureRow,
    /// When the pause began, and its length.
    pause: Option<(Instant, Duration)>,
}

impl Restarts {
    pub(super) fn new(budget: RestartBudget) -> Self {
        Self { budget, failures: FailureRow::default(), pause: None }
    }

    /// A complete fragment ends a row of failures.
    pub(super) fn reset(&mut self) {
        self.failures.set(0);
    }

    /// Counts one more failure in a row; an error if they are more than tolerated.
    pub(super) fn count(&mut self, failure: Arc<EnvFailure>) -> Result<(), WorkerFailureCause> {
        self.budget.count(&self.failures, failure)
    }

    /// Counts a failure and begins the pause before the restart, which the budget pays for.
    pub(super) fn back_off(&mut self, failure: EnvFailure) -> Result<(), WorkerFailureCause> {
        let failure = Arc::new(failure);
        self.count(Arc::clone(&failure))?;
        self.budget.spend(failure)?;
        self.pause = Some((Instant::now(), self.budget.policy.backoff(self.failures.len())));
        Ok(())
    }

    /// How much is left of the pause; `None` when the worker does not pause.
    pub(super) fn pause_left(&self) -> Option<Duration> {
        self.pause.map(|(began, length)| length.saturating_sub(began.elapsed()))
    }

    pub(super) fn end_pause(&mut self) {
        self.pause = None;
    }

    /// Charges the budget for the restarts that the worker made on its own. Returns the last failure, and why
    /// the worker must give up if the budget does not suffice.
    pub(super) fn charge(
        &self,
        failures: Vec<EnvFailure>,
        report: &mut WorkerReport,
    ) -> (Option<Arc<EnvFailure>>, Option<WorkerFailureCause>) {
        let (mut last, mut overspent) = (None, None);
        for failure in failures {
            report.restarts += 1;
            report.add_failure(failure.to_string());
            let failure = Arc::new(failure);
            // Collateral failures do not consume the budget.
            if !matches!(failure.cause, EnvFailureCause::Lost { .. }) {
                overspent = overspent.or(self.budget.spend(Arc::clone(&failure)).err());
            }
            last = Some(failure);
        }
        (last, overspent)
    }
}
