//! Where the learner takes batches from.

use std::error::Error;
use std::time::Duration;

use crate::inqueue::{InqueueReceiver, PopError};

/// A source of items: the inqueue, or an adapter that wraps another source, so that the learner has one loop
/// for all of them. Implementers run [`source_contract`](crate::source_contract) in their tests.
///
/// ```
/// use std::time::Duration;
/// use pronk_buffer::{NextError, Source};
///
/// /// Gives every second item of another source.
/// struct EverySecond<S>(S);
///
/// impl<S: Source> Source for EverySecond<S> {
///     type Item = S::Item;
///
///     fn next(&mut self, timeout: Duration) -> Result<S::Item, NextError> {
///         self.0.next(timeout)?;
///         self.0.next(timeout)
///     }
///
///     fn backlog(&self) -> usize {
///         self.0.backlog() / 2
///     }
///
///     fn drain(&mut self) -> Vec<S::Item> {
///         self.0.drain()
///     }
/// }
/// ```
pub trait Source {
    /// The type of items.
    type Item;

    /// The next item.
    ///
    /// *Blocks* for at most `timeout`; even with zero it returns an item that is ready.
    ///
    /// # Errors
    /// [`NextError`]. A timeout loses nothing: the next call resumes.
    fn next(&mut self, timeout: Duration) -> Result<Self::Item, NextError>;

    /// The number of items waiting in this source, as far as it knows.
    fn backlog(&self) -> usize;

    /// All items it holds, in order, without blocking: called at the end of a run, so that every item is
    /// counted.
    fn drain(&mut self) -> Vec<Self::Item>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    type Item = S::Item;

    fn next(&mut self, timeout: Duration) -> Result<S::Item, NextError> {
        (**self).next(timeout)
    }

    fn backlog(&self) -> usize {
        (**self).backlog()
    }

    fn drain(&mut self) -> Vec<S::Item> {
        (**self).drain()
    }
}

/// Why a source returned nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// A timeout; ask again.
    #[error("no batch came within the timeout")]
    TimedOut,
    /// No more items will come.
    #[error("closed: all senders were dropped or the run is ending")]
    Closed,
    /// An item could not be used.
    #[error("the source of batches failed: {0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl From<PopError> for NextError {
    fn from(error: PopError) -> Self {
        match error {
            PopError::TimedOut => Self::TimedOut,
            PopError::Closed => Self::Closed,
        }
    }
}

impl<T> Source for InqueueReceiver<T> {
    type Item = T;

    fn next(&mut self, timeout: Duration) -> Result<T, NextError> {
        Ok(self.pop(timeout)?)
    }

    fn backlog(&self) -> usize {
        self.len()
    }

    fn drain(&mut self) -> Vec<T> {
        InqueueReceiver::drain(self).collect()
    }
}
