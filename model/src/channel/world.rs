//! The lock that all channels of a model share: a choice among several of them is one step.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use shuttle::thread::yield_now;

use crate::time::Limit;

/// Names a selection.
pub(super) type Ticket = u64;

#[derive(Default)]
struct World {
    lock: Mutex<()>,
    changed: Condvar,
    waiting: AtomicUsize,
    tickets: AtomicU64,
}

shuttle::lazy_static! {
    static ref WORLD: World = World::default();
}

impl World {
    fn lock(&self) -> MutexGuard<'_, ()> {
        // A thread that panicked with the lock has left its channels as they were.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

pub(super) fn ticket() -> Ticket {
    WORLD.tickets.fetch_add(1, Ordering::Relaxed)
}

/// Looks at channels, in one step.
pub(super) fn look<R>(look: impl FnOnce() -> R) -> R {
    let _held = WORLD.lock();
    look()
}

/// Changes channels, in one step, and wakes the threads that wait for that.
pub(super) fn change<R>(change: impl FnOnce() -> R) -> R {
    let _held = WORLD.lock();
    let changed = change();
    WORLD.tell();
    changed
}

/// Tries until there is a result; `None` after the time limit. Without a limit the thread sleeps until a
/// channel changes, unless what it waits for comes by itself.
pub(super) fn wait<R>(limit: Limit, comes_by_itself: bool, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
    let mut held = WORLD.lock();
    loop {
        if let Some(result) = attempt() {
            WORLD.tell();
            return Some(result);
        }
        if limit.is_over() {
            return None;
        }
        if limit.is_none() && !comes_by_itself {
            WORLD.waiting.fetch_add(1, Ordering::Relaxed);
            held = WORLD.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
            WORLD.waiting.fetch_sub(1, Ordering::Relaxed);
        } else {
            drop(held);
            yield_now();
            held = WORLD.lock();
        }
    }
}
