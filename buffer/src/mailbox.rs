//! Reports: bounded, and none is lost if the reader lags.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::inqueue::PopError;
use crate::notifier::Notifier;
use crate::shutdown::Closed;
use crate::sync::Instant;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// A report that can absorb a later one: counts add up, bounded lists merge, the newest values win.
pub trait Fold {
    /// Merges `later` into this report; the result has the totals of both.
    fn fold(&mut self, later: Self);
}

/// Makes a mailbox of `capacity` reports that notifies `notifier` of each.
///
/// ```
/// use std::num::NonZeroUsize;
/// use pronk_buffer::{Notifier, Fold, mailbox};
///
/// #[derive(Debug, PartialEq)]
/// struct Count(u64);
///
/// impl Fold for Count {
///     fn fold(&mut self, later: Self) {
///         self.0 += later.0;
///     }
/// }
///
/// let (sender, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
/// sender.post(Count(2)).unwrap();
/// sender.post(Count(3)).unwrap(); // full: folded into the newest
/// assert_eq!(reports.drain(), [Count(5)]);
/// ```
pub fn mailbox<R: Fold>(capacity: NonZeroUsize, notifier: &Notifier) -> (MailboxSender<R>, Mailbox<R>) {
    let state = State { reports: VecDeque::new(), senders: 1, has_reader: true };
    let shared = Arc::new(Shared { capacity: capacity.get(), state: Mutex::new(state), notifier: notifier.clone() });
    (MailboxSender { shared: Arc::clone(&shared) }, Mailbox { shared })
}

#[derive(Debug)]
struct Shared<R> {
    capacity: usize,
    state: Mutex<State<R>>,
    notifier: Notifier,
}

#[derive(Debug)]
struct State<R> {
    reports: VecDeque<R>,
    senders: usize,
    has_reader: bool,
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // `fold` is the only foreign code under this lock. If it panics, its thread ends and reports that;
        // the other reports must stay readable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The posting end; the mailbox closes when its last clone is dropped.
#[derive(Debug)]
pub struct MailboxSender<R> {
    shared: Arc<Shared<R>>,
}

impl<R: Fold> MailboxSender<R> {
    /// Posts a report; a full mailbox folds it into its newest one. Never waits for the reader.
    ///
    /// # Errors
    /// [`Closed`] with the report, if the reader is gone.
    pub fn post(&self, report: R) -> Result<(), Closed<R>> {
        let mut state = self.shared.lock();
        if !state.has_reader {
            return Err(Closed(report));
        }
        let is_full = state.reports.len() >= self.shared.capacity;
        match state.reports.back_mut() {
            Some(newest) if is_full => newest.fold(report),
            _ => state.reports.push_back(report),
        }
        drop(state);
        self.shared.notifier.notify();
        Ok(())
    }
}

impl<R> Clone for MailboxSender<R> {
    fn clone(&self) -> Self {
        self.shared.lock().senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R> Drop for MailboxSender<R> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.senders -= 1;
        let closed = state.senders == 0;
        drop(state);
        if closed {
            self.shared.notifier.notify();
        }
    }
}

/// The reading end: to block on, to await, or to poll after its [`Notifier`] has woken the reader.
#[derive(Debug)]
pub struct Mailbox<R> {
    shared: Arc<Shared<R>>,
}

impl<R> Mailbox<R> {
    /// Another sender, as a clone of one; the mailbox is open as long as it lives.
    pub fn sender(&self) -> MailboxSender<R> {
        self.shared.lock().senders += 1;
        MailboxSender { shared: Arc::clone(&self.shared) }
    }

    /// The oldest report, if there is one.
    pub fn try_take(&self) -> Option<R> {
        self.shared.lock().reports.pop_front()
    }

    /// The oldest report.
    ///
    /// *Blocks* for at most `timeout`.
    ///
    /// # Errors
    /// [`PopError::Closed`] once all senders are gone and all reports taken.
    pub fn take(&self, timeout: Duration) -> Result<R, PopError> {
        let began = Instant::now();
        // A handle sees a notification once: with one of its own, no other waiter takes it away.
        let notifier = self.shared.notifier.clone();
        loop {
            match self.look() {
                Err(PopError::TimedOut) => {}
                found => return found,
            }
            // The notifier may be shared: another mailbox may have got a report.
            if !notifier.wait(timeout.saturating_sub(began.elapsed())) {
                return self.look();
            }
        }
    }

    /// The oldest report, on any async runtime; `None` once all senders are gone and all reports taken.
    /// Cancel safe.
    pub async fn recv(&self) -> Option<R> {
        let notifier = self.shared.notifier.clone();
        loop {
            match self.look() {
                Ok(report) => return Some(report),
                Err(PopError::Closed) => return None,
                Err(PopError::TimedOut) => notifier.notified().await,
            }
        }
    }

    /// All reports, oldest first.
    pub fn drain(&self) -> Vec<R> {
        self.shared.lock().reports.drain(..).collect()
    }

    /// Whether all senders are gone; there may be reports left.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().senders == 0
    }

    /// The number of reports.
    pub fn len(&self) -> usize {
        self.shared.lock().reports.len()
    }

    /// Whether there are no reports.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One look: a report, nothing yet (`TimedOut`), or nothing ever (`Closed`).
    fn look(&self) -> Result<R, PopError> {
        let mut state = self.shared.lock();
        match state.reports.pop_front() {
            Some(report) => Ok(report),
            None if state.senders == 0 => Err(PopError::Closed),
            None => Err(PopError::TimedOut),
        }
    }
}

impl<R> Drop for Mailbox<R> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.has_reader = false;
        let unread = std::mem::take(&mut state.reports);
        drop(state);
        drop(unread); // outside the lock
    }
}
