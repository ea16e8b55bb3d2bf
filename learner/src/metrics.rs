//! What the learner thread measures about itself, readable while it runs.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pronk_buffer::LoaderMetrics;
use pronk_metrics::{LearnerInfo, ResultDict, TimerStat, WindowStat};

use crate::thread::{Diagnosis, Quarantine};

/// Entries of the window of inqueue lengths (RLlib's `WindowStat("size", 50)`).
const QUEUE_SIZE_WINDOW: NonZeroUsize = NonZeroUsize::MIN.saturating_add(49);

/// Whether `info.learner` of a result is replaced by the learner's last info.
///
/// RLlib 2.2 fills `info.learner` with the infos drained from the outqueue and then merges the learner's own
/// metrics without touching that key; older versions always overwrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverwriteLearnerInfo {
    /// Put the info of the last pass under `info.learner`.
    Yes,
    /// Leave `info.learner` as it is.
    No,
}

/// A live handle on the learner's measurements.
///
/// The loop writes, anyone reads; a reader takes a copy under the lock and works on it outside.
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
    /// What the threads measure that load batches, if there are any.
    loaders: Option<LoaderMetrics>,
}

/// A copy of the learner's measurements at one moment.
#[derive(Clone, Debug)]
pub struct LearnerReadings {
    /// Waiting for a train batch: the learner's waits, time-outs included, or those of all loader threads.
    pub queue: TimerStat,
    /// Learning from one.
    pub grad: TimerStat,
    /// Loading a batch into a stack, over all loader threads; stays empty without them.
    pub load: TimerStat,
    /// The learner's waiting for a loaded batch, time-outs included; stays empty without loader threads.
    pub load_wait: TimerStat,
    /// Length of the inqueue after each pass.
    pub queue_size: WindowStat,
    /// Completed passes.
    pub num_steps: u64,
    /// What the learner said about its last pass.
    pub learner_info: Arc<LearnerInfo>,
    /// Batches taken out of the run because they, or what was computed from them, were not finite.
    pub num_quarantined: u64,
    /// The last of them: which data, which update, and what was not finite.
    pub last_quarantine: Option<String>,
    /// Why the learner has nothing to learn from, while that lasts longer than its time-out.
    pub starved: Option<Diagnosis>,
}

impl LearnerMetrics {
    /// Measurements of a learner that has not started.
    pub fn new() -> Self {
        Self::beside(None)
    }

    /// Measurements of a learner that has not started, and of the threads that load its batches.
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

    /// A copy of everything as it is now.
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
    /// *Units*: milliseconds, rounded to three digits, mean of the newest ten; 0 where nothing was measured
    /// yet.
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

    /// Records a wait of the learner: for a loaded batch where threads load them, else for data.
    pub(crate) fn record_wait(&self, secs: f64) {
        let mut now = self.lock();
        let timer = if self.loaders.is_some() { &mut now.load_wait } else { &mut now.queue };
        timer.push_secs(secs);
    }

    pub(crate) fn record_pass(&self, grad_secs: f64, queue_size: usize, info: &LearnerInfo) {
        let info = Arc::new(info.clone());
        let mut now = self.lock();
        now.grad.push_secs(grad_secs);
        now.queue_size.push(queue_size as f64);
        now.num_steps += 1;
        now.learner_info = info;
        now.starved = None;
    }

    pub(crate) fn record_quarantined(&self, quarantine: &Quarantine) {
        let text = quarantine.to_string();
        let mut now = self.lock();
        now.num_quarantined += 1;
        now.last_quarantine = Some(text);
        now.starved = None;
    }

    pub(crate) fn record_starved(&self, diagnosis: &Diagnosis) {
        self.lock().starved = Some(diagnosis.clone());
    }

    fn lock(&self) -> MutexGuard<'_, LearnerReadings> {
        // Every write below the lock is complete in itself, so readings left by a panicking thread are still
        // readings.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LearnerMetrics {
    fn default() -> Self {
        Self::new()
    }
}
