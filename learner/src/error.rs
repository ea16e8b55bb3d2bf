//! Errors of learning.

use pronk_buffer::{BatchError, MultiAgentBatch};
use pronk_metrics::PolicyId;
use pronk_policy::PolicyError;

/// Why an update failed, or a part of the learner could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// Two slices do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The batch is invalid.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// An error of the network or the action distribution.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A number of the update is NaN or infinite; the update was not made.
    #[error("{what} is not finite ({at}); this update was not made")]
    NonFinite {
        /// Which number.
        what: &'static str,
        /// Where, and its value.
        at: String,
    },
    /// The optimiser's step made weights non-finite. It cannot be undone, so the run ends.
    #[error(
        "the step of update {update}, at a learning rate of {lr}, made {source}; lower the learning rate and resume from \
         the last checkpoint"
    )]
    Diverged {
        /// The number of the update, over the learner's life.
        update: u64,
        /// The learning rate of the step.
        lr: f64,
        /// Which weight, and its value.
        source: PolicyError,
    },
    /// An error of one of several policies.
    #[error("policy '{policy}': {source}")]
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// The error.
        source: Box<LearnError>,
    },
    /// A pass failed after some of its minibatches had changed the weights.
    #[error("after update {updates} of the same pass: {source}")]
    AfterUpdates {
        /// Updates that were made before.
        updates: u64,
        /// The error of the next one.
        source: Box<LearnError>,
    },
    /// An invalid setting.
    #[error("{reason}")]
    Config {
        /// The setting, its value, and the reason.
        reason: String,
    },
    /// An optimiser state that does not fit.
    #[error("the optimiser state cannot be used: {reason}")]
    OptimizerState {
        /// The reason.
        reason: String,
    },
    /// An algorithm's state that does not fit.
    #[error("the algorithm's state cannot be used: {reason}")]
    AlgorithmState {
        /// The reason.
        reason: String,
    },
    /// A train batch or saved state of policies that the learner does not train.
    #[error("the learner trains {expected:?}, and what it was given is of {got:?}")]
    OtherPolicies {
        /// The trained policies.
        expected: Vec<PolicyId>,
        /// The policies of the batch or state.
        got: Vec<PolicyId>,
    },
}

impl LearnError {
    /// A train batch with data of other policies, or with none.
    pub(crate) fn other_policies<'a>(
        expected: impl IntoIterator<Item = &'a PolicyId>,
        batch: &MultiAgentBatch,
    ) -> LearnError {
        LearnError::OtherPolicies {
            expected: expected.into_iter().cloned().collect(),
            got: batch.policies().map(|(policy, _)| policy.clone()).collect(),
        }
    }

    /// Whether a non-finite number was found, for which the batch is quarantined.
    pub fn is_non_finite(&self) -> bool {
        match self {
            LearnError::NonFinite { .. } => true,
            LearnError::OfPolicy { source, .. } | LearnError::AfterUpdates { source, .. } => source.is_non_finite(),
            _ => false,
        }
    }

    /// Updates of the failed pass that were made nevertheless.
    pub fn updates(&self) -> u64 {
        match self {
            LearnError::AfterUpdates { updates, .. } => *updates,
            LearnError::OfPolicy { source, .. } => source.updates(),
            _ => 0,
        }
    }

    /// The error of a pass in which `updates` updates were made before.
    pub(crate) fn after(self, updates: u64) -> LearnError {
        match updates {
            0 => self,
            updates => LearnError::AfterUpdates { updates, source: Box::new(self) },
        }
    }
}

/// A slice whose length does not fit the stated shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has {got} elements where {shape} needs {expected}")]
pub struct ShapeError {
    /// The slice.
    pub name: &'static str,
    /// The expected shape, as text: `[steps, columns] = [7, 4]`.
    pub shape: String,
    /// Elements of that shape.
    pub expected: usize,
    /// Elements of the slice.
    pub got: usize,
}

impl ShapeError {
    /// Checks that `got` elements fill `[steps, columns]`.
    pub(crate) fn check(name: &'static str, got: usize, steps: usize, columns: usize) -> Result<(), ShapeError> {
        let shape = || format!("[steps, columns] = [{steps}, {columns}]");
        ShapeError::check_shape(name, got, steps.saturating_mul(columns), shape)
    }

    /// Checks that `got` is `expected`, the number of elements of `shape`.
    pub(crate) fn check_shape(
        name: &'static str,
        got: usize,
        expected: usize,
        shape: impl FnOnce() -> String,
    ) -> Result<(), ShapeError> {
        if got == expected {
            return Ok(());
        }
        Err(ShapeError { name, shape: shape(), expected, got })
    }
}
