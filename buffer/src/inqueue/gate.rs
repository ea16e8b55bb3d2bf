//! When senders push and the receiver pops.

use std::cell::Cell;
use std::time::Duration;

use super::{PopError, receive};
use crate::shutdown::ShutdownToken;
use crate::sync::channel::{Receiver, Sender, TryRecvError, bounded};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// When senders of an [`inqueue`](super::inqueue) may push and its receiver may pop.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_buffer::{Gate, PopError, TryPushError, inqueue, shutdown};
///
/// let (_guard, token) = shutdown();
/// let (sender, receiver) = inqueue(2, Gate::FillThenDrain, &token)?;
/// sender.push("a")?;
/// assert_eq!(receiver.pop(Duration::ZERO), Err(PopError::TimedOut), "not full yet");
/// sender.push("b")?;
/// assert_eq!(receiver.pop(Duration::ZERO), Ok("a"));
/// assert_eq!(sender.try_push("c"), Err(TryPushError::Full("c")), "not empty yet");
/// assert_eq!(receiver.pop(Duration::ZERO), Ok("b"));
/// sender.push("c")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// Senders push while there is room, and the receiver pops while something waits.
    #[default]
    Bounded,
    /// Senders push until the queue is full; then they block while the receiver pops until it is empty. Once
    /// all senders are gone, the receiver may pop although the queue is not full.
    FillThenDrain,
}

/// Makes the two sides of [`Gate::FillThenDrain`].
///
/// A sender takes a place before it pushes. The push that fills the queue notifies the receiver, and the pop
/// that empties it returns all places.
pub(super) fn fill_then_drain(capacity: usize) -> (Filling, Draining) {
    let (free, places) = bounded(capacity);
    let (told, full) = bounded(1);
    let filled = Arc::new(Mutex::new(0));
    let draining = Draining { full, left: Cell::new(0), filled: Arc::clone(&filled), free, capacity };
    draining.give_back(capacity);
    (Filling { places, filled, full: told, capacity }, draining)
}

/// A sender's side.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    /// One message for each place that can be taken.
    pub(super) places: Receiver<()>,
    /// Items pushed since the queue was empty. Behind a lock, so that no receiver sees an uncounted item.
    filled: Arc<Mutex<usize>>,
    /// Receives a message when the queue is full; closed once all senders are gone.
    full: Sender<()>,
    capacity: usize,
}

impl Filling {
    /// Pushes onto a place taken before; returns the item if the receiver is gone.
    pub(super) fn push<T>(&self, items: &Sender<T>, item: T) -> Result<(), T> {
        let mut filled = lock(&self.filled);
        // A place guarantees room.
        items.try_send(item).map_err(|error| error.into_inner())?;
        *filled += 1;
        if *filled == self.capacity {
            *filled = 0;
            // At most one such message exists until the queue is empty again.
            let _ = self.full.try_send(());
        }
        Ok(())
    }
}

/// The receiver's side.
#[derive(Debug)]
pub(super) struct Draining {
    /// Signals that the queue is full.
    full: Receiver<()>,
    /// Items to pop before the senders' turn.
    left: Cell<usize>,
    filled: Arc<Mutex<usize>>,
    free: Sender<()>,
    capacity: usize,
}

impl Draining {
    pub(super) fn pop<T>(&self, items: &Receiver<T>, token: &ShutdownToken, timeout: Duration) -> Result<T, PopError> {
        if self.left.get() == 0 {
            match receive(&self.full, token, timeout) {
                Ok(()) => self.left.set(self.capacity),
                // All senders are gone: no more items will come.
                Err(PopError::Closed) if !token.is_shut_down() => return items.try_recv().map_err(closed),
                Err(error) => return Err(error),
            }
        }
        let item = items.try_recv().map_err(closed)?;
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.give_back(self.capacity);
        }
        Ok(item)
    }

    /// Takes all items in either phase; then senders may push.
    pub(super) fn drain<T>(&self, items: &Receiver<T>) -> Vec<T> {
        let mut filled = lock(&self.filled);
        let drained = items.try_iter().collect();
        let is_full = self.full.try_recv().is_ok() || self.left.get() > 0;
        let taken = if is_full { self.capacity } else { *filled };
        self.left.set(0);
        *filled = 0;
        self.give_back(taken);
        drained
    }

    fn give_back(&self, places: usize) {
        for _ in 0..places {
            // The channel has room for all places.
            let _ = self.free.try_send(());
        }
    }
}

fn closed(_: TryRecvError) -> PopError {
    PopError::Closed
}

/// Nothing that can panic runs under this lock.
fn lock(filled: &Mutex<usize>) -> MutexGuard<'_, usize> {
    filled.lock().unwrap_or_else(PoisonError::into_inner)
}
