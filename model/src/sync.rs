//! Locks and shared values; as [`std::sync`] and `arc_swap`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub use shuttle::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

use shuttle::thread::yield_now;

use crate::time::Limit;

/// As [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// As [`std::sync::MutexGuard`].
pub struct MutexGuard<'a, T> {
    held: shuttle::sync::MutexGuard<'a, T>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// If a thread panicked while it held the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.guarded(self.0.lock())
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// If it is not, or if a thread panicked while it held the lock.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Ok(MutexGuard { held, of: self }),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(error)) => {
                Err(TryLockError::Poisoned(PoisonError::new(MutexGuard { held: error.into_inner(), of: self })))
            }
        }
    }

    /// The value, without locking: `&mut` is unique.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// The value.
    ///
    /// # Errors
    /// If a thread panicked while it held the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }

    fn guarded<'a>(&'a self, held: LockResult<shuttle::sync::MutexGuard<'a, T>>) -> LockResult<MutexGuard<'a, T>> {
        match held {
            Ok(held) => Ok(MutexGuard { held, of: self }),
            Err(error) => Err(PoisonError::new(MutexGuard { held: error.into_inner(), of: self })),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// As [`std::sync::Condvar`], with the time of a model.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

/// Whether a wait timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it did.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// One without waiters.
    pub const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    /// Waits for a notification.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { held, of } = guard;
        of.guarded(self.0.wait(held))
    }

    /// Waits while `condition` holds, which is looked at now and after each notification.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let mut guard = guard;
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits for a notification or the end of `timeout`. One that can time out may also wake up for no
    /// reason, as the standard library allows.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let limit = Limit::after(timeout);
        let woken = if limit.is_none() {
            self.wait(guard)
        } else {
            let of = guard.of;
            drop(guard);
            yield_now();
            of.lock()
        };
        match woken {
            Ok(guard) => Ok((guard, WaitTimeoutResult(limit.is_over()))),
            Err(error) => Err(PoisonError::new((error.into_inner(), WaitTimeoutResult(limit.is_over())))),
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// As `tokio::sync::Notify`, whose operations are one step each.
#[derive(Debug, Default)]
pub struct Notify {
    notify: tokio::sync::Notify,
    step: atomic::AtomicBool,
}

impl Notify {
    /// Wakes all that wait now.
    pub fn notify_waiters(&self) {
        self.other_threads_go_first();
        self.notify.notify_waiters();
    }

    /// Waits for a notification from here on.
    pub fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        self.other_threads_go_first();
        self.notify.notified()
    }

    fn other_threads_go_first(&self) {
        self.step.store(true, atomic::Ordering::SeqCst);
    }
}

/// As `arc_swap::ArcSwap`.
#[derive(Debug)]
pub struct ArcSwap<T>(shuttle::sync::Mutex<Arc<T>>);

impl<T> ArcSwap<T> {
    /// A cell that holds this.
    pub fn from_pointee(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(Arc::new(value)))
    }

    /// What the cell holds.
    pub fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.lock())
    }

    /// Puts another value there, and returns what was there.
    pub fn swap(&self, new: Arc<T>) -> Arc<T> {
        std::mem::replace(&mut self.lock(), new)
    }

    fn lock(&self) -> shuttle::sync::MutexGuard<'_, Arc<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
