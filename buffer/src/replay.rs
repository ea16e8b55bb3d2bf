//! Mix-in replay of fragments.

mod mix_in;
mod ring;

use std::fmt;
use std::time::Duration;

pub use mix_in::{MixIn, MixInConfig, MixInError, RandomSource};

use crate::batch::copy_without_ticket;
use crate::{CannotSave, MultiAgentBatch, NextError, Pool, SampleBatch, SavedBatch, SavedReplay, SavedSource, Source};

#[cfg(test)]
mod tests;

/// Returns every fragment of a source, and after each one, in expectation, `replay_proportion` stored ones.
///
/// It feeds [`Assemble`](crate::Assemble), so a train batch mixes fresh and replayed fragments. A fresh
/// fragment is stored before the draw, so it may be replayed at once. Copies take storage from the pool,
/// which needs `replay_buffer_num_slots` more places.
///
/// *Steps*: only fresh fragments carry tickets. Replayed ones count as passes, and not at all if they are
/// dropped before.
///
/// A non-finite fragment is passed on, for the learner to quarantine, but neither stored nor followed by
/// replays.
///
/// ```
/// use std::time::Duration;
/// use pronk_buffer::{Gate, MixInConfig, MixInReplay, MultiAgentBatch, Pool, Source, inqueue, shutdown};
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
/// let config = MixInConfig { replay_buffer_num_slots: 100, replay_proportion: 1.0 };
/// let uniform = || 0.5; // a run passes a seeded generator
/// let mut fragments = MixInReplay::new(receiver, config, Pool::new(128), uniform)?;
/// sender.push(fragment())?;
/// let fresh = fragments.next(Duration::ZERO)?;
/// let replayed = fragments.next(Duration::ZERO)?;
/// assert_eq!(replayed.env_steps(), fresh.env_steps());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MixInReplay<S, D> {
    source: S,
    mix_in: MixIn<MultiAgentBatch>,
    pool: Pool,
    draw: Counted<D>,
}

/// Random numbers, counted: a resumed run skips those that were drawn.
struct Counted<D> {
    source: D,
    draws: u64,
}

impl<D: RandomSource> RandomSource for Counted<D> {
    fn uniform(&mut self) -> f64 {
        self.draws += 1;
        self.source.uniform()
    }
}

impl<S: Source<Item = MultiAgentBatch>, D: RandomSource> MixInReplay<S, D> {
    /// Takes fragments from `source`, storage for copies from `pool`, and random numbers from `draw`.
    ///
    /// # Errors
    /// Those of [`MixInConfig::check`].
    pub fn new(source: S, config: MixInConfig, pool: Pool, draw: D) -> Result<Self, MixInError> {
        Ok(Self { source, mix_in: MixIn::new(config)?, pool, draw: Counted { source: draw, draws: 0 } })
    }

    /// Continues with the replay buffer of a checkpoint; the random numbers drawn for it are skipped.
    ///
    /// A buffer of more slots than the checkpoint's fills up; of one with fewer the oldest are dropped.
    #[must_use]
    pub fn resumed(mut self, saved: SavedReplay) -> Self {
        let SavedReplay { stored, oldest, left, draws } = saved;
        (0..draws).for_each(|_| {
            self.draw.uniform();
        });
        let stored = stored.into_iter().map(|saved| saved.batch).collect();
        self.mix_in = self.mix_in.resumed(stored, oldest, left);
        self
    }

    /// The number of stored fragments.
    pub fn stored(&self) -> usize {
        self.mix_in.stored()
    }

    /// The source of fresh fragments.
    pub fn source(&self) -> &S {
        &self.source
    }

    fn store(&mut self, fresh: &MultiAgentBatch) -> Result<(), NextError> {
        let pool = &self.pool;
        let stored = self.mix_in.store_with(|| copy_without_ticket(fresh, pool));
        stored.map_err(|error| NextError::Failed(error.into()))
    }
}

impl<S: Source<Item = MultiAgentBatch>, D: RandomSource> Source for MixInReplay<S, D> {
    type Item = MultiAgentBatch;

    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        if let Some(stored) = self.mix_in.replay(&mut self.draw) {
            return copy_without_ticket(stored, &self.pool).map_err(|error| NextError::Failed(error.into()));
        }
        let fresh = self.source.next(timeout)?;
        // With a proportion of 0 nothing is replayed, so copies are useless.
        if self.mix_in.proportion() > 0.0 && is_finite(&fresh) {
            self.store(&fresh)?;
        }
        Ok(fresh)
    }

    /// The source's backlog, without replays.
    fn backlog(&self) -> usize {
        self.source.backlog()
    }

    /// The source's items. Stored copies return to the pool.
    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        self.mix_in.clear();
        self.source.drain()
    }

    fn save(&mut self, saved: &mut SavedSource, ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        let pool = saved.pool().clone();
        let stored = self.mix_in.items().iter().map(|stored| SavedBatch::copy(stored, &pool));
        let stored = stored.collect::<Result<_, _>>().map_err(CannotSave::because)?;
        let (oldest, left) = self.mix_in.position();
        saved.replay = Some(SavedReplay { stored, oldest, left, draws: self.draw.draws });
        // Behind the replays that are due, which the saved position says.
        self.source.save(saved, ahead)
    }
}

impl<S: fmt::Debug, D> fmt::Debug for MixInReplay<S, D> {
    /// Without `draw`, which may be a closure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MixInReplay")
            .field("source", &self.source)
            .field("mix_in", &self.mix_in)
            .finish_non_exhaustive()
    }
}

fn is_finite(fragment: &MultiAgentBatch) -> bool {
    fragment.policies().map(|(_, batch)| batch).map(SampleBatch::check_finite).all(|checked| checked.is_ok())
}
