//! `tracing` spans as a tree of timers, and as a timeline.

mod timeline;
mod timers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub use timeline::{Timeline, TimelineLayer};
pub use timers::{Timers, TimersFile, TimersLayer};

/// A thread-local entry for each owner, for example each [`Timers`]; the end of the thread notifies those
/// that are left.
struct PerOwner<O, T: AtThreadEnd<O>>(Vec<Entry<O, T>>);

/// Thread-local data that goes to its owner when the thread ends.
trait AtThreadEnd<O> {
    fn hand_over(&mut self, owner: &Arc<O>);
}

struct Entry<O, T: AtThreadEnd<O>> {
    // Keeps the address in use, so that no later owner is mistaken for this one.
    owner: Weak<O>,
    kept: T,
}

impl<O, T: AtThreadEnd<O>> PerOwner<O, T> {
    const fn new() -> PerOwner<O, T> {
        PerOwner(Vec::new())
    }

    fn get(&mut self, owner: &Arc<O>) -> Option<&mut T> {
        let held = self.0.iter_mut().find(|held| held.owner.as_ptr() == Arc::as_ptr(owner));
        held.map(|held| &mut held.kept)
    }

    /// Adds an entry for an owner, and removes those of owners that are gone.
    fn keep(&mut self, owner: &Arc<O>, kept: T) {
        self.0.retain(|held| held.owner.strong_count() > 0);
        self.0.push(Entry { owner: Arc::downgrade(owner), kept });
    }
}

impl<O, T: AtThreadEnd<O>> Drop for Entry<O, T> {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.upgrade() {
            self.kept.hand_over(&owner);
        }
    }
}

/// Ignores poisoning: every change leaves the data valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
