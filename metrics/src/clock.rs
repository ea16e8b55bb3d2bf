//! The time ledger: every thread's wall time, split into disjoint states.

mod ledger;
mod sequence;
mod states;
mod thread_time;
mod written;

use crate::sync::{self, Arc};
use sequence::Shared;

pub use thread_time::{ProcessorClock, ThreadTime};

pub use ledger::TimeLedger;
pub use states::ThreadState;
pub use written::{shares, write_shares, write_thread_times};

/// The clock of one thread: it is always in exactly one state, and a switch books the time to the state that
/// it leaves, so the states sum to the thread's wall time.
///
/// Make it before spawning the thread and move it in, so that spawning counts too. Any number of threads read
/// it through [`ClockReader`]; writing takes no lock and never waits for readers. Dropping it, even by a
/// panic, stops its time.
///
/// ```
/// use pronk_metrics::{StateClock, thread_states};
///
/// thread_states! {
///     /// States of a baker.
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
    /// A clock for the thread `thread`, in state `first`. A thread's replacement uses the same name, for
    /// which a [`TimeLedger`] keeps one account.
    pub fn new(thread: impl Into<String>, first: S) -> StateClock<S> {
        StateClock::with(thread.into(), first, None)
    }

    /// With `processors`, the clock of a process outside of this one.
    fn with(thread: String, first: S, processors: Option<Arc<dyn ProcessorClock>>) -> StateClock<S> {
        let shared = Shared::new(thread, S::NAMES, first.index(), processors);
        StateClock { state: first, shared: Arc::new(shared) }
    }

    /// Books the time to the current state, and enters `state`. Entering the current state does nothing.
    pub fn enter(&mut self, state: S) {
        if state.index() == self.state.index() {
            return;
        }
        self.shared.switch(self.state.index(), state.index());
        self.state = state;
    }

    /// The current state.
    pub fn state(&self) -> S {
        self.state
    }

    /// A reader of this clock for other threads.
    pub fn reader(&self) -> ClockReader {
        ClockReader(Arc::clone(&self.shared))
    }
}

impl<S: ThreadState> Drop for StateClock<S> {
    fn drop(&mut self) {
        self.shared.end(self.state.index());
    }
}

/// Reads a thread's [`StateClock`] live, also after the thread has ended.
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

    /// The thread's time until now: a consistent snapshot, in which no state has less time than before.
    pub fn read(&self) -> ThreadTime {
        self.0.read()
    }

    /// Whether the thread has ended. Unlike [`read`](Self::read) it asks no process for its processor time.
    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

#[cfg(test)]
mod tests;
