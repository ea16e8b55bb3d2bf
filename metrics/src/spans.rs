//! Spans made visible: as a tree of timers, and as a timeline.

mod timeline;
mod timers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub use timeline::{Timeline, TimelineLayer};
pub use timers::{Timers, TimersFile, TimersLayer};

/// What one thread keeps for each of several owners, say for each [`Timers`].
///
/// Entry in a thread-local, it tells every owner that is left when the thread ends.
struct PerOwner<O, T: AtThreadEnd<O>>(Vec<Entry<O, T>>);

/// Thread-local data that is handed over to its owner as the thread ends.
trait AtThreadEnd<O> {
    fn hand_over(&mut self, owner: &Arc<O>);
}

struct Entry<O, T: AtThreadEnd<O>> {
    // Also keeps the address taken, so that no later owner is mistaken for this one.
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

    /// Keeps `kept` for an owner that has nothing here, and forgets owners that are gone.
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

/// Locks also what a panicking thread held: every change below leaves its data whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
