//! Waiting for several channels at once.

use std::fmt;
use std::time::Duration;

use crossbeam_channel::{ReadyTimeoutError, RecvError, SelectTimeoutError, SendError};
use shuttle::rand::{Rng, thread_rng};

use super::ends::{Receiver, Sender};
use super::operation::Operation;
use super::world::{Ticket, ticket, wait};
use crate::explore::may_draw;
use crate::time::Limit;

/// As `crossbeam_channel::Select`.
pub struct Select<'a> {
    operations: Vec<&'a dyn Operation>,
    is_biased: bool,
}

impl<'a> Select<'a> {
    /// Chooses among what is ready at random; in an exhaustive run, the first.
    pub fn new() -> Self {
        Self { operations: Vec::new(), is_biased: false }
    }

    /// Chooses the first that is ready.
    pub fn new_biased() -> Self {
        Self { is_biased: true, ..Self::new() }
    }

    /// Adds receiving; its index.
    pub fn recv<T>(&mut self, receiver: &'a Receiver<T>) -> usize {
        self.add(receiver)
    }

    /// Adds sending; its index.
    pub fn send<T>(&mut self, sender: &'a Sender<T>) -> usize {
        self.add(sender)
    }

    fn add(&mut self, operation: &'a dyn Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// Waits until one is ready.
    pub fn select(&mut self) -> SelectedOperation {
        loop {
            // Always: there is no limit.
            if let Some(chosen) = self.choose(Limit::NONE) {
                return chosen;
            }
        }
    }

    /// Waits until one is ready, for at most `timeout`.
    ///
    /// # Errors
    /// If none was.
    pub fn select_timeout(&mut self, timeout: Duration) -> Result<SelectedOperation, SelectTimeoutError> {
        self.choose(Limit::after(timeout)).ok_or(SelectTimeoutError)
    }

    /// Waits until one is ready, for at most `timeout`, without doing it.
    ///
    /// # Errors
    /// If none was.
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.first(Limit::after(timeout), |operation| operation.is_ready()).ok_or(ReadyTimeoutError)
    }

    fn choose(&self, limit: Limit) -> Option<SelectedOperation> {
        let ticket = ticket();
        let index = self.first(limit, |operation| operation.try_claim(ticket))?;
        Some(SelectedOperation { index, ticket, is_complete: false })
    }

    fn first(&self, limit: Limit, attempt: impl Fn(&dyn Operation) -> bool) -> Option<usize> {
        let count = self.operations.len();
        let comes_by_itself = self.operations.iter().any(|operation| operation.comes_by_itself());
        wait(limit, comes_by_itself, || {
            let first = if self.is_biased || !may_draw() { 0 } else { thread_rng().gen_range(0..count.max(1)) };
            let mut order = (first..count).chain(0..first);
            order.find(|index| attempt(self.operations[*index]))
        })
    }
}

impl Default for Select<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}

/// As `crossbeam_channel::SelectedOperation`: must be completed by the operation that was chosen.
#[derive(Debug)]
#[must_use]
pub struct SelectedOperation {
    index: usize,
    ticket: Ticket,
    is_complete: bool,
}

impl SelectedOperation {
    /// Which was chosen.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Completes receiving.
    ///
    /// # Errors
    /// If the channel is closed and empty.
    pub fn recv<T>(mut self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        self.is_complete = true;
        receiver.complete(self.ticket)
    }

    /// Completes sending.
    ///
    /// # Errors
    /// If all receivers are gone.
    pub fn send<T>(mut self, sender: &Sender<T>, message: T) -> Result<(), SendError<T>> {
        self.is_complete = true;
        sender.complete(self.ticket, message)
    }
}

impl Drop for SelectedOperation {
    fn drop(&mut self) {
        assert!(self.is_complete || std::thread::panicking(), "a selected operation was not completed");
    }
}

/// As `crossbeam_channel::select!`, for receiving alone: `recv(channel) -> result => …`, each with a comma,
/// and at most one `default(timeout) => …`.
#[macro_export]
macro_rules! select {
    ($(recv($channel:expr) -> $result:pat => $body:expr,)+ default($timeout:expr) => $default:expr $(,)?) => {
        $crate::select!(@ |wait| wait.select_timeout($timeout).ok(), $default, $($channel, $result, $body,)+)
    };
    ($(recv($channel:expr) -> $result:pat => $body:expr),+ $(,)?) => {
        $crate::select!(@ |wait| Some(wait.select()), unreachable!(), $($channel, $result, $body,)+)
    };
    (@ |$wait:ident| $choice:expr, $default:expr, $($channel:expr, $result:pat, $body:expr,)+) => {{
        #[allow(unreachable_code, clippy::diverging_sub_expression)] // Of an arm that returns.
        let selected = 'chosen: {
            let mut chosen = {
                let mut $wait = $crate::channel::Select::new();
                $($wait.recv(&$channel);)+
                $choice
            };
            let mut place = 0..;
            $(
                if chosen.as_ref().is_some_and(|chosen| Some(chosen.index()) == place.next())
                    && let Some(chosen) = chosen.take()
                {
                    let $result = chosen.recv(&$channel);
                    break 'chosen $body;
                }
            )+
            $default
        };
        selected
    }};
}
