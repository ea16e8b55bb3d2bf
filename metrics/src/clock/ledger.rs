use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::{ClockReader, ThreadTime};
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

    /// Writes `<thread>.wall_secs`, `<thread>.current` and `<thread>.states.<state>` below `path`.
    ///
    /// A further thread of a name that is there already appears as `name#2`, so no time is hidden.
    pub fn write_into(&self, dict: &mut ResultDict, path: &str) {
        let mut threads = Map::new();
        for time in self.read() {
            let states: Map<String, Value> = time
                .states
                .iter()
                .map(|&(name, secs)| (name.to_owned(), secs.into()))
                .collect();
            let entry = json!({"wall_secs": time.wall_secs, "current": time.current, "states": states});
            threads.insert(free_name(&threads, time.thread), entry);
        }
        dict.set(path, threads);
    }

    fn clocks(&self) -> MutexGuard<'_, Vec<ClockReader>> {
        // The list is whole even if a thread panicked while it held the lock: every use of it is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn free_name(taken: &Map<String, Value>, name: String) -> String {
    if !taken.contains_key(&name) {
        return name;
    }
    let numbered = (2..)
        .map(|n| format!("{name}#{n}"))
        .find(|numbered| !taken.contains_key(numbered));
    numbered.unwrap_or(name)
}
