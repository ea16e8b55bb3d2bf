use std::fmt;

use pronk_buffer::{BatchError, MultiAgentBatch, Tag};
use pronk_metrics::PolicyId;

use crate::LearnError;

/// The number of fragments that an error names.
pub(crate) const TAGS_NAMED: usize = 4;

/// Why a batch was quarantined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NonFinite {
    /// The batch has a non-finite value.
    #[error("the batch of '{policy}' is not finite: {error}")]
    Batch {
        /// The policy of the samples.
        policy: PolicyId,
        /// The value.
        error: BatchError,
    },
    /// The loss or a gradient was not finite, so that update was not made. The pass's updates before it, of
    /// other minibatches or policies, remain.
    #[error("the update is not finite: {0}")]
    Update(LearnError),
}

impl NonFinite {
    /// The reason in the step ledger for the batch's steps.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Batch { .. } => "non_finite_batch",
            Self::Update(_) => "non_finite_loss",
        }
    }
}

/// The fragments of a batch, for logs and errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchName(Vec<(PolicyId, Vec<Tag>)>);

impl BatchName {
    pub(crate) fn of(batch: &MultiAgentBatch) -> Self {
        Self(batch.policies().map(|(policy, part)| (policy.clone(), part.tags().to_vec())).collect())
    }

    /// The tags of the fragments, per policy.
    pub fn tags(&self) -> &[(PolicyId, Vec<Tag>)] {
        &self.0
    }
}

impl fmt::Display for BatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("batch [")?;
        for (index, (policy, tags)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{policy}:")?;
            for tag in tags.iter().take(TAGS_NAMED) {
                write!(f, " worker {} incarnation {} fragment {},", tag.worker, tag.incarnation, tag.slot)?;
            }
            match tags.len() {
                0 => f.write_str(" untagged")?,
                n if n > TAGS_NAMED => write!(f, " and {} more", n - TAGS_NAMED)?,
                _ => {}
            }
        }
        f.write_str("]")
    }
}
