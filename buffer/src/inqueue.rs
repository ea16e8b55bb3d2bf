//! The bounded queue from rollout workers to the learner.

pub use receive::PopError;
pub(crate) use receive::{receive, receive_meanwhile};

use std::time::Duration;

use crate::meanwhile::Meanwhile;
use crate::shutdown::{Closed, ShutdownGuard, ShutdownToken, shutdown};
use crate::sync::Instant;
use crate::sync::channel::{Receiver, Select, Sender, TryRecvError, TrySendError, bounded};

use gate::{Draining, Filling, fill_then_drain};

mod gate;
mod receive;
#[cfg(test)]
mod tests;

pub use gate::Gate;

/// Makes a queue that holds at most `capacity` items and ends with the run that `token` belongs to.
///
/// It moves ownership. A full queue blocks senders: this back-pressure is the only throttle of a run. `gate`
/// says when they continue: as soon as there is room, or once the queue is empty. In a queue of capacity 0 no
/// item waits: each push blocks until the receiver takes the item.
///
/// # Errors
/// [`ZeroCapacity`] when a queue of capacity 0 is to fill before it drains.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_buffer::Gate;
///
/// let (_guard, token) = pronk_buffer::shutdown();
/// let (sender, receiver) = pronk_buffer::inqueue(16, Gate::Bounded, &token)?;
/// sender.push("fragment").unwrap();
/// assert_eq!(receiver.pop(Duration::ZERO), Ok("fragment"));
///
/// drop(receiver);
/// let returned = sender.push("next").unwrap_err();
/// assert_eq!(returned.0, "next");
/// # Ok::<(), pronk_buffer::ZeroCapacity>(())
/// ```
pub fn inqueue<T>(
    capacity: usize,
    gate: Gate,
    token: &ShutdownToken,
) -> Result<(InqueueSender<T>, InqueueReceiver<T>), ZeroCapacity> {
    if capacity == 0 && gate == Gate::FillThenDrain {
        return Err(ZeroCapacity);
    }
    let (items, received) = bounded(capacity);
    let (open, receiver) = shutdown();
    let (filling, draining) = match gate {
        Gate::Bounded => (None, None),
        Gate::FillThenDrain => {
            let (filling, draining) = fill_then_drain(capacity);
            (Some(filling), Some(draining))
        }
    };
    let sender = InqueueSender { items, left: received.clone(), filling, capacity, receiver, token: token.clone() };
    Ok((sender, InqueueReceiver { items: received, draining, open: Some(open), token: token.clone() }))
}

/// The workers' end; each worker has a clone.
#[derive(Debug)]
pub struct InqueueSender<T> {
    items: Sender<T>,
    /// For what comes into the queue of a receiver that is gone.
    left: Receiver<T>,
    /// The sender's side of [`Gate::FillThenDrain`]. Declared after `items`, so that a receiver that finds
    /// all senders gone finds all items.
    filling: Option<Filling>,
    capacity: usize,
    /// Closed when the receiver is dropped.
    receiver: ShutdownToken,
    token: ShutdownToken,
}

impl<T> InqueueSender<T> {
    /// Pushes an item and returns how long it blocked.
    ///
    /// *Blocks* until there is room and the gate is open, the receiver is dropped, or the run ends.
    ///
    /// # Errors
    /// [`Closed`] with the item, if the receiver is gone or the run has ended.
    pub fn push(&self, item: T) -> Result<Duration, Closed<T>> {
        self.push_meanwhile(item, &mut ())
    }

    /// As [`push`](Self::push); works at `meanwhile` instead of blocking while there is work.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_meanwhile(&self, mut item: T, meanwhile: &mut dyn Meanwhile) -> Result<Duration, Closed<T>> {
        let mut blocked_since = None;
        loop {
            item = match self.try_push(item) {
                Ok(()) => return Ok(blocked_since.map_or(Duration::ZERO, |began: Instant| began.elapsed())),
                Err(TryPushError::Closed(item)) => return Err(Closed(item)),
                Err(TryPushError::Full(item)) => item,
            };
            let began = *blocked_since.get_or_insert_with(Instant::now);
            item = match self.push_when_there_is_room(item, meanwhile.wakes()) {
                Waited::Pushed => return Ok(began.elapsed()),
                Waited::Closed(item) => return Err(Closed(item)),
                Waited::Woken(item) => item,
            };
            meanwhile.work();
        }
    }

    /// Pushes an item if there is room now and the gate is open.
    ///
    /// # Errors
    /// Returns the item: [`TryPushError::Full`], or [`TryPushError::Closed`] if the receiver is gone or the
    /// run has ended.
    pub fn try_push(&self, item: T) -> Result<(), TryPushError<T>> {
        if self.token.is_shut_down() || self.receiver.is_shut_down() {
            return Err(TryPushError::Closed(item));
        }
        match &self.filling {
            Some(filling) => match filling.places.try_recv() {
                Ok(()) => filling.push(&self.items, item).map_err(TryPushError::Closed),
                Err(TryRecvError::Empty) => Err(TryPushError::Full(item)),
                Err(TryRecvError::Disconnected) => Err(TryPushError::Closed(item)),
            },
            None => self.items.try_send(item).map_err(|error| match error {
                TrySendError::Full(item) => TryPushError::Full(item),
                TrySendError::Disconnected(item) => TryPushError::Closed(item),
            }),
        }?;
        self.drop_if_late();
        Ok(())
    }

    /// After a push: the receiver may have gone since the look before it, and then its own drop misses the
    /// item, which would stay while senders live.
    fn drop_if_late(&self) {
        if self.receiver.is_shut_down() {
            self.left.try_iter().for_each(drop);
        }
    }

    /// Items waiting.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The number of items that can wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn push_when_there_is_room(&self, item: T, wakes: Option<&Receiver<()>>) -> Waited<T> {
        // Ends come first: room that appears because the receiver is going away is no room.
        let mut wait = Select::new_biased();
        let ends = [&self.token, &self.receiver].map(|token| (wait.recv(token.ended()), token));
        match &self.filling {
            None => wait.send(&self.items),
            Some(filling) => wait.recv(&filling.places),
        };
        let wakes = wakes.map(|wakes| (wait.recv(wakes), wakes));
        let ready = wait.select();
        if let Some((_, token)) = ends.into_iter().find(|(end, _)| *end == ready.index()) {
            // A selected operation must be completed; this one returns that the guard was dropped.
            let _ = ready.recv(token.ended());
            return Waited::Closed(item);
        }
        if let Some((_, wakes)) = wakes.filter(|(wake, _)| *wake == ready.index()) {
            return match ready.recv(wakes) {
                Ok(()) => Waited::Woken(item),
                // No more work will come.
                Err(_) => self.push_when_there_is_room(item, None),
            };
        }
        let pushed = match &self.filling {
            None => ready.send(&self.items, item).map_err(|error| error.0),
            Some(filling) => match ready.recv(&filling.places) {
                Ok(()) => filling.push(&self.items, item),
                Err(_) => Err(item),
            },
        };
        if pushed.is_ok() {
            self.drop_if_late();
        }
        pushed.map_or_else(Waited::Closed, |()| Waited::Pushed)
    }
}

/// How a wait for room ended, with the item unless it was pushed.
enum Waited<T> {
    Pushed,
    Closed(T),
    Woken(T),
}

impl<T> Clone for InqueueSender<T> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            left: self.left.clone(),
            filling: self.filling.clone(),
            capacity: self.capacity,
            receiver: self.receiver.clone(),
            token: self.token.clone(),
        }
    }
}

/// The learner's end.
#[derive(Debug)]
pub struct InqueueReceiver<T> {
    items: Receiver<T>,
    /// The receiver's side of [`Gate::FillThenDrain`].
    draining: Option<Draining>,
    /// Declared first, so that senders see the end before the room that draining makes.
    open: Option<ShutdownGuard>,
    token: ShutdownToken,
}

impl<T> InqueueReceiver<T> {
    /// Takes the oldest item.
    ///
    /// *Blocks* for at most `timeout`; even with zero it takes an item that waits, if the gate is open.
    ///
    /// # Errors
    /// [`PopError::TimedOut`] if nothing came or the gate stayed closed. [`PopError::Closed`] once all
    /// senders are gone and their items taken, or the run has ended; [`drain`](Self::drain) then returns the
    /// rest.
    pub fn pop(&self, timeout: Duration) -> Result<T, PopError> {
        if self.token.is_shut_down() {
            return Err(PopError::Closed);
        }
        match &self.draining {
            None => receive(&self.items, &self.token, timeout),
            Some(draining) => draining.pop(&self.items, &self.token, timeout),
        }
    }

    /// All items that wait now, even if the gate is closed. Does not block.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        let drained = match &self.draining {
            // What is pushed meanwhile would keep it from ending.
            None => self.items.try_iter().take(self.items.len()).collect(),
            Some(draining) => draining.drain(&self.items),
        };
        drained.into_iter()
    }

    /// Items waiting.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Drop for InqueueReceiver<T> {
    /// Drops the items: the channel would keep their storage and tickets until the last sender is gone, as it
    /// still does with one that is pushed during the drop.
    fn drop(&mut self) {
        self.open = None;
        self.items.try_iter().for_each(drop);
    }
}

/// Why an item was not pushed, with the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryPushError<T> {
    /// No room, or the gate is closed.
    #[error("the inqueue is full, or is being drained")]
    Full(T),
    /// The receiver is gone or the run has ended.
    #[error("closed: the receiver was dropped or the run is ending")]
    Closed(T),
}

/// An inqueue that nothing can fill was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capacity of an inqueue that fills before it drains must be at least 1: at 0 no item could wait")]
pub struct ZeroCapacity;
