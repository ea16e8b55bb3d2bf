use std::time::Duration;

use pronk_metrics::TimerStat;

use crate::ShutdownToken;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Live metrics of loader threads. Clones share them.
#[derive(Clone, Debug)]
pub struct LoaderMetrics {
    pub(super) queue_timer: SharedTimer,
    pub(super) load_timer: SharedTimer,
    /// Every thread's name and whether it has ended.
    pub(super) threads: Vec<(String, ShutdownToken)>,
}

impl LoaderMetrics {
    /// How long a thread with an idle stack waits for a batch, over all threads.
    pub fn queue(&self) -> TimerStat {
        self.queue_timer.lock().clone()
    }

    /// How long loading a batch takes, over all threads.
    pub fn load(&self) -> TimerStat {
        self.load_timer.lock().clone()
    }

    /// Names of the threads that have not ended; after the adapter is dropped, those that missed the
    /// deadline.
    pub fn running(&self) -> Vec<String> {
        let running = self.threads.iter().filter(|(_, ended)| !ended.is_shut_down());
        running.map(|(name, _)| name.clone()).collect()
    }
}

/// One timer that all loader threads push to.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedTimer(Arc<Mutex<TimerStat>>);

impl SharedTimer {
    pub(super) fn push(&self, elapsed: Duration) {
        self.lock().push(elapsed);
    }

    fn lock(&self) -> MutexGuard<'_, TimerStat> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
