//! The time ledger: every thread's wall time, split into disjoint states.

mod ledger;
mod sequence;
mod states;
mod thread_time;
mod written;

use std::sync::Arc;

use sequence::Shared;

pub use thread_time::{ProcessorClock, ThreadTime};

pub use ledger::TimeLedger;
pub use states::ThreadState;
pub use written::{shares, write_shares, write_thread_times};

/// The clock of one thread: it is always in exactly one state, and switching attributes the time that passed
/// to the state left. So the states of a thread sum to its wall time.
///
/// Make the clock before spawning the thread and move it in, so that spawning counts too. One thread writes;
/// any number of others read it live through [`ClockReader`]. Writing takes no lock and never waits for a
/// reader. Dropping the clock marks the thread as ended, by a panic as well, and its time stops.
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
    /// A clock for the thread of that name, which is in state `first` from now on. A replacement of a thread
    /// uses the same name: a [`TimeLedger`] keeps one account for both.
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

    /// Where the thread's time went until now. Never a mixture of before and after a switch, and no state has
    /// less time than in an earlier reading.
    pub fn read(&self) -> ThreadTime {
        self.0.read()
    }
}

#[cfg(test)]
mod tests;
