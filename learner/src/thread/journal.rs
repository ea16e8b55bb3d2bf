//! [`Journal`]: follows a learner loop, to record a run or to compare it with a record.

use std::error::Error;
use std::ops::ControlFlow;

use pronk_buffer::{MultiAgentBatch, Tag};
use pronk_metrics::ByPolicy;
use pronk_policy::Params;

/// Follows the steps of a [`LearnerLoop`](crate::LearnerLoop): to record a run, or to compare it with a record.
///
/// ```
/// use std::error::Error;
/// use std::ops::ControlFlow;
///
/// use pronk_learner::{Journal, JournalEntry};
///
/// /// Ends the loop after so many updates.
/// struct Until(u64);
///
/// impl Journal for Until {
///     fn note(&mut self, entry: JournalEntry<'_>) -> Result<ControlFlow<()>, Box<dyn Error + Send + Sync>> {
///         Ok(if entry.updates < self.0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
///     }
/// }
/// # let _ = Until(7);
/// ```
pub trait Journal: Send {
    /// Called after every pass, once its weights are published, and after every quarantine. `Break` ends the
    /// loop.
    ///
    /// # Errors
    /// Any reason to end the run.
    fn note(&mut self, entry: JournalEntry<'_>) -> Result<ControlFlow<()>, Box<dyn Error + Send + Sync>>;
}

/// A pass, or a quarantined batch.
#[derive(Debug)]
pub struct JournalEntry<'a> {
    /// The fragments of the batch, replayed ones included, if this was its first pass.
    pub fragments: &'a [Tag],
    /// Whether the batch was quarantined instead of learned from.
    pub is_quarantined: bool,
    /// Updates of the run so far.
    pub updates: u64,
    /// The newest published version.
    pub version: u64,
    /// The weights.
    pub weights: ByPolicy<&'a Params>,
}

/// The fragments of a batch, replayed ones included.
pub(super) fn fragments_of(batch: &MultiAgentBatch) -> Vec<Tag> {
    batch.policies().flat_map(|(_, part)| part.tags()).copied().collect()
}
