//! What follows a pass: its weights are published, and the journal notes it.

use pronk_buffer::{Source, Tag};
use tracing::debug_span;

use super::LearnerLoop;
use crate::HoldsBatch;
use crate::thread::failure::LearnerLoopError;
use crate::thread::journal::JournalEntry;
use crate::thread::parts::LearnerThreadState;

impl<S: Source<Item: HoldsBatch>> LearnerLoop<S> {
    /// Publishes the weights if enough updates were made.
    pub(super) fn publish_when_due(&mut self, updates: u64) {
        self.updates_unpublished += updates;
        if self.updates_unpublished < self.config.broadcast_interval.get() {
            return;
        }
        self.state.enter(LearnerThreadState::Publishing);
        let _publish = debug_span!("publish").entered();
        self.updates_unpublished = 0;
        let weights = self.learner.weights();
        let version = self.publisher.publish_with(|retired| match retired {
            Some(mut retired) => {
                for (policy, params) in &weights {
                    match retired.get_mut(policy) {
                        Some(retired) => retired.copy_from(params),
                        None => drop(retired.insert(policy.clone(), (*params).clone())),
                    }
                }
                retired
            }
            None => weights.iter().map(|(policy, params)| (policy.clone(), (*params).clone())).collect(),
        });
        self.learner.published(version);
    }

    /// Makes an entry in the journal; returns whether the loop goes on.
    pub(super) fn note(&mut self, fragments: &[Tag], is_quarantined: bool) -> Result<bool, LearnerLoopError> {
        let Some(journal) = &mut self.journal else { return Ok(true) };
        let (updates, version) = (self.updates, self.publisher.version());
        let entry = JournalEntry { fragments, is_quarantined, updates, version, weights: self.learner.weights() };
        let noted = journal.note(entry).map_err(|source| LearnerLoopError::Journal { update: updates, source })?;
        Ok(noted.is_continue())
    }
}
