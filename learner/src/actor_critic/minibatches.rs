//! Minibatches.

use std::num::NonZeroUsize;

use pronk_buffer::{Pool, SampleBatch};
use pronk_policy::Rng;

use crate::LearnError;

/// Cuts batches into minibatches of whole columns, shuffled for every pass.
pub(super) struct Minibatches {
    /// Agent-steps of a minibatch; `None` for whole batches.
    size: Option<NonZeroUsize>,
    seed: u64,
    /// Columns of the batch in the order of this pass.
    order: Vec<usize>,
    pool: Pool,
}

impl Minibatches {
    pub(super) fn new(size: Option<NonZeroUsize>, seed: u64) -> Self {
        // One for whole minibatches, one for the smaller last one.
        Self { size, seed, order: Vec::new(), pool: Pool::new(2) }
    }

    /// Shuffles the columns and returns the number in each minibatch; `None` for all. The order depends on
    /// the seed and the number of updates alone, so a checkpoint needs no state of it.
    pub(super) fn begin(&mut self, batch: &SampleBatch, updates: u64) -> Option<usize> {
        let shape = batch.shape();
        let columns = (self.size?.get() / shape.steps).max(1);
        if columns >= shape.columns {
            return None;
        }
        self.order.clear();
        self.order.extend(0..shape.columns);
        let mut rng = Rng::stream(self.seed, &[updates]);
        for last in (1..shape.columns).rev() {
            self.order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        Some(columns)
    }

    /// The columns of the minibatch that begins at index `first` of the order.
    pub(super) fn columns(&self, first: usize, columns: usize) -> &[usize] {
        &self.order[first..(first + columns).min(self.order.len())]
    }

    /// The minibatch of these columns.
    pub(super) fn take(&self, batch: &SampleBatch, columns: &[usize]) -> Result<SampleBatch, LearnError> {
        Ok(batch.select_columns(columns, &self.pool)?)
    }
}
