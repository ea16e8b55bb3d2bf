//! Outcomes of a step of the loop.

use pronk_metrics::Steps;

use super::{BatchName, Diagnosis, NonFinite};

/// The outcome of a step of the loop.
#[derive(Debug)]
pub enum StepOutcome {
    /// No train batch came in time.
    NotReady(Diagnosis),
    /// One pass was completed.
    Trained(TrainedPass),
    /// A batch with non-finite numbers was quarantined, after the updates of its finite minibatches, if any.
    Quarantined(Quarantine),
    /// The loop has ended without a failure.
    Closed(ClosedBy),
}

/// One completed pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainedPass {
    /// Steps of the batch.
    pub steps: Steps,
    /// The number of the pass over the batch, from 1.
    pub number: u32,
    /// Newest published version of the weights.
    pub version: u64,
}

/// A quarantined batch.
#[derive(Debug, thiserror::Error)]
#[error("update {update} on {batch}: {cause}")]
pub struct Quarantine {
    /// The number of the update in this run, from 1.
    pub update: u64,
    /// Its fragments.
    pub batch: BatchName,
    /// The non-finite value.
    #[source]
    pub cause: NonFinite,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// No more train batches can come.
    Source,
    /// The receiver of the outqueue was dropped.
    Outqueue,
    /// The shutdown guard was dropped.
    ShutdownGuard,
    /// The journal has ended it.
    Journal,
}
