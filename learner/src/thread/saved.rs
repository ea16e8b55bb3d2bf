//! A learner loop between two passes, for a checkpoint.

use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{Pool, SavedBatch, SavedRing, SavedSource, Versioned};
use pronk_metrics::{ByPolicy, NormalizerMoments, StepTotals};
use pronk_policy::Params;
use serde::{Deserialize, Serialize};

use crate::LearnerState;

/// Storage of earlier cuts, to be used again.
#[derive(Debug)]
pub struct CutStorage {
    /// Of batches.
    pub batches: Pool,
    /// Of the learner's states.
    pub learners: ByPolicy<LearnerState>,
}

impl CutStorage {
    /// No storage yet.
    pub fn none() -> Self {
        Self { batches: Pool::new(0), learners: ByPolicy::new() }
    }
}

/// Everything on the learner's side of a run: its learner, its loop, and what waits for it.
#[derive(Debug)]
pub struct LearnerCut {
    /// The learner, by policy.
    pub learners: ByPolicy<LearnerState>,
    /// The loop.
    pub learner_loop: SavedLoop,
    /// The train batches of the minibatch buffer, by slot, and those that are ready behind it.
    pub batches: Vec<SavedBatch>,
    /// What the sources hold.
    pub source: SavedSource,
    /// The newest published weights, which differ from the learner's if it publishes only now and then.
    pub published: Arc<Versioned<ByPolicy<Params>>>,
    /// The moments of the next publication.
    pub moments: Arc<NormalizerMoments>,
    /// The step ledger at this moment.
    pub steps: StepTotals,
    /// How long the loop was busy with it.
    pub took: Duration,
}

/// The counters of a learner loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedLoop {
    /// Completed passes.
    pub passes: u64,
    /// Updates.
    pub updates: u64,
    /// Updates since the last publication.
    pub updates_unpublished: u64,
    /// Consecutive quarantined batches.
    pub quarantined_in_a_row: u32,
    /// Quarantined batches.
    pub num_quarantined: u64,
    /// The last of them.
    pub last_quarantine: Option<String>,
    /// The minibatch buffer.
    pub ring: SavedRing,
}
