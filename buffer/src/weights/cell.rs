use super::Versioned;
use super::sync::atomic::{AtomicU64, Ordering};
use super::sync::{Arc, ArcSwap};

/// A reader's end; each worker has a clone.
#[derive(Debug)]
pub struct WeightCell<W> {
    current: Arc<ArcSwap<Versioned<W>>>,
    version: VersionReader,
}

impl<W> WeightCell<W> {
    pub(super) fn of(first: Versioned<W>) -> Self {
        let version = VersionReader { count: Arc::new(AtomicU64::new(first.version)) };
        Self { current: Arc::new(ArcSwap::from_pointee(first)), version }
    }

    /// Puts newer weights there, and returns what was there.
    pub(super) fn replace(&self, newer: Arc<Versioned<W>>) -> Arc<Versioned<W>> {
        let version = newer.version;
        let replaced = self.current.swap(newer);
        // After the swap, so that a reader of the new number finds the new weights.
        self.version.count.store(version, Ordering::Release);
        replaced
    }

    /// The newest weights, as an immutable snapshot.
    pub fn load(&self) -> Arc<Versioned<W>> {
        self.current.load_full()
    }

    /// The newest version. This is far cheaper than [`load`](Self::load): load only when it changes.
    pub fn version(&self) -> u64 {
        self.version.current()
    }

    /// A reader of the version alone.
    pub fn version_reader(&self) -> VersionReader {
        self.version.clone()
    }
}

impl<W> Clone for WeightCell<W> {
    fn clone(&self) -> Self {
        Self { current: Arc::clone(&self.current), version: self.version.clone() }
    }
}

/// Reads the newest version of a [`WeightCell`] of any type.
///
/// ```
/// let (mut publisher, cell) = pronk_buffer::weight_cell("weights");
/// let version = cell.version_reader();
/// publisher.publish("newer weights");
/// assert_eq!(version.current(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct VersionReader {
    count: Arc<AtomicU64>,
}

impl VersionReader {
    /// The newest version.
    pub fn current(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}
