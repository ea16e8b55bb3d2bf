use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;

use super::{ClockReader, ProcessorClock, StateClock, ThreadState, ThreadTime, write_thread_times};
use crate::result::ResultDict;

/// The clocks of all threads of a run. Clones share one list.
///
/// Threads of one name have one account: one that has ended and those that took its place. What it says is
/// the sum over all of them, so that a run whose threads die a thousand times has as many accounts as one
/// whose threads never do. A thread whose place is taken while it still runs was abandoned: from then on its
/// time goes to the account `<name> (abandoned)`.
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
    /// The sum over those that have ended, and what others had spent when they were abandoned.
    settled: Option<ThreadTime>,
    /// The one that has the name now.
    running: Option<ClockReader>,
    abandoned: Abandoned,
}

/// The threads of one name that were abandoned.
#[derive(Debug, Default)]
struct Abandoned {
    /// The sum over those that have ended since.
    settled: Option<ThreadTime>,
    /// The others, each with what it had spent when it was abandoned.
    running: Vec<(ClockReader, ThreadTime)>,
}

impl TimeLedger {
    /// A ledger without threads.
    pub fn new() -> TimeLedger {
        TimeLedger::default()
    }

    /// Adds a thread's clock. Its time stays after the thread has ended, because it was spent.
    pub fn add(&self, clock: ClockReader) {
        self.accounts().entry(clock.thread().to_owned()).or_default().add(clock);
    }

    /// Starts the clock of a process that works for the run, and adds it: what a process does is seen from
    /// the thread that gives it orders. Of those of one `kind` it has the lowest number that none of them has
    /// now: `env-process-1`, `env-process-2`, …
    pub fn start_process<S: ThreadState>(
        &self,
        kind: &str,
        first: S,
        processors: Arc<dyn ProcessorClock>,
    ) -> StateClock<S> {
        let mut accounts = self.accounts();
        let mut number = 1;
        let mut name = format!("{kind}-{number}");
        while accounts.get(&name).is_some_and(Account::is_taken) {
            number += 1;
            name = format!("{kind}-{number}");
        }
        let clock = StateClock::with(name.clone(), first, Some(processors));
        accounts.entry(name).or_default().add(clock.reader());
        clock
    }

    /// Where the time of the threads of each name went until now, in the order in which the names were first
    /// added.
    pub fn read(&self) -> Vec<ThreadTime> {
        self.accounts().values_mut().flat_map(Account::read).collect()
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
        let n_running = |account: &Account| usize::from(account.running.is_some()) + account.abandoned.running.len();
        self.accounts().values().map(n_running).sum()
    }

    fn accounts(&self) -> MutexGuard<'_, IndexMap<String, Account>> {
        // A thread that panics here leaves an account of which a clock may be missing, and no other.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn add(&mut self, clock: ClockReader) {
        let Some(earlier) = self.running.replace(clock) else { return };
        let spent = earlier.read();
        let is_running = spent.current.is_some();
        let until_now = ThreadTime { current: None, since_secs: 0.0, ..spent };
        add_to(&mut self.settled, &until_now);
        if is_running {
            self.abandoned.running.push((earlier, until_now));
        }
    }

    /// Whether a thread has the name now.
    fn is_taken(&self) -> bool {
        self.running.as_ref().is_some_and(|clock| clock.read().current.is_some())
    }

    /// The sum over all threads, and that over those abandoned since they were.
    fn read(&mut self) -> impl Iterator<Item = ThreadTime> + use<> {
        let newest = self.running.as_ref().map(ClockReader::read);
        if let Some(ended) = newest.as_ref().filter(|time| time.current.is_none()) {
            add_to(&mut self.settled, ended);
            self.running = None;
        }
        let mut all = self.settled.clone();
        if let Some(running) = newest.filter(|time| time.current.is_some()) {
            add_to(&mut all, &running);
        }
        all.into_iter().chain(self.abandoned.read())
    }
}

impl Abandoned {
    /// Clocks that have ended are read for the last time.
    fn read(&mut self) -> Option<ThreadTime> {
        let Self { settled, running } = self;
        let mut going_on = None;
        running.retain(|(clock, before)| {
            let mut time = clock.read();
            time.subtract(before);
            time.thread += " (left behind)";
            add_to(if time.current.is_some() { &mut going_on } else { settled }, &time);
            time.current.is_some()
        });
        let mut all = settled.clone();
        if let Some(running) = going_on {
            add_to(&mut all, &running);
        }
        all
    }
}

fn add_to(sum: &mut Option<ThreadTime>, time: &ThreadTime) {
    match sum {
        Some(sum) => sum.add(time),
        none => *none = Some(time.clone()),
    }
}
