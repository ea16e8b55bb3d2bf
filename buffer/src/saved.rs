//! What a chain of sources holds, for a checkpoint.

use pronk_metrics::{StepTicket, Steps};
use serde::{Deserialize, Serialize};

use crate::batch::copy_without_ticket;
use crate::{BatchError, MultiAgentBatch, Pool};

/// What a chain of sources holds between two train batches, besides the items that are ready: each adapter
/// adds its part in [`Source::save`](crate::Source::save). Batches are copies.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedSource {
    /// The number of the checkpoint.
    pub number: u64,
    /// Fragments that the workers made and nobody took, in the order of their turns.
    pub queued: Vec<SavedBatch>,
    /// Fragments that were taken, of a train batch that is not complete.
    pub partial: Vec<SavedBatch>,
    /// Train batches of an earlier checkpoint that the run has not come to yet.
    pub batches: Vec<SavedBatch>,
    /// The replay buffer, if there is one.
    pub replay: Option<SavedReplay>,
    #[serde(skip, default = "no_pool")]
    pool: Pool,
}

/// A replay buffer.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedReplay {
    /// The stored fragments, by place.
    pub stored: Vec<SavedBatch>,
    /// The place of the oldest, once all are taken.
    pub oldest: usize,
    /// What is left of the proportion for the newest fragment.
    pub left: Option<f64>,
    /// Random numbers drawn so far.
    pub draws: u64,
}

/// A copy of a batch.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedBatch {
    /// The samples, with their moments.
    pub batch: MultiAgentBatch,
    /// The steps of its ticket: those of it that are in flight.
    pub in_flight: Option<Steps>,
}

impl SavedBatch {
    /// A copy of a batch, in storage of `pool`.
    ///
    /// # Errors
    /// A batch without samples.
    pub fn copy(batch: &MultiAgentBatch, pool: &Pool) -> Result<Self, BatchError> {
        let mut copy = copy_without_ticket(batch, pool)?;
        for moments in batch.moments() {
            copy = copy.with_moments(moments.clone());
        }
        Ok(Self { batch: copy, in_flight: batch.ticket_steps() })
    }

    /// The batch as it was, with its part of `in_flight`, the ticket of all restored steps.
    pub fn restore(self, in_flight: &mut StepTicket) -> MultiAgentBatch {
        match self.in_flight {
            Some(steps) => self.batch.with_ticket(in_flight.split_off(steps)),
            None => self.batch,
        }
    }
}

impl SavedSource {
    /// Nothing yet, of the checkpoint `number`. Storage of copies comes from `pool`.
    pub fn new(number: u64, pool: Pool) -> Self {
        Self { number, queued: Vec::new(), partial: Vec::new(), batches: Vec::new(), replay: None, pool }
    }

    /// The pool of the copies.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The steps of all tickets.
    pub fn in_flight(&self) -> Steps {
        let batches = [&self.queued, &self.partial, &self.batches];
        batches.into_iter().flatten().filter_map(|saved| saved.in_flight).sum()
    }
}

/// Why a source could not be saved.
#[derive(Debug, thiserror::Error)]
#[error("the fragments ahead of the learner could not be saved: {why}")]
pub struct CannotSave {
    /// Why.
    pub why: String,
}

impl CannotSave {
    /// For this reason.
    pub fn because(why: impl ToString) -> Self {
        Self { why: why.to_string() }
    }
}

fn no_pool() -> Pool {
    Pool::new(0)
}
