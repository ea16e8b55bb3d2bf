//! The time ledger: every thread's wall time, split into disjoint states.

mod ledger;
mod sequence;
mod states;
mod written;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use ledger::TimeLedger;
use sequence::Shared;
pub use states::ThreadState;
pub use written::{shares, write_shares, write_thread_times};

/// The clock of one thread: it is always in exactly one state, and switching attributes the time that passed to the
/// state left. So the states of a thread sum to its wall time.
///
/// Whoever spawns the thread makes the clock and moves it in: then spawning counts too. One thread writes; any
/// number of others read it live through [`ClockReader`]. Writing takes no lock and never waits for a reader.
/// Dropping the clock marks the thread as ended, by a panic as well, and its time stops.
///
/// ```
/// use pronk_metrics::{StateClock, thread_states};
///
/// thread_states! {
///     /// What a baker does.
///     pub enum BakerState {
///         /// Kneading dough.
///         Kneading = "kneading",
///         /// Waiting for the oven.
///         Waiting = "waiting",
///     }
/// }
///
/// let mut clock = StateClock::new("baker-1", BakerState::Kneading);
/// let reader = clock.reader();
/// clock.enter(BakerState::Waiting);
/// let time = reader.read();
/// assert_eq!(time.current, Some("waiting"));
/// assert!(time.is_closed());
/// drop(clock);
/// assert_eq!(reader.read().current, None);
/// ```
#[derive(Debug)]
pub struct StateClock<S: ThreadState> {
    state: S,
    shared: Arc<Shared>,
}

impl<S: ThreadState> StateClock<S> {
    /// A clock for the thread of that name, which is in state `first` from now on. A thread that takes another's place has that
    /// one's name here: a [`TimeLedger`] keeps one account for both.
    pub fn new(thread: impl Into<String>, first: S) -> StateClock<S> {
        StateClock::with(thread.into(), first, None)
    }

    /// Of what uses processor time outside of this process, if `processors` is there.
    fn with(thread: String, first: S, processors: Option<Arc<dyn ProcessorClock>>) -> StateClock<S> {
        let shared = Shared::new(thread, S::NAMES, first.index(), processors);
        StateClock { state: first, shared: Arc::new(shared) }
    }

    /// Attributes the time that passed to the state left, and enters `state`.
    ///
    /// Entering the state the clock is in does nothing and does not even look at the time.
    pub fn enter(&mut self, state: S) {
        if state.index() == self.state.index() {
            return;
        }
        self.shared.switch(self.state.index(), state.index());
        self.state = state;
    }

    /// The state the thread is in.
    pub fn state(&self) -> S {
        self.state
    }

    /// A live view of this clock for other threads.
    pub fn reader(&self) -> ClockReader {
        ClockReader(Arc::clone(&self.shared))
    }
}

impl<S: ThreadState> Drop for StateClock<S> {
    fn drop(&mut self) {
        self.shared.end(self.state.index());
    }
}

/// Says how much processor time a process that works for the run has used: see [`TimeLedger::start_process`].
///
/// ```
/// use std::time::Duration;
///
/// use pronk_metrics::ProcessorClock;
///
/// /// A process that the system says nothing of.
/// #[derive(Debug)]
/// struct Unknown;
///
/// impl ProcessorClock for Unknown {
///     fn processor_time(&self) -> Option<Duration> {
///         None
///     }
/// }
/// ```
pub trait ProcessorClock: fmt::Debug + Send + Sync {
    /// Processor time that all its threads together have used until now, or until its end; `None` if that is not known. It never
    /// goes back.
    fn processor_time(&self) -> Option<Duration>;
}

/// A live view of a thread's [`StateClock`] that any thread may hold, also after the thread has ended.
///
/// ```
/// # pronk_metrics::thread_states! { enum S { Idle = "idle", Busy = "busy" } }
/// let mut clock = pronk_metrics::StateClock::new("learner", S::Idle);
/// let reader = clock.reader();
/// let watcher = std::thread::spawn(move || reader.read().thread);
/// clock.enter(S::Busy);
/// assert_eq!(watcher.join().unwrap(), "learner");
/// ```
#[derive(Clone, Debug)]
pub struct ClockReader(Arc<Shared>);

impl ClockReader {
    /// The thread's name.
    pub fn thread(&self) -> &str {
        self.0.thread()
    }

    /// Where the thread's time went until now. Never a mixture of before and after a switch, and no state has less
    /// time than in an earlier reading.
    pub fn read(&self) -> ThreadTime {
        self.0.read()
    }
}

/// Where a thread's time went, or that of several threads of one name together.
///
/// ```
/// # pronk_metrics::thread_states! { enum S { Idle = "idle", Busy = "busy" } }
/// let clock = pronk_metrics::StateClock::new("learner", S::Idle);
/// let time = clock.reader().read();
/// assert_eq!((time.states[0].0, time.states[1]), ("idle", ("busy", 0.0)));
/// assert_eq!(time.sum_secs(), time.states[0].1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTime {
    /// The thread's name.
    pub thread: String,
    /// Seconds from the making of the clock until now or until the thread's end. Taken from these two instants
    /// alone, so that comparing it with the states proves something.
    pub wall_secs: f64,
    /// Every state the thread can be in, with the seconds spent in it.
    pub states: Vec<(&'static str, f64)>,
    /// The state the thread is in, the newest of several; `None` once all have ended.
    pub current: Option<&'static str>,
    /// Seconds in the current state so far; 0 once the thread has ended.
    pub since_secs: f64,
    /// How many threads this is the sum over.
    pub n_threads: u64,
    /// How often a state was left for another.
    pub n_switches: u64,
    /// Seconds of processor time used outside of this process; `None` for its own threads, whose time the system counts
    /// together.
    pub processor_secs: Option<f64>,
}

impl ThreadTime {
    /// The seconds of all states together.
    pub fn sum_secs(&self) -> f64 {
        self.states.iter().map(|(_, secs)| secs).sum()
    }

    /// Whether the states account for the wall time: to 0.1 % and a microsecond.
    pub fn is_closed(&self) -> bool {
        (self.sum_secs() - self.wall_secs).abs() <= 1e-3 * self.wall_secs + 1e-6
    }

    /// Takes away what the same thread had spent `before`.
    fn subtract(&mut self, before: &ThreadTime) {
        for (state, secs) in &mut self.states {
            let earlier = before.states.iter().find(|(known, _)| known == state).map_or(0.0, |(_, secs)| *secs);
            *secs = (*secs - earlier).max(0.0);
        }
        self.wall_secs = (self.wall_secs - before.wall_secs).max(0.0);
        self.n_switches -= before.n_switches.min(self.n_switches);
        let earlier = before.processor_secs.unwrap_or(0.0);
        self.processor_secs = self.processor_secs.map(|secs| (secs - earlier).max(0.0));
    }

    /// Adds the time of `later`, a younger thread of the same name.
    pub fn add(&mut self, later: &ThreadTime) {
        for &(state, secs) in &later.states {
            match self.states.iter_mut().find(|(known, _)| *known == state) {
                Some((_, sum)) => *sum += secs,
                None => self.states.push((state, secs)),
            }
        }
        self.wall_secs += later.wall_secs;
        self.n_threads += later.n_threads;
        self.n_switches += later.n_switches;
        if let Some(secs) = later.processor_secs {
            *self.processor_secs.get_or_insert_default() += secs;
        }
        if later.current.is_some() {
            (self.current, self.since_secs) = (later.current, later.since_secs);
        }
    }
}

#[cfg(test)]
mod tests;
