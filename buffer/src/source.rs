//! Where the learner takes batches from.

use std::error::Error;
use std::time::Duration;

use crate::inqueue::{InqueueReceiver, PopError};
use crate::saved::{CannotSave, SavedSource};

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

    /// Adds what it holds to a checkpoint, and shows `ahead` the items that it would return without waiting
    /// for anyone else, in order. It loses nothing by this. Called while the learner asks for nothing.
    ///
    /// # Errors
    /// What cannot be saved, and why. By default, everything: an adapter has to save what it wraps.
    fn save(&mut self, _saved: &mut SavedSource, _ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        Err(CannotSave::because("a source of this run does not implement `Source::save`"))
    }
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

    fn save(&mut self, saved: &mut SavedSource, ahead: &mut dyn FnMut(&S::Item)) -> Result<(), CannotSave> {
        (**self).save(saved, ahead)
    }
}

/// Why a source returned nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// A timeout; ask again.
    #[error("no batch came within the timeout")]
    TimedOut,
    /// The run rests between two iterations, which is no fault of the workers; ask again.
    #[error("the run rests until its next iteration begins")]
    Resting,
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

    /// Nothing: what is in the queue is in flight, and lost to a resumed run.
    fn save(&mut self, _saved: &mut SavedSource, _ahead: &mut dyn FnMut(&T)) -> Result<(), CannotSave> {
        Ok(())
    }
}
