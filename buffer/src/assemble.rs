//! Joins fragments to train batches.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::Instant;
use crate::{Accumulate, CannotSave, MultiAgentBatch, NextError, Pool, SavedBatch, SavedSource, Source};

#[cfg(test)]
mod tests;

/// Joins whole fragments until they hold `train_batch_size` environment steps.
///
/// Fragments are never split, as in RLlib, so a batch may hold more. A batch of one fragment is moved, not
/// copied. A partial batch survives timeouts. The tickets of the fragments are joined.
///
/// ```
/// use std::time::Duration;
/// use pronk_buffer::{Assemble, Gate, MultiAgentBatch, Pool, Source, inqueue, shutdown};
/// # use pronk_buffer::{ActionKind, BatchShape, ObsKind, SampleBatch, Tag};
/// # let shape = BatchShape {
/// #     steps: 50,
/// #     columns: 1,
/// #     obs_len: 4,
/// #     obs_kind: ObsKind::F32,
/// #     act_len: 1,
/// #     act_kind: ActionKind::U32,
/// #     dist_len: 2,
/// #     state_len: 0,
/// # };
/// # let fragment = || MultiAgentBatch::single(SampleBatch::blank(shape, Tag::default()));
///
/// let (_guard, token) = shutdown();
/// let (sender, receiver) = inqueue(16, Gate::Bounded, &token)?;
/// let mut batches = Assemble::new(receiver, 100, Pool::new(8));
/// sender.push(fragment())?; // 50 steps
/// sender.push(fragment())?;
/// assert_eq!(batches.next(Duration::ZERO)?.env_steps(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Assemble<S> {
    source: S,
    partial: Accumulate<MultiAgentBatch>,
    pool: Pool,
    /// Whether a batch is complete with a number of fresh fragments, instead of environment steps.
    counts_fragments: bool,
    /// Complete batches that come first, in a resumed run.
    whole: VecDeque<MultiAgentBatch>,
}

impl<S: Source<Item = MultiAgentBatch>> Assemble<S> {
    /// Takes fragments from `source`; storage of joined batches comes from `pool`.
    pub fn new(source: S, train_batch_size: u64, pool: Pool) -> Self {
        let partial = Accumulate::new(train_batch_size);
        Self { source, partial, pool, counts_fragments: false, whole: VecDeque::new() }
    }

    /// Returns these train batches first, which a checkpoint held.
    #[must_use]
    pub fn after_batches(self, batches: Vec<MultiAgentBatch>) -> Self {
        Self { whole: batches.into(), ..self }
    }

    /// Takes fragments from `source` until `fragments` fresh ones make a batch; replayed ones, which have no
    /// ticket, come on top. So the batch of a fragment does not depend on what is replayed.
    pub fn counting(source: S, fragments: u64, pool: Pool) -> Self {
        Self { counts_fragments: true, ..Self::new(source, fragments, pool) }
    }

    /// Begins with the fragments of an incomplete batch, which a checkpoint held.
    #[must_use]
    pub fn after(mut self, partial: Vec<MultiAgentBatch>) -> Self {
        for fragment in partial {
            let size = self.size_of(&fragment);
            // Complete only if the batch size was lowered since: the batch is then as large as it was to be.
            if let Some(whole) = self.partial.push(fragment, size) {
                self.whole.extend(MultiAgentBatch::join(whole.pieces, &self.pool).ok());
            }
        }
        self
    }

    /// Environment steps of the partial batch; its fresh fragments, if these are [counted](Self::counting).
    pub fn partial_size(&self) -> u64 {
        self.partial.size()
    }

    /// The source of fragments.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// How much of a batch a fragment makes.
    fn size_of(&self, fragment: &MultiAgentBatch) -> u64 {
        match self.counts_fragments {
            true => fragment.ticket_steps().is_some().into(),
            false => fragment.env_steps(),
        }
    }

    /// Checks against every part, because two parts may have no policy in common.
    fn check_fits(&self, fragment: &MultiAgentBatch) -> Result<(), NextError> {
        let parts = self.partial.pieces();
        parts.iter().try_for_each(|part| part.check_fits(fragment)).map_err(|error| NextError::Failed(error.into()))
    }
}

impl<S: Source<Item = MultiAgentBatch>> Source for Assemble<S> {
    type Item = MultiAgentBatch;

    /// # Errors
    /// Those of the source, and [`NextError::Failed`] for a fragment of other row lengths than the ones
    /// before: it is dropped as `"shape_mismatch"`, and the partial batch stays.
    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        if let Some(batch) = self.whole.pop_front() {
            return Ok(batch);
        }
        let began = Instant::now();
        loop {
            // The deadline bounds waiting only: fragments that have arrived are taken even after it.
            let mut fragment = self.source.next(timeout.saturating_sub(began.elapsed()))?;
            if let Err(error) = self.check_fits(&fragment) {
                if let Some(ticket) = fragment.take_ticket() {
                    ticket.dropped("shape_mismatch");
                }
                return Err(error);
            }
            let size = self.size_of(&fragment);
            if let Some(whole) = self.partial.push(fragment, size) {
                let joined = MultiAgentBatch::join(whole.pieces, &self.pool);
                return joined.map_err(|error| NextError::Failed(error.into()));
            }
        }
    }

    fn backlog(&self) -> usize {
        self.source.backlog()
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        let mut held: Vec<_> = self.whole.drain(..).collect();
        held.extend(self.partial.take().pieces);
        held.extend(self.source.drain());
        held
    }

    fn save(&mut self, saved: &mut SavedSource, _ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        // A source of fragments, whose items are fragments ahead.
        let mut queued = Vec::new();
        let pool = saved.pool().clone();
        self.source.save(saved, &mut |fragment| queued.push(SavedBatch::copy(fragment, &pool)))?;
        for copy in queued {
            saved.queued.push(copy.map_err(CannotSave::because)?);
        }
        for fragment in self.partial.pieces() {
            saved.partial.push(SavedBatch::copy(fragment, &pool).map_err(CannotSave::because)?);
        }
        for batch in &self.whole {
            saved.batches.push(SavedBatch::copy(batch, &pool).map_err(CannotSave::because)?);
        }
        Ok(())
    }
}
