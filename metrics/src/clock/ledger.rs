use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;

use super::{ClockReader, ProcessorClock, StateClock, ThreadState, ThreadTime, write_thread_times};
use crate::result::ResultDict;

/// The clocks of all threads of a run. Clones share one list.
///
/// A thread and its replacements have one account under their name, so the number of accounts does not grow
/// with restarts. A thread that still runs when it is replaced is abandoned: from then on its time goes to
/// the account `<name> (abandoned)`.
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
    /// The sum over those that have ended, and over abandoned ones until then.
    settled: Option<ThreadTime>,
    /// The current one.
    running: Option<ClockReader>,
    abandoned: Abandoned,
    /// The newest time of threads on another machine.
    adopted: Option<ThreadTime>,
}

/// The abandoned threads of one name.
#[derive(Debug, Default)]
struct Abandoned {
    /// The sum over those that have ended since.
    settled: Option<ThreadTime>,
    /// The others, each with its time when it was abandoned.
    running: Vec<(ClockReader, ThreadTime)>,
}

impl TimeLedger {
    /// A ledger without threads.
    pub fn new() -> TimeLedger {
        TimeLedger::default()
    }

    /// Adds a thread's clock. Its time stays after the thread has ended.
    pub fn add(&self, clock: ClockReader) {
        self.accounts().entry(clock.thread().to_owned()).or_default().add(clock);
    }

    /// Starts and adds the clock of a process that works for the run; the thread that drives the process
    /// switches its states. It is named by the lowest free number of its `kind`: `env-process-1`,
    /// `env-process-2`, …
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

    /// Replaces the time of an account whose threads run on another machine, and close on its clock.
    ///
    /// ```
    /// use pronk_metrics::{ThreadTime, TimeLedger};
    ///
    /// let ledger = TimeLedger::new();
    /// let time = |secs| ThreadTime {
    ///     thread: "host-a/rollout".into(),
    ///     wall_secs: secs,
    ///     states: vec![("stepping", secs)],
    ///     current: None,
    ///     since_secs: 0.0,
    ///     n_threads: 4,
    ///     n_switches: 0,
    ///     processor_secs: None,
    /// };
    /// ledger.adopt(time(2.0));
    /// ledger.adopt(time(3.0));
    /// assert_eq!(ledger.read(), [time(3.0)]);
    ///
    /// ledger.forget_adopted("host-a/rollout");
    /// assert!(ledger.read().is_empty());
    /// ```
    pub fn adopt(&self, time: ThreadTime) {
        let mut accounts = self.accounts();
        match accounts.get_mut(&time.thread) {
            Some(account) => account.adopted = Some(time),
            None => {
                accounts.insert(time.thread.clone(), Account { adopted: Some(time), ..Account::default() });
            }
        }
    }

    /// Removes an adopted time, so that machines that come and go do not add accounts for ever.
    pub fn forget_adopted(&self, thread: &str) {
        self.accounts().shift_remove(thread);
    }

    /// The time of the threads of each name, in the order of their first addition.
    pub fn read(&self) -> Vec<ThreadTime> {
        self.accounts().values_mut().flat_map(Account::read).collect()
    }

    /// Whether every thread's states account for its wall time.
    pub fn is_closed(&self) -> bool {
        self.read().iter().all(ThreadTime::is_closed)
    }

    /// Writes the time of all threads below `path`: see [`write_thread_times`].
    pub fn write_into(&self, dict: &mut ResultDict, path: &str) {
        write_thread_times(&self.read(), dict, path);
    }

    /// The number of clocks.
    #[cfg(test)]
    pub(super) fn n_running(&self) -> usize {
        let n_running = |account: &Account| usize::from(account.running.is_some()) + account.abandoned.running.len();
        self.accounts().values().map(n_running).sum()
    }

    fn accounts(&self) -> MutexGuard<'_, IndexMap<String, Account>> {
        // A panic here may lose one clock of one account.
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

    /// Whether a running thread has the name.
    fn is_taken(&self) -> bool {
        self.running.as_ref().is_some_and(|clock| !clock.has_ended())
    }

    /// The sum over all threads, and over those abandoned since then.
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
        all.into_iter().chain(self.abandoned.read()).chain(self.adopted.clone())
    }
}

impl Abandoned {
    /// Reads ended clocks for the last time.
    fn read(&mut self) -> Option<ThreadTime> {
        let Self { settled, running } = self;
        let mut going_on = None;
        running.retain(|(clock, before)| {
            let mut time = clock.read();
            time.subtract(before);
            time.thread += " (abandoned)";
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
