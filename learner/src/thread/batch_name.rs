use std::fmt;

use pronk_buffer::{BatchError, MultiAgentBatch, Tag};
use pronk_metrics::PolicyId;

use crate::LearnError;

/// How many fragments of a batch an error names.
pub(crate) const TAGS_NAMED: usize = 4;

/// What made a pass unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NonFinite {
    /// The batch itself held a value that is not finite.
    #[error("the batch of '{policy}' is not finite: {error}")]
    Batch {
        /// The policy whose samples they are.
        policy: PolicyId,
        /// Which value.
        error: BatchError,
    },
    /// The loss or a gradient was not finite; that update was not made. Those that the pass made before it,
    /// of other minibatches or policies, stay.
    #[error("the update is not finite: {0}")]
    Update(LearnError),
}

impl NonFinite {
    /// The reason the batch's steps are counted under in the step ledger.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Batch { .. } => "non_finite_batch",
            Self::Update(_) => "non_finite_loss",
        }
    }
}

/// The fragments of a batch, for log and error texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchName(Vec<(PolicyId, Vec<Tag>)>);

impl BatchName {
    pub(crate) fn of(batch: &MultiAgentBatch) -> Self {
        Self(batch.policies().map(|(policy, part)| (policy.clone(), part.tags().to_vec())).collect())
    }

    /// Per policy, the tags of the fragments.
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
                write!(f, " worker {} incarnation {} fragment {},", tag.worker, tag.incarnation, tag.sequence)?;
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
