//! Threads of a model; as [`std::thread`].

use std::io;
use std::time::Duration;

pub use std::thread::available_parallelism;

pub use shuttle::thread::{JoinHandle, Scope, ScopedJoinHandle, current, panicking, scope, spawn, yield_now};

use crate::time::{Instant, advance_to};

/// As [`std::thread::Builder`].
#[derive(Debug)]
pub struct Builder(shuttle::thread::Builder);

impl Builder {
    /// Of a thread without a name.
    #[expect(clippy::new_without_default, reason = "as in the standard library")]
    pub fn new() -> Self {
        Self(shuttle::thread::Builder::new())
    }

    /// Names it.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    /// Starts it.
    ///
    /// # Errors
    /// Never.
    pub fn spawn<F, R>(self, work: F) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.0.spawn(work)
    }

    /// Starts it in a scope, without its name.
    ///
    /// # Errors
    /// Never.
    pub fn spawn_scoped<'scope, F, R>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: F,
    ) -> io::Result<ScopedJoinHandle<'scope, R>>
    where
        F: FnOnce() -> R + Send + 'scope,
        R: Send + 'scope,
    {
        Ok(scope.spawn(work))
    }
}

/// Sleeps: other threads may do anything meanwhile.
pub fn sleep(duration: Duration) {
    let until = Instant::now() + duration;
    yield_now();
    advance_to(until);
}
