use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;

use super::{ClockReader, ThreadTime, write_thread_times};
use crate::result::ResultDict;

/// The clocks of all threads of a run. Clones share one list.
///
/// Threads of one name have one account: one that was replaced and those that took its place. What it says is the sum over all
/// of them, so that a run whose threads die a thousand times has as many accounts as one whose threads never do.
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
pub struct TimeLedger(Arc<Mutex<IndexMap<String, Account>>>);

/// The threads of one name.
#[derive(Debug, Default)]
struct Account {
    /// The sum over those that have ended.
    ended: Option<ThreadTime>,
    /// The others, in the order of their adding.
    running: Vec<ClockReader>,
}

impl TimeLedger {
    /// A ledger without threads.
    pub fn new() -> TimeLedger {
        TimeLedger::default()
    }

    /// Adds a thread's clock. Its time stays after the thread has ended, because it was spent.
    pub fn add(&self, clock: ClockReader) {
        let mut accounts = self.accounts();
        accounts.entry(clock.thread().to_owned()).or_default().running.push(clock);
    }

    /// Where the time of the threads of each name went until now, in the order in which the names were first added.
    pub fn read(&self) -> Vec<ThreadTime> {
        self.accounts().values_mut().filter_map(Account::read).collect()
    }

    /// Whether every thread's states account for its wall time.
    pub fn is_closed(&self) -> bool {
        self.read().iter().all(ThreadTime::is_closed)
    }

    /// Writes where each thread's time went until now below `path`: see [`write_thread_times`].
    pub fn write_into(&self, dict: &mut ResultDict, path: &str) {
        write_thread_times(&self.read(), dict, path);
    }

    /// Clocks that are kept.
    #[cfg(test)]
    pub(super) fn n_running(&self) -> usize {
        self.accounts().values().map(|account| account.running.len()).sum()
    }

    fn accounts(&self) -> MutexGuard<'_, IndexMap<String, Account>> {
        // A thread that panics here leaves an account of which a clock may be missing, and no other.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// The sum over all threads, which is `None` without any. Clocks that have ended are read for the last time.
    fn read(&mut self) -> Option<ThreadTime> {
        let mut running: Option<ThreadTime> = None;
        let ended = &mut self.ended;
        self.running.retain(|clock| {
            let time = clock.read();
            let is_running = time.current.is_some();
            let sum = if is_running { &mut running } else { &mut *ended };
            match sum {
                Some(sum) => sum.add(&time),
                none => *none = Some(time),
            }
            is_running
        });
        match (self.ended.clone(), running) {
            (Some(mut all), Some(running)) => {
                all.add(&running);
                Some(all)
            }
            (ended, running) => ended.or(running),
        }
    }
}
