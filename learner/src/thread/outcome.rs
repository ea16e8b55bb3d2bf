//! What one step of the loop can come to.

use pronk_metrics::Steps;

use super::{BatchName, Diagnosis, NonFinite};

/// What one step of the loop came to.
#[derive(Debug)]
pub enum StepOutcome {
    /// No train batch came in time; nothing but the queue timer changed.
    NotReady(Diagnosis),
    /// One pass was completed.
    Trained(TrainedPass),
    /// A batch with non-finite numbers was quarantined, without an update.
    Quarantined(Quarantine),
    /// The loop is over; nothing went wrong.
    Closed(ClosedBy),
}

/// One completed pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainedPass {
    /// Steps of the batch.
    pub steps: Steps,
    /// Which pass over the batch it was, counted from 1.
    pub number: u32,
    /// Newest published version of the weights.
    pub version: u64,
}

/// A batch that was taken out of the run.
#[derive(Debug, thiserror::Error)]
#[error("update {update} on {batch}: {cause}")]
pub struct Quarantine {
    /// Which update of this run was being computed, counted from 1.
    pub update: u64,
    /// Which data it was.
    pub batch: BatchName,
    /// What was not finite.
    #[source]
    pub cause: NonFinite,
}

/// What ended the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// No train batch can come any more.
    Source,
    /// The receiver of the outqueue was dropped.
    Outqueue,
    /// The owner dropped the run.
    ShutdownGuard,
}
