//! Shared values.

use std::sync::{Mutex, PoisonError};

pub(crate) use loom::sync::atomic;
pub(crate) use std::sync::Arc;

use atomic::{AtomicUsize, Ordering};

/// As `arc_swap::ArcSwap`: a load takes part in no order but that with the swap whose value it finds.
#[derive(Debug)]
pub(crate) struct ArcSwap<T> {
    /// The index of the current value among all that there were.
    current: AtomicUsize,
    values: Mutex<Vec<Arc<T>>>,
}

impl<T> ArcSwap<T> {
    /// A cell that holds this.
    pub(crate) fn from_pointee(value: T) -> Self {
        Self { current: AtomicUsize::new(0), values: Mutex::new(vec![Arc::new(value)]) }
    }

    /// What the cell holds.
    pub(crate) fn load_full(&self) -> Arc<T> {
        let current = self.current.load(Ordering::Acquire);
        Arc::clone(&self.values.lock().unwrap_or_else(PoisonError::into_inner)[current])
    }

    /// Puts another value there, and returns what was there.
    pub(crate) fn swap(&self, new: Arc<T>) -> Arc<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let index = values.len();
        values.push(new);
        drop(values);
        let before = self.current.swap(index, Ordering::AcqRel);
        Arc::clone(&self.values.lock().unwrap_or_else(PoisonError::into_inner)[before])
    }
}
