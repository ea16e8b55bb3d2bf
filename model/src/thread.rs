//! Threads of a model; as [`std::thread`].

use std::time::Duration;

pub use shuttle::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, current, panicking, scope, spawn, yield_now};

use crate::time::{Instant, advance_to};

/// Sleeps: other threads may do anything meanwhile.
pub fn sleep(duration: Duration) {
    let until = Instant::now() + duration;
    yield_now();
    advance_to(until);
}
