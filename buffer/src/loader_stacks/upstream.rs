use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::{NextError, Source};

/// A source that loader threads share by taking turns.
pub(super) struct Upstream<S> {
    source: Mutex<S>,
    /// The backlog as last seen by a loader: a loader holds the lock while it waits for a batch, and asking
    /// for the backlog must not block.
    backlog: AtomicUsize,
}

impl<S: Source> Upstream<S> {
    pub(super) fn new(source: S) -> Self {
        let backlog = AtomicUsize::new(source.backlog());
        Self { source: Mutex::new(source), backlog }
    }

    /// The source's next item; `None` if `is_ending` when it is this thread's turn, or if the source panicked
    /// in another thread.
    ///
    /// *Blocks* for this thread's turn, and then for at most `timeout`.
    pub(super) fn next(
        &self,
        timeout: Duration,
        is_ending: impl FnOnce() -> bool,
    ) -> Option<Result<S::Item, NextError>> {
        let mut source = self.source.lock().ok()?;
        if is_ending() {
            return None;
        }
        let next = source.next(timeout);
        self.backlog.store(source.backlog(), Ordering::Relaxed);
        Some(next)
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
