//! One pass: checks the batch, calls the learner, and measures the time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::debug_span;

use super::failure::panic_text;
use super::{Clock, NonFinite};
use crate::{LearnError, Learned, Learner, TrainBatch};

/// Why a pass failed.
pub(super) enum PassError {
    NonFinite(NonFinite),
    Failed(LearnError),
    Panicked(String),
}

impl PassError {
    /// Updates that the pass made before.
    pub(super) fn updates(&self) -> u64 {
        match self {
            Self::NonFinite(NonFinite::Update(error)) | Self::Failed(error) => error.updates(),
            Self::NonFinite(NonFinite::Batch { .. }) | Self::Panicked(_) => 0,
        }
    }
}

/// Learns from `batch`; returns the result and the seconds it took.
pub(super) fn learn(
    learner: &mut dyn Learner,
    batch: TrainBatch<'_>,
    number: u32,
    clock: &mut dyn Clock,
) -> (Result<Learned, PassError>, f64) {
    if number == 1
        && let Some((policy, error)) =
            batch.samples.policies().find_map(|(policy, part)| Some((policy.clone(), part.check_finite().err()?)))
    {
        return (Err(PassError::NonFinite(NonFinite::Batch { policy, error })), 0.0);
    }
    let started = clock.now_secs();
    // After a panic the learner is never used again.
    let caught = debug_span!("grad").in_scope(|| catch_unwind(AssertUnwindSafe(|| learner.learn(batch))));
    let grad_secs = clock.now_secs() - started;
    let result = match caught {
        Ok(Ok(learned)) => Ok(learned),
        Ok(Err(error)) if error.is_non_finite() => Err(PassError::NonFinite(NonFinite::Update(error))),
        Ok(Err(error)) => Err(PassError::Failed(error)),
        Err(payload) => Err(PassError::Panicked(panic_text(&*payload))),
    };
    (result, grad_secs)
}
