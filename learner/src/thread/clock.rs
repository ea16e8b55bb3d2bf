//! Where the loop reads the time for its timers.

use std::time::Instant;

/// A source of time for the learner's timers: seconds since some fixed moment.
///
/// The loop reads it before and after waiting for a batch, and before and after learning from one, in that
/// order and never otherwise. So a scripted clock reproduces measured sequences exactly.
pub trait Clock: Send {
    /// Seconds now; never less than a reading before.
    fn now_secs(&mut self) -> f64;
}

/// The monotonic clock of the machine.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock(Instant);

impl MonotonicClock {
    /// A clock that reads 0 now.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now_secs(&mut self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
