//! The time source of the loop's timers.

use std::time::Instant;

/// A time source for the learner's timers.
///
/// The loop reads it only before and after waiting for a batch, and before and after learning from it, so a
/// scripted clock reproduces recorded sequences exactly.
pub trait Clock: Send {
    /// Seconds since a fixed moment; never decreases.
    fn now_secs(&mut self) -> f64;
}

/// The system's monotonic clock.
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
