//! The two ends of a channel.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};

use super::operation::Operation;
use super::world::{Ticket, change, look, ticket, wait};
use crate::time::{Instant, Limit};

/// A channel for at most `capacity` messages at a time. With 0 a sender that waits passes its message on from
/// thread to thread; one that does not wait finds no receiver, and neither does a selection.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (messages, offers) = Default::default();
    let state = State { capacity, messages, offers, senders: 1, receivers: 1, taken: vec![], places: vec![] };
    let channel = Arc::new(Channel(Mutex::new(state)));
    (Sender(Arc::clone(&channel)), Receiver(Source::Channel(channel)))
}

/// A channel whose one message comes after `duration`.
pub fn after(duration: Duration) -> Receiver<Instant> {
    let message = Mutex::new(Some(Instant::now() + duration));
    Receiver(Source::Timer(Arc::new(Timer { limit: Limit::after(duration), message })))
}

/// A channel without messages, which never closes.
pub fn never<T>() -> Receiver<T> {
    Receiver(Source::Never)
}

/// A channel's state is locked only while its thread holds the lock of the world, and so never for long.
struct Channel<T>(Mutex<State<T>>);

struct State<T> {
    capacity: usize,
    messages: VecDeque<T>,
    /// Messages of senders that wait for a receiver, in a channel without room.
    offers: VecDeque<(Ticket, T)>,
    senders: usize,
    receivers: usize,
    /// What selections have taken and not received yet; `None` says that the channel is closed.
    taken: Vec<(Ticket, Option<T>)>,
    /// Places that selections keep for what they will send.
    places: Vec<Ticket>,
}

impl<T> State<T> {
    fn is_full(&self) -> bool {
        self.messages.len() + self.places.len() >= self.capacity
    }

    fn has_message(&self) -> bool {
        !self.messages.is_empty() || !self.offers.is_empty()
    }

    fn pop(&mut self) -> Option<T> {
        self.messages.pop_front().or_else(|| Some(self.offers.pop_front()?.1))
    }

    /// Whether nothing will come.
    fn is_closed(&self) -> bool {
        // A selection that has a place will send.
        self.senders == 0 && self.places.is_empty()
    }
}

impl<T> Channel<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `crossbeam_channel::Sender`.
pub struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    /// Waits for room.
    ///
    /// # Errors
    /// If all receivers are gone.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.send_within(message, Limit::NONE).map_err(|error| SendError(error.into_inner()))
    }

    /// Sends if there is room.
    ///
    /// # Errors
    /// If there is none, or all receivers are gone.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        change(|| {
            let mut state = self.0.lock();
            if state.receivers == 0 {
                return Err(TrySendError::Disconnected(message));
            }
            if state.is_full() {
                return Err(TrySendError::Full(message));
            }
            state.messages.push_back(message);
            Ok(())
        })
    }

    /// Waits for room, for at most `timeout`.
    ///
    /// # Errors
    /// If there is none, or all receivers are gone.
    pub fn send_timeout(&self, message: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_within(message, Limit::after(timeout))
    }

    fn send_within(&self, message: T, limit: Limit) -> Result<(), SendTimeoutError<T>> {
        if self.0.lock().capacity == 0 {
            return self.hand_over(message, limit);
        }
        let mut left = Some(message);
        let sent = wait(limit, false, || {
            let mut state = self.0.lock();
            if state.receivers == 0 {
                return Some(false);
            }
            if state.is_full() {
                return None;
            }
            state.messages.extend(left.take());
            Some(true)
        });
        match (sent, left) {
            (Some(false), Some(message)) => Err(SendTimeoutError::Disconnected(message)),
            (None, Some(message)) => Err(SendTimeoutError::Timeout(message)),
            _ => Ok(()),
        }
    }

    /// Waits until a receiver takes the message, and takes it back otherwise.
    fn hand_over(&self, message: T, limit: Limit) -> Result<(), SendTimeoutError<T>> {
        let ticket = ticket();
        change(|| self.0.lock().offers.push_back((ticket, message)));
        wait(limit, false, || {
            let state = self.0.lock();
            let is_taken = state.offers.iter().all(|(of, _)| *of != ticket);
            (is_taken || state.receivers == 0).then_some(())
        });
        change(|| {
            let mut state = self.0.lock();
            let at = state.offers.iter().position(|(of, _)| *of == ticket);
            match at.and_then(|at| state.offers.remove(at)) {
                None => Ok(()),
                Some((_, message)) if state.receivers == 0 => Err(SendTimeoutError::Disconnected(message)),
                Some((_, message)) => Err(SendTimeoutError::Timeout(message)),
            }
        })
    }

    pub(super) fn complete(&self, ticket: Ticket, message: T) -> Result<(), SendError<T>> {
        change(|| {
            let mut state = self.0.lock();
            state.places.retain(|place| *place != ticket);
            if state.receivers == 0 {
                return Err(SendError(message));
            }
            state.messages.push_back(message);
            Ok(())
        })
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        look(|| self.0.lock().messages.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of messages that there is room for.
    pub fn capacity(&self) -> Option<usize> {
        Some(look(|| self.0.lock().capacity))
    }

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        look(|| self.0.lock().is_full())
    }
}

impl<T> Operation for Sender<T> {
    fn try_claim(&self, ticket: Ticket) -> bool {
        let mut state = self.0.lock();
        if state.receivers > 0 {
            if state.is_full() {
                return false;
            }
            state.places.push(ticket);
        }
        true
    }

    fn is_ready(&self) -> bool {
        let state = self.0.lock();
        state.receivers == 0 || !state.is_full()
    }

    fn comes_by_itself(&self) -> bool {
        false
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        change(|| self.0.lock().senders += 1);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        change(|| self.0.lock().senders -= 1);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}

/// As `crossbeam_channel::Receiver`.
pub struct Receiver<T>(Source<T>);

enum Source<T> {
    Channel(Arc<Channel<T>>),
    Timer(Arc<Timer<T>>),
    Never,
}

struct Timer<T> {
    limit: Limit,
    message: Mutex<Option<T>>,
}

impl<T> Timer<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.message.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a look into a channel finds.
enum Found<T> {
    Message(T),
    Nothing,
    Closed,
}

impl<T> Receiver<T> {
    /// Waits for a message.
    ///
    /// # Errors
    /// If the channel is closed and empty.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_within(Limit::NONE).map_err(|_| RecvError)
    }

    /// A message, if there is one.
    ///
    /// # Errors
    /// If there is none, and whether there never will be.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match change(|| self.take()) {
            Found::Message(message) => Ok(message),
            Found::Nothing => Err(TryRecvError::Empty),
            Found::Closed => Err(TryRecvError::Disconnected),
        }
    }

    /// Waits for a message, for at most `timeout`.
    ///
    /// # Errors
    /// If none came, or the channel is closed and empty.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_within(Limit::after(timeout))
    }

    /// As [`recv_timeout`](Self::recv_timeout), until a point in time.
    ///
    /// # Errors
    /// As there.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_within(Limit::at(deadline))
    }

    fn recv_within(&self, limit: Limit) -> Result<T, RecvTimeoutError> {
        let received = wait(limit, self.is_timer(), || match self.take() {
            Found::Message(message) => Some(Ok(message)),
            Found::Nothing => None,
            Found::Closed => Some(Err(RecvTimeoutError::Disconnected)),
        });
        received.unwrap_or(Err(RecvTimeoutError::Timeout))
    }

    /// Messages until the channel is closed and empty.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// The messages that are there.
    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    fn take(&self) -> Found<T> {
        match &self.0 {
            Source::Channel(channel) => {
                let mut state = channel.lock();
                match state.pop() {
                    Some(message) => Found::Message(message),
                    None if state.is_closed() => Found::Closed,
                    None => Found::Nothing,
                }
            }
            Source::Timer(timer) => {
                let is_there = timer.lock().is_some() && timer.limit.is_over();
                if is_there { timer.lock().take().map_or(Found::Nothing, Found::Message) } else { Found::Nothing }
            }
            Source::Never => Found::Nothing,
        }
    }

    pub(super) fn complete(&self, ticket: Ticket) -> Result<T, RecvError> {
        look(|| match &self.0 {
            Source::Channel(channel) => {
                let mut state = channel.lock();
                let at = state.taken.iter().position(|(by, _)| *by == ticket);
                at.and_then(|at| state.taken.swap_remove(at).1)
            }
            Source::Timer(timer) => timer.lock().take(),
            Source::Never => None,
        })
        .ok_or(RecvError)
    }

    fn is_timer(&self) -> bool {
        matches!(self.0, Source::Timer(_))
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Channel(channel) => look(|| channel.lock().messages.len()),
            Source::Timer(_) | Source::Never => 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Operation for Receiver<T> {
    fn try_claim(&self, ticket: Ticket) -> bool {
        let taken = match self.take() {
            Found::Message(message) => Some(message),
            Found::Closed => None,
            Found::Nothing => return false,
        };
        match &self.0 {
            Source::Channel(channel) => channel.lock().taken.push((ticket, taken)),
            // No other thread selects on it between this and its completion: only its owner has it.
            Source::Timer(timer) => *timer.lock() = taken,
            Source::Never => {}
        }
        true
    }

    fn is_ready(&self) -> bool {
        match &self.0 {
            Source::Channel(channel) => {
                let state = channel.lock();
                state.has_message() || state.is_closed()
            }
            Source::Timer(timer) => timer.lock().is_some() && timer.limit.is_over(),
            Source::Never => false,
        }
    }

    fn comes_by_itself(&self) -> bool {
        self.is_timer()
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Source::Channel(channel) => {
                change(|| channel.lock().receivers += 1);
                Source::Channel(Arc::clone(channel))
            }
            Source::Timer(timer) => Source::Timer(Arc::clone(timer)),
            Source::Never => Source::Never,
        })
    }
}

impl<T> Drop for Receiver<T> {
    /// Messages stay until the last sender is gone, as in `crossbeam_channel`.
    fn drop(&mut self) {
        if let Source::Channel(channel) = &self.0 {
            change(|| channel.lock().receivers -= 1);
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
    }
}
