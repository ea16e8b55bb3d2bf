//! Versioned weights for the workers: the newest win, and reading never blocks.

use std::collections::VecDeque;
use std::fmt;

use pronk_metrics::NormalizerMoments;

use crate::sync::{self, Arc};

pub use cell::{VersionReader, WeightCell};

mod cell;
#[cfg(test)]
mod tests;

/// Makes a cell that holds `initial` as version 0.
///
/// ```
/// let (mut publisher, cell) = pronk_buffer::weight_cell(vec![0.0_f32; 4]);
/// let old = cell.load();
/// assert_eq!(publisher.publish(vec![1.0; 4]), 1);
/// assert_eq!(old.weights, [0.0; 4]); // a reader keeps what it loaded
/// assert_eq!(cell.load().version, 1);
/// ```
pub fn weight_cell<W>(initial: W) -> (WeightPublisher<W>, WeightCell<W>) {
    weight_cell_from(Versioned::new(0, initial))
}

/// Makes a cell that holds `first`, with the moments that a resumed run continues from.
pub fn weight_cell_from<W>(first: Versioned<W>) -> (WeightPublisher<W>, WeightCell<W>) {
    let moments = Arc::clone(&first.moments);
    let cell = WeightCell::of(first);
    (WeightPublisher { cell: cell.clone(), moments, retired: VecDeque::new(), on_publish: None }, cell)
}

/// Weights with their version, and what their fragments are normalised by; immutable once published.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<W> {
    /// The number of the publication; 0 for the initial weights.
    pub version: u64,
    /// The weights.
    pub weights: W,
    /// The moments that normalise the fragments sampled with these weights.
    pub moments: Arc<NormalizerMoments>,
}

impl<W> Versioned<W> {
    /// Weights of a run that has no moments yet, or normalises nothing.
    pub fn new(version: u64, weights: W) -> Self {
        Self { version, weights, moments: Arc::default() }
    }
}

/// The learner's end, which alone publishes.
pub struct WeightPublisher<W> {
    cell: WeightCell<W>,
    /// Those of the next publication.
    moments: Arc<NormalizerMoments>,
    /// Replaced snapshots, oldest first, for their memory.
    retired: VecDeque<Arc<Versioned<W>>>,
    on_publish: Option<Box<OnPublish<W>>>,
}

type OnPublish<W> = dyn FnMut(&Arc<Versioned<W>>) + Send;

impl<W: fmt::Debug> fmt::Debug for WeightPublisher<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightPublisher").field("cell", &self.cell).finish_non_exhaustive()
    }
}

/// Every publication retires one snapshot, so a few places suffice to find an unread one, however many others
/// slow readers hold; those pushed out are freed by their last reader.
const MAX_RETIRED: usize = 4;

impl<W> WeightPublisher<W> {
    /// Merges the moments of a fragment into those of the next publication.
    pub fn merge(&mut self, moments: &NormalizerMoments) {
        Arc::make_mut(&mut self.moments).merge(moments);
    }

    /// The moments of the next publication, as merged so far.
    pub fn moments(&self) -> Arc<NormalizerMoments> {
        Arc::clone(&self.moments)
    }

    /// Continues with the merged moments of a checkpoint, which may be newer than those last published.
    pub fn resume(&mut self, moments: Arc<NormalizerMoments>) {
        self.moments = moments;
    }

    /// Publishes `weights`, with the moments merged so far, and returns their version. Never waits for
    /// readers.
    pub fn publish(&mut self, weights: W) -> u64 {
        self.publish_with(|_| weights)
    }

    /// As [`publish`](Self::publish), with the memory of a snapshot that no reader holds, if there is one, so
    /// that a steady run allocates no weights: `write` overwrites and returns it.
    pub fn publish_with(&mut self, write: impl FnOnce(Option<W>) -> W) -> u64 {
        let recycled = self.take_unread();
        let version = self.version() + 1;
        self.replace(version, write(recycled));
        version
    }

    fn replace(&mut self, version: u64, weights: W) {
        let moments = Arc::clone(&self.moments);
        let published = Arc::new(Versioned { version, weights, moments });
        if let Some(on_publish) = &mut self.on_publish {
            on_publish(&published);
        }
        let replaced = self.cell.replace(published);
        self.retired.push_back(replaced);
        if self.retired.len() > MAX_RETIRED {
            self.retired.pop_front();
        }
    }

    /// Publishes a snapshot of another cell under its own version, with the memory of one that no reader
    /// holds. The versions of a cell must rise.
    pub fn publish_copy(&mut self, version: u64, moments: Arc<NormalizerMoments>, write: impl FnOnce(Option<W>) -> W) {
        let recycled = self.take_unread();
        self.moments = moments;
        self.replace(version, write(recycled));
    }

    /// Calls `see` with every snapshot that is published from now on.
    pub(crate) fn on_publish(&mut self, see: impl FnMut(&Arc<Versioned<W>>) + Send + 'static) {
        self.on_publish = Some(Box::new(see));
    }

    /// The current version.
    pub fn version(&self) -> u64 {
        self.cell.version()
    }

    /// A reader's end.
    pub fn cell(&self) -> WeightCell<W> {
        self.cell.clone()
    }

    fn take_unread(&mut self) -> Option<W> {
        // A retired snapshot is no longer in the cell: with a count of 1 nothing else can reach it.
        let unread = self.retired.iter().position(|snapshot| Arc::strong_count(snapshot) == 1)?;
        let snapshot = self.retired.remove(unread)?;
        Arc::into_inner(snapshot).map(|versioned| versioned.weights)
    }
}
