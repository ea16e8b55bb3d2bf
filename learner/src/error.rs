//! What can go wrong in an update.

use pronk_buffer::{BatchError, MultiAgentBatch};
use pronk_metrics::PolicyId;
use pronk_policy::PolicyError;

/// Why a batch was not learned from, or a part of the learner could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// Two slices do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The batch itself is wrong.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The network or the action distribution refused.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A number of the update came out NaN or infinite; the update was not made.
    #[error("{what} is not finite ({at}); this update was not made")]
    NonFinite {
        /// Which number.
        what: &'static str,
        /// Where, and what it was.
        at: String,
    },
    /// The optimiser's step left weights that are not finite: they cannot be taken back, so the run ends.
    #[error(
        "the step of update {update}, at a learning rate of {lr}, made {source}; lower the learning rate and resume from \
         the last checkpoint"
    )]
    Diverged {
        /// Which update, counted from 1 over the learner's life.
        update: u64,
        /// The learning rate of the step.
        lr: f64,
        /// Which weight, and what it is now.
        source: PolicyError,
    },
    /// What went wrong with one of several policies.
    #[error("policy '{policy}': {source}")]
    OfPolicy {
        /// The policy.
        policy: PolicyId,
        /// What went wrong.
        source: Box<LearnError>,
    },
    /// A setting that cannot work.
    #[error("{reason}")]
    Config {
        /// Which setting, its value, and why it cannot work.
        reason: String,
    },
    /// Saved optimiser state that does not belong here.
    #[error("the optimiser state cannot be used: {reason}")]
    OptimizerState {
        /// What is wrong with it.
        reason: String,
    },
    /// Saved numbers of an algorithm that do not belong here.
    #[error("the algorithm's state cannot be used: {reason}")]
    AlgorithmState {
        /// What is wrong with it.
        reason: String,
    },
    /// A train batch or a saved state is of policies that the learner does not train.
    #[error("the learner trains {expected:?}, and what it was given is of {got:?}")]
    OtherPolicies {
        /// The policies that the learner trains.
        expected: Vec<PolicyId>,
        /// Those that it was given data or state of.
        got: Vec<PolicyId>,
    },
}

impl LearnError {
    /// A train batch that has data for other policies than the learner trains, or none at all.
    pub(crate) fn other_policies<'a>(
        expected: impl IntoIterator<Item = &'a PolicyId>,
        batch: &MultiAgentBatch,
    ) -> LearnError {
        LearnError::OtherPolicies {
            expected: expected.into_iter().cloned().collect(),
            got: batch.policies().map(|(policy, _)| policy.clone()).collect(),
        }
    }

    /// Whether the batch led to a non-finite number, for which it is quarantined.
    pub fn is_non_finite(&self) -> bool {
        match self {
            LearnError::NonFinite { .. } => true,
            LearnError::OfPolicy { source, .. } => source.is_non_finite(),
            _ => false,
        }
    }
}

/// A slice whose length does not fit the shape that its caller stated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has {got} elements where {shape} needs {expected}")]
pub struct ShapeError {
    /// Which slice.
    pub name: &'static str,
    /// The expected shape, as text: `[steps, columns] = [7, 4]`.
    pub shape: String,
    /// How many elements that shape has.
    pub expected: usize,
    /// How many came.
    pub got: usize,
}

impl ShapeError {
    /// Ok when `got` elements fill a `[steps, columns]` slice.
    pub(crate) fn check(name: &'static str, got: usize, steps: usize, columns: usize) -> Result<(), ShapeError> {
        let shape = || format!("[steps, columns] = [{steps}, {columns}]");
        ShapeError::check_shape(name, got, steps.saturating_mul(columns), shape)
    }

    /// Ok when `got` is `expected`, the number of elements of `shape`.
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
