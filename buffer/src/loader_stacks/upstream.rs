use std::time::Duration;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use crate::{CannotSave, NextError, Source};

/// A source that loader threads share by taking turns.
pub(super) struct Upstream<S> {
    source: Mutex<S>,
    /// The backlog as last seen by a loader: a loader holds the lock while it waits for a batch, and asking
    /// for the backlog must not block.
    backlog: AtomicUsize,
    loading: Mutex<Loading>,
    /// Notified whenever `loading` changes.
    changed: Condvar,
}

/// Which threads are between asking for a batch and passing it on.
#[derive(Default)]
struct Loading {
    threads: usize,
    /// Whether no thread may ask for a batch.
    is_held: bool,
}

/// A thread between asking for a batch and passing it on.
pub(super) struct LoadingGuard<S>(Arc<Upstream<S>>);

/// What a source has answered to a thread.
type Asked<S> = Result<(<S as Source>::Item, LoadingGuard<S>), NextError>;

impl<S> Drop for LoadingGuard<S> {
    fn drop(&mut self) {
        self.0.loading().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// Keeps threads from asking for batches until it is dropped, also by a panic.
struct Held<'a, S>(&'a Upstream<S>);

impl<'a, S> Held<'a, S> {
    fn of(upstream: &'a Upstream<S>) -> Self {
        upstream.loading().is_held = true;
        Self(upstream)
    }
}

impl<S> Drop for Held<'_, S> {
    fn drop(&mut self) {
        self.0.loading().is_held = false;
        self.0.changed.notify_all();
    }
}

impl<S> Upstream<S> {
    fn loading(&self) -> MutexGuard<'_, Loading> {
        // Nothing that can panic runs under this lock.
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks this thread as loading; waits while the source is held.
    fn begin(self: &Arc<Self>) -> LoadingGuard<S> {
        let loading = self.changed.wait_while(self.loading(), |loading| loading.is_held);
        loading.unwrap_or_else(PoisonError::into_inner).threads += 1;
        LoadingGuard(Arc::clone(self))
    }
}

impl<S: Source> Upstream<S> {
    pub(super) fn new(source: S) -> Self {
        let backlog = AtomicUsize::new(source.backlog());
        Self { source: Mutex::new(source), backlog, loading: Mutex::default(), changed: Condvar::new() }
    }

    /// The source's next item, with a guard to be dropped once it is passed on; `None` if `is_ending` when it
    /// is this thread's turn, or if the source panicked in another thread.
    ///
    /// *Blocks* for this thread's turn, and then for at most `timeout`.
    pub(super) fn next(self: &Arc<Self>, timeout: Duration, is_ending: impl FnOnce() -> bool) -> Option<Asked<S>> {
        let guard = self.begin();
        let mut source = self.source.lock().ok()?;
        if is_ending() {
            return None;
        }
        // Whoever holds the source waits for all threads, also for those that have waited for their turn.
        let timeout = if self.loading().is_held { Duration::ZERO } else { timeout };
        let next = source.next(timeout);
        self.backlog.store(source.backlog(), Ordering::Relaxed);
        Some(next.map(|item| (item, guard)))
    }

    /// Calls `work` with the source once all threads have passed on what they were loading, and before any
    /// asks for more.
    ///
    /// *Blocks* for a thread's look at the source, and for loading a batch.
    pub(super) fn at_rest<R>(&self, work: impl FnOnce(&mut S) -> Result<R, CannotSave>) -> Result<R, CannotSave> {
        let _held = Held::of(self);
        let loading = self.changed.wait_while(self.loading(), |loading| loading.threads > 0);
        drop(loading);
        match self.source.lock() {
            Ok(mut source) => work(&mut source),
            Err(_) => Err(CannotSave::because("the source panicked in a loader thread")),
        }
    }

    /// Items waiting in the source.
    pub(super) fn backlog(&self) -> usize {
        match self.source.try_lock() {
            Ok(source) => source.backlog(),
            Err(_) => self.backlog.load(Ordering::Relaxed),
        }
    }

    /// Drains the source; empty if a thread is still using it or panicked in it, when the items end with the
    /// source.
    pub(super) fn drain(&self) -> Vec<S::Item> {
        match self.source.try_lock() {
            Ok(mut source) => source.drain(),
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => Vec::new(),
        }
    }
}
