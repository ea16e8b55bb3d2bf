//! The loop as a value, and its continuation from one.

use std::time::Instant;

use pronk_buffer::{CannotSave, SavedBatch, SavedSource, Source};
use pronk_metrics::catch;

use super::LearnerLoop;
use crate::HoldsBatch;
use crate::thread::saved::{CutStorage, LearnerCut, SavedLoop};

impl<S: Source<Item: HoldsBatch>> LearnerLoop<S> {
    /// Everything on this side of the run, for the checkpoint `number`: copies, in the storage of earlier
    /// ones. Call it between two steps.
    ///
    /// # Errors
    /// A source that cannot be saved.
    pub fn cut(&mut self, number: u64, storage: CutStorage) -> Result<LearnerCut, CannotSave> {
        let began = Instant::now();
        let CutStorage { batches: ref pool, learners } = storage;
        let mut source = SavedSource::new(number, pool.clone());
        let mut ready = Vec::new();
        let copy = |item: &S::Item| SavedBatch::copy(item.batch().samples, pool);
        // Before the ledger is read, because a source may wait for a loader.
        self.held.ring.source_mut().save(&mut source, &mut |item| ready.push(copy(item)))?;
        let (ring, shown) = self.held.ring.save();
        let batches = shown.into_iter().map(copy).chain(ready).collect::<Result<_, _>>();
        let batches = batches.map_err(CannotSave::because)?;
        let metrics = self.metrics.read();
        let learner_loop = SavedLoop {
            passes: self.passes,
            updates: self.updates,
            updates_unpublished: self.updates_unpublished,
            quarantined_in_a_row: self.quarantined_in_a_row,
            num_quarantined: metrics.num_quarantined,
            last_quarantine: metrics.last_quarantine,
            ring,
        };
        Ok(LearnerCut {
            learners: self.learner.save(learners),
            learner_loop,
            batches,
            source,
            published: self.publisher.cell().load(),
            moments: self.publisher.moments(),
            steps: self.steps.snapshot(),
            took: began.elapsed(),
        })
    }

    /// A cut at the end of the loop, if it is configured and no update was interrupted.
    pub fn last_cut(&mut self) -> Option<Box<LearnerCut>> {
        let is_wanted = self.config.cut_at_end && self.is_whole;
        // A panic of the learner costs this checkpoint only.
        let cut = catch(|| is_wanted.then(|| self.cut(0, CutStorage::none()))).ok()??;
        cut.inspect_err(|error| tracing::warn!(%error, "the last checkpoint has the learner alone")).ok().map(Box::new)
    }

    /// Continues from a saved loop: its first train batches return to the minibatch buffer. Call it before
    /// the first step.
    #[must_use]
    pub fn resumed(mut self, saved: &SavedLoop) -> Self {
        self.passes = saved.passes;
        self.updates = saved.updates;
        self.updates_unpublished = saved.updates_unpublished;
        self.quarantined_in_a_row = saved.quarantined_in_a_row;
        self.metrics.resume(saved.num_quarantined, saved.last_quarantine.clone());
        self.held.ring.resume(&saved.ring);
        self
    }
}
