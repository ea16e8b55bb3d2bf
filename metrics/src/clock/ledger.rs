use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ClockReader, ThreadTime, write_thread_times};
use crate::result::ResultDict;

/// The clocks of all threads of a run. Clones share one list.
///
/// ```
/// use pronk_metrics::{ResultDict, StateClock, TimeLedger};
/// # pronk_metrics::thread_states! { enum S { Idle = "idle", Busy = "busy" } }
///
/// let ledger = TimeLedger::new();
/// let clock = StateClock::new("learner", S::Idle);
/// ledger.add(clock.reader());
/// assert!(ledger.is_closed());
/// let mut result = ResultDict::new();
/// ledger.write_into(&mut result, "ledger.time");
/// assert_eq!(result.number("ledger.time.learner.states.busy"), Some(0.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct TimeLedger(Arc<Mutex<Vec<ClockReader>>>);

impl TimeLedger {
    /// A ledger without threads.
    pub fn new() -> TimeLedger {
        TimeLedger::default()
    }

    /// Adds a thread's clock. It stays after the thread has ended, because its time was spent.
    pub fn add(&self, clock: ClockReader) {
        self.clocks().push(clock);
    }

    /// Where each thread's time went until now, in the order of their adding.
    pub fn read(&self) -> Vec<ThreadTime> {
        self.clocks().iter().map(ClockReader::read).collect()
    }

    /// Whether every thread's states account for its wall time.
    pub fn is_closed(&self) -> bool {
        self.read().iter().all(ThreadTime::is_closed)
    }

    /// Writes where each thread's time went until now below `path`: see [`write_thread_times`].
    pub fn write_into(&self, dict: &mut ResultDict, path: &str) {
        write_thread_times(&self.read(), dict, path);
    }

    fn clocks(&self) -> MutexGuard<'_, Vec<ClockReader>> {
        // The list is whole even if a thread panicked while it held the lock: every use of it is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
