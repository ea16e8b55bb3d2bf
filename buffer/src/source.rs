//! What the learner takes its batches from.

use std::error::Error;
use std::time::Duration;

use crate::inqueue::{InqueueReceiver, PopError};

/// A place items come from, one at a time: the inqueue itself, or an adapter in front of it.
///
/// Adapters wrap another source, so that the learner has one loop for all of them. An implementer runs the
/// functions of [`source_contract`](crate::source_contract) in its tests.
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
    /// What comes.
    type Item;

    /// The next item.
    ///
    /// *Blocks* for at most `timeout`; what is already there is given even when it is zero.
    ///
    /// # Errors
    /// [`NextError`]. After a timeout the next call resumes where this one stopped; nothing is lost.
    fn next(&mut self, timeout: Duration) -> Result<Self::Item, NextError>;

    /// Items waiting behind this source now, as far as it can tell.
    fn backlog(&self) -> usize;

    /// Everything still held, without waiting, in the order it came: called when a run ends, so that nothing
    /// disappears uncounted.
    fn drain(&mut self) -> Vec<Self::Item>;
}

/// Why a source gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// Nothing came in time; ask again.
    #[error("no batch came within the timeout")]
    TimedOut,
    /// Nothing will come any more.
    #[error("closed: all senders were dropped or the run is ending")]
    Closed,
    /// What came could not be used.
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
