use super::ring::Ring;

/// How many fragments are kept for replay, and how often they are replayed.
///
/// ```
/// use pronk_buffer::MixInConfig;
///
/// let off = MixInConfig::default();
/// assert_eq!(off.replay_proportion, 0.0);
/// assert!(off.check().is_ok());
/// let no_place = MixInConfig { replay_buffer_num_slots: 0, replay_proportion: 0.5 };
/// assert!(no_place.check().unwrap_err().to_string().contains("replay_buffer_num_slots"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MixInConfig {
    /// Fragments kept; a new one takes the place of the oldest. 0 keeps none.
    pub replay_buffer_num_slots: usize,
    /// Replayed fragments per fresh one, in expectation. 0 replays none.
    pub replay_proportion: f64,
}

impl MixInConfig {
    /// Refuses settings that cannot work. Call it once where they are read.
    ///
    /// # Errors
    /// [`MixInError`] names the settings and the remedy.
    pub fn check(&self) -> Result<(), MixInError> {
        let Self { replay_buffer_num_slots, replay_proportion } = *self;
        if !replay_proportion.is_finite() || replay_proportion < 0.0 {
            return Err(MixInError::NoProportion { replay_proportion });
        }
        if replay_proportion > 0.0 && replay_buffer_num_slots == 0 {
            return Err(MixInError::NoSlots { replay_proportion });
        }
        Ok(())
    }
}

/// Settings of a replay that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MixInError {
    /// The proportion is no proportion.
    #[error("`replay_proportion` is {replay_proportion}: it must be a number of replays per fresh fragment, 0 or more")]
    NoProportion {
        /// The proportion asked for.
        replay_proportion: f64,
    },
    /// Something is to be replayed, but nothing can be stored.
    #[error(
        "`replay_proportion` is {replay_proportion} but `replay_buffer_num_slots` is 0, so there is nothing to replay \
         from: raise the slots, or set the proportion to 0"
    )]
    NoSlots {
        /// The proportion asked for.
        replay_proportion: f64,
    },
}

/// Where the random numbers of a replay come from: any closure that gives uniform numbers from 0 up to but
/// not including 1. The same numbers give the same replays.
///
/// ```
/// use pronk_buffer::RandomSource;
///
/// let mut uniform = || 0.75;
/// assert_eq!(uniform.index(8), 6);
/// ```
pub trait RandomSource {
    /// A uniform number from 0 up to but not including 1.
    fn uniform(&mut self) -> f64;

    /// One of `0..n`, each equally likely; 0 when `n` is.
    fn index(&mut self, n: usize) -> usize {
        // The product can round up to `n`.
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }
}

impl<F: FnMut() -> f64> RandomSource for F {
    fn uniform(&mut self) -> f64 {
        self()
    }
}

/// The rule of mix-in replay, apart from what is replayed: RLlib 1.x's `MixInReplay`.
///
/// An item is stored first. Then, as long as a uniform number lies below what is left of the proportion, one
/// is taken off it and a stored item is drawn, which may be the new one. So `p` items are replayed per fresh
/// one in expectation, and never fewer than the whole part of `p`. (RLlib 2.x inverts its `replay_proportion`
/// by mistake.)
///
/// ```
/// use pronk_buffer::{MixIn, MixInConfig};
///
/// let mut mix_in = MixIn::new(MixInConfig { replay_buffer_num_slots: 2, replay_proportion: 1.5 })?;
/// let mut uniform = || 0.6;
/// mix_in.store("fresh");
/// assert_eq!(mix_in.replay(&mut uniform), Some(&"fresh")); // 0.6 < 1.5
/// assert_eq!(mix_in.replay(&mut uniform), None); // 0.6 >= 0.5
/// # Ok::<(), pronk_buffer::MixInError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MixIn<T> {
    ring: Ring<T>,
    proportion: f64,
    /// What is left of the proportion since the newest item came; `None` once a draw said that it is enough.
    left: Option<f64>,
}

impl<T> MixIn<T> {
    /// Nothing stored yet.
    ///
    /// # Errors
    /// As [`MixInConfig::check`].
    pub fn new(config: MixInConfig) -> Result<Self, MixInError> {
        config.check()?;
        let ring = Ring::new(config.replay_buffer_num_slots);
        Ok(Self { ring, proportion: config.replay_proportion, left: None })
    }

    /// Stores an item, in the place of the oldest if all are taken. Replays that were still due for the one
    /// before are given up.
    pub fn store(&mut self, item: T) {
        let Ok(()) = self.store_with(|| Ok::<T, std::convert::Infallible>(item));
    }

    /// As [`store`](Self::store), with an item that is made after the oldest was dropped, so that it can have
    /// its storage. Without slots nothing is made.
    ///
    /// # Errors
    /// That of `make`; nothing was stored then.
    pub fn store_with<E>(&mut self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        self.left = None;
        self.ring.store_with(make)?;
        self.left = Some(self.proportion);
        Ok(())
    }

    /// The next item to replay after the one stored last, or `None` when it is time for a fresh one.
    pub fn replay(&mut self, draw: &mut impl RandomSource) -> Option<&T> {
        let left = self.left.take()?;
        if draw.uniform() < left && self.ring.len() > 0 {
            self.left = Some(left - 1.0);
            return self.ring.get(draw.index(self.ring.len()));
        }
        None
    }

    /// Items stored now.
    pub fn stored(&self) -> usize {
        self.ring.len()
    }

    /// Replayed items per fresh one, in expectation.
    pub fn proportion(&self) -> f64 {
        self.proportion
    }

    /// Drops what is stored; no replay is due any more.
    pub fn clear(&mut self) {
        self.ring.clear();
        self.left = None;
    }
}
