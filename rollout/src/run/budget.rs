use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::failure::WorkerFailureCause;
use crate::env::EnvFailure;
use crate::worker::RestartPolicy;

/// The restarts that all workers of a run share.
#[derive(Clone)]
pub(crate) struct RestartBudget {
    pub(super) policy: RestartPolicy,
    /// When workers were restarted within the window: never more than may be.
    spent: Arc<Mutex<VecDeque<Instant>>>,
}

impl RestartBudget {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self { policy, spent: Arc::default() }
    }

    /// Spends one restart for `failure`.
    ///
    /// # Errors
    /// There is none left.
    pub(crate) fn spend(&self, failure: Arc<EnvFailure>) -> Result<(), WorkerFailureCause> {
        let RestartPolicy { max_num_worker_restarts: restarts, restart_window: window, .. } = self.policy;
        let now = Instant::now();
        // A list of instants is whole, whatever its holder was doing when it panicked.
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
