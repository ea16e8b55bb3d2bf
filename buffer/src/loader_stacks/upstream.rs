use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::{NextError, Source};

/// A source that several loader threads take turns at.
pub(super) struct Upstream<S> {
    source: Mutex<S>,
    /// What waited when a loader looked last: the lock is held while one waits for a batch, and whoever asks
    /// for the backlog must not wait with it.
    backlog: AtomicUsize,
}

impl<S: Source> Upstream<S> {
    pub(super) fn new(source: S) -> Self {
        let backlog = AtomicUsize::new(source.backlog());
        Self { source: Mutex::new(source), backlog }
    }

    /// The source's next item, or `None` when `is_ending` says so once it is this thread's turn, or when the
    /// source panicked in another thread.
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

    /// Takes out what the source still holds. Nothing when a thread is still at it or panicked there: then
    /// the items end with the source.
    pub(super) fn drain(&self) -> Vec<S::Item> {
        match self.source.try_lock() {
            Ok(mut source) => source.drain(),
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => Vec::new(),
        }
    }
}
