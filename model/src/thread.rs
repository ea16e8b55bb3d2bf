//! Threads of a model; as [`std::thread`].

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use std::thread::available_parallelism;

use shuttle::thread::{spawn as start, yield_now as pause};

pub use shuttle::thread::{Scope, ScopedJoinHandle, ThreadId, current, panicking, scope};

use crate::time::{Instant, advance_to};

/// What a thread takes to yield.
const MOMENT: Duration = Duration::from_micros(20);

/// Starts a thread; as [`std::thread::spawn`].
pub fn spawn<F, R>(work: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let (is_finished, work) = marked(work);
    JoinHandle { handle: start(work), is_finished }
}

/// As [`std::thread::JoinHandle`].
pub struct JoinHandle<R> {
    handle: shuttle::thread::JoinHandle<R>,
    // Of the standard library: the end of a thread is a step already.
    is_finished: Arc<AtomicBool>,
}

impl<R> JoinHandle<R> {
    /// Waits for the thread to end.
    ///
    /// # Errors
    /// Its panic.
    pub fn join(self) -> Result<R, Box<dyn Any + Send>> {
        self.handle.join()
    }

    /// Whether its work is done.
    pub fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Relaxed)
    }
}

impl<R> fmt::Debug for JoinHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("JoinHandle { .. }")
    }
}

/// Set when the work of a thread ends, by a panic as well.
struct Finished(Arc<AtomicBool>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn marked<R>(work: impl FnOnce() -> R) -> (Arc<AtomicBool>, impl FnOnce() -> R) {
    let is_finished = Arc::new(AtomicBool::new(false));
    let finished = Finished(Arc::clone(&is_finished));
    let work = move || {
        let _finished = finished;
        work()
    };
    (is_finished, work)
}

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
        let (is_finished, work) = marked(work);
        Ok(JoinHandle { handle: self.0.spawn(work)?, is_finished })
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

/// Yields, which takes a moment, so that a thread that polls for some time comes to its end.
pub fn yield_now() {
    sleep(MOMENT);
}

/// Sleeps: other threads may do anything meanwhile.
pub fn sleep(duration: Duration) {
    let until = Instant::now() + duration;
    pause();
    advance_to(until);
}

/// Parks a thread that is never unparked.
pub fn park_timeout(duration: Duration) {
    sleep(duration);
}
