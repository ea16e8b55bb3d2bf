//! [`UpdateRhythm`]: how often a run updates its weights.

use std::num::NonZeroU64;

/// How often a run updates its weights, and how old its data is: the source of unset settings.
///
/// It assumes one agent and all passes over every batch. With several agents batches vary in width, behind
/// stacks the first ones have fewer passes, and under deterministic admission replayed fragments come on top:
/// set the settings there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateRhythm {
    /// Updates from all passes over one train batch.
    pub per_train_batch: NonZeroU64,
    /// Updates from `num_sgd_iter * minibatch_buffer_size` passes.
    pub per_buffer: NonZeroU64,
    /// Updates that are made while a fragment is sampled and waits, as far as the settings tell.
    pub lag: u64,
}
