use super::ring::Ring;

/// Settings of mix-in replay.
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
    /// Fragments kept; a new one replaces the oldest.
    pub replay_buffer_num_slots: usize,
    /// Replayed fragments per fresh one, in expectation.
    pub replay_proportion: f64,
}

impl MixInConfig {
    /// Checks the settings. Call it once, where they are read.
    ///
    /// # Errors
    /// [`MixInError`].
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

/// Invalid settings of a replay.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MixInError {
    /// The proportion is negative or not finite.
    #[error("`replay_proportion` is {replay_proportion}: it must be a number of replays per fresh fragment, 0 or more")]
    NoProportion {
        /// The proportion asked for.
        replay_proportion: f64,
    },
    /// Replay without storage.
    #[error(
        "`replay_proportion` is {replay_proportion} but `replay_buffer_num_slots` is 0, so there is nothing to replay \
         from: raise the slots, or set the proportion to 0"
    )]
    NoSlots {
        /// The proportion asked for.
        replay_proportion: f64,
    },
}

/// The random numbers of a replay: any closure that returns uniform numbers in [0, 1).
///
/// ```
/// use pronk_buffer::RandomSource;
///
/// let mut uniform = || 0.75;
/// assert_eq!(uniform.index(8), 6);
/// ```
pub trait RandomSource {
    /// A uniform number in [0, 1).
    fn uniform(&mut self) -> f64;

    /// A uniform index below `n`; 0 if `n` is 0.
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

/// The rule of mix-in replay, for any items: RLlib 1.x's `MixInReplay`.
///
/// A fresh item is stored first. Then, while a uniform number is below the rest of the proportion, the rest
/// shrinks by one and a stored item is drawn, perhaps the new one. So `p` items are replayed per fresh one in
/// expectation, and at least the integer part of `p`. (RLlib 2.x inverts `replay_proportion` by mistake.)
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
    /// The rest of the proportion; `None` once a draw has ended the replays of the newest item.
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

    /// The same rule with these items by place, in which a checkpoint found it.
    pub(super) fn resumed(mut self, items: Vec<T>, oldest: usize, left: Option<f64>) -> Self {
        self.ring.fill(items, oldest);
        self.left = left;
        self
    }

    /// The items by place.
    pub(super) fn items(&self) -> &[T] {
        self.ring.items()
    }

    /// The place of the oldest item once the ring is full, and the rest of the proportion.
    pub(super) fn position(&self) -> (usize, Option<f64>) {
        (self.ring.oldest(), self.left)
    }

    /// Stores an item, in place of the oldest if the ring is full. Replays still due for the one before are
    /// cancelled.
    pub fn store(&mut self, item: T) {
        let Ok(()) = self.store_with(|| Ok::<T, std::convert::Infallible>(item));
    }

    /// As [`store`](Self::store), but drops the oldest item before it makes the new one, which may reuse its
    /// storage. Without slots it makes nothing. An error of `make` is returned, and nothing is stored.
    pub fn store_with<E>(&mut self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        self.left = None;
        self.ring.store_with(make)?;
        self.left = Some(self.proportion);
        Ok(())
    }

    /// The next item to replay; `None` when a fresh one is due.
    pub fn replay(&mut self, draw: &mut impl RandomSource) -> Option<&T> {
        let left = self.left.take()?;
        if draw.uniform() < left && self.ring.len() > 0 {
            self.left = Some(left - 1.0);
            return self.ring.get(draw.index(self.ring.len()));
        }
        None
    }

    /// The number of stored items.
    pub fn stored(&self) -> usize {
        self.ring.len()
    }

    /// Replayed items per fresh one, in expectation.
    pub fn proportion(&self) -> f64 {
        self.proportion
    }

    /// Drops all items; no replay is due then.
    pub fn clear(&mut self) {
        self.ring.clear();
        self.left = None;
    }
}
