//! Live metrics of the learner thread.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pronk_buffer::LoaderMetrics;
use pronk_metrics::{LearnerInfo, ResultDict, TimerStat, WindowStat};

use crate::thread::{Diagnosis, Quarantine};

/// Entries of the window of inqueue lengths (RLlib's `WindowStat("size", 50)`).
const QUEUE_SIZE_WINDOW: NonZeroUsize = NonZeroUsize::MIN.saturating_add(49);

/// Whether `info.learner` of a result is replaced by the learner's last info.
///
/// RLlib 2.2 fills `info.learner` from the outqueue and leaves it alone when it merges the learner's metrics;
/// older versions overwrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverwriteLearnerInfo {
    /// Replace `info.learner` with the info of the last pass.
    Yes,
    /// Keep `info.learner`.
    No,
}

/// Live metrics of the learner. Clones share them; readers take a copy.
///
/// ```
/// use pronk_learner::{LearnerMetrics, OverwriteLearnerInfo};
/// use pronk_metrics::ResultDict;
///
/// let metrics = LearnerMetrics::new();
/// let mut result = ResultDict::new();
/// metrics.add_learner_metrics(&mut result, OverwriteLearnerInfo::No);
/// assert_eq!(result.number("info.timing_breakdown.learner_grad_time_ms"), Some(0.0));
/// ```
#[derive(Clone, Debug)]
pub struct LearnerMetrics {
    own: Arc<Mutex<LearnerReadings>>,
    /// Metrics of the loader threads, if there are any.
    loaders: Option<LoaderMetrics>,
}

/// A snapshot of the learner's metrics.
#[derive(Clone, Debug)]
pub struct LearnerReadings {
    /// Waits for a train batch, including timeouts: of the learner, or of all loader threads.
    pub queue: TimerStat,
    /// Passes.
    pub grad: TimerStat,
    /// Loading a batch into a stack, over all loader threads; empty without them.
    pub load: TimerStat,
    /// The learner's waits for a loaded batch, including timeouts; empty without loader threads.
    pub load_wait: TimerStat,
    /// Length of the inqueue after each pass.
    pub queue_size: WindowStat,
    /// Completed passes.
    pub num_steps: u64,
    /// The info of the last pass.
    pub learner_info: Arc<LearnerInfo>,
    /// Batches quarantined because they, or the update, were not finite.
    pub num_quarantined: u64,
    /// The last of them.
    pub last_quarantine: Option<String>,
    /// Why the learner starves, while it waits longer than its timeout.
    pub starved: Option<Diagnosis>,
}

impl LearnerMetrics {
    /// Metrics of a learner that has not started.
    pub fn new() -> Self {
        Self::beside(None)
    }

    /// The same, with those of its loader threads.
    pub(crate) fn beside(loaders: Option<LoaderMetrics>) -> Self {
        let own = LearnerReadings {
            queue: TimerStat::new(),
            grad: TimerStat::new(),
            load: TimerStat::new(),
            load_wait: TimerStat::new(),
            queue_size: WindowStat::new("size", QUEUE_SIZE_WINDOW),
            num_steps: 0,
            learner_info: Arc::new(LearnerInfo::default()),
            num_quarantined: 0,
            last_quarantine: None,
            starved: None,
        };
        Self { own: Arc::new(Mutex::new(own)), loaders }
    }

    /// A snapshot.
    pub fn read(&self) -> LearnerReadings {
        let mut now = self.lock().clone();
        if let Some(loaders) = &self.loaders {
            (now.queue, now.load) = (loaders.queue(), loaders.load());
        }
        now
    }

    /// Writes RLlib's learner keys into `result["info"]`: `learner_queue.size_*`,
    /// `timing_breakdown.learner_{grad,load,load_wait,dequeue}_time_ms` and, when overwriting, `learner`.
    ///
    /// *Units*: milliseconds, rounded to three digits; means of the newest ten, 0 without any.
    pub fn add_learner_metrics(&self, result: &mut ResultDict, overwrite: OverwriteLearnerInfo) {
        let now = self.read();
        now.queue_size.write_into(result, "info.learner_queue");
        if overwrite == OverwriteLearnerInfo::Yes {
            result.set("info.learner", now.learner_info.to_json());
        }
        let timers = [("grad", &now.grad), ("load", &now.load), ("load_wait", &now.load_wait), ("dequeue", &now.queue)];
        for (name, timer) in timers {
            result.set(&format!("info.timing_breakdown.learner_{name}_time_ms"), timer.mean_ms_rounded());
        }
    }

    /// Continues the counts of a checkpoint.
    pub(crate) fn resume(&self, num_quarantined: u64, last_quarantine: Option<String>) {
        let mut now = self.lock();
        (now.num_quarantined, now.last_quarantine) = (num_quarantined, last_quarantine);
    }

    /// Records a wait of the learner: for a loaded batch where threads load them, else for data.
    pub(crate) fn record_wait(&self, secs: f64) {
        let mut now = self.lock();
        let timer = if self.loaders.is_some() { &mut now.load_wait } else { &mut now.queue };
        timer.push_secs(secs);
    }

    /// Records that a batch has come: however long the learner trains on it, it does not starve.
    pub(crate) fn record_batch(&self) {
        self.lock().starved = None;
    }

    pub(crate) fn record_pass(&self, grad_secs: f64, queue_size: usize, info: &LearnerInfo) {
        let info = Arc::new(info.clone());
        let mut now = self.lock();
        now.grad.push_secs(grad_secs);
        now.queue_size.push(queue_size as f64);
        now.num_steps += 1;
        now.learner_info = info;
    }

    pub(crate) fn record_quarantined(&self, quarantine: &Quarantine) {
        let text = quarantine.to_string();
        let mut now = self.lock();
        now.num_quarantined += 1;
        now.last_quarantine = Some(text);
    }

    pub(crate) fn record_starved(&self, diagnosis: &Diagnosis) {
        self.lock().starved = Some(diagnosis.clone());
    }

    fn lock(&self) -> MutexGuard<'_, LearnerReadings> {
        // Every write under the lock is complete in itself, so a poisoned lock guards valid readings.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LearnerMetrics {
    fn default() -> Self {
        Self::new()
    }
}
