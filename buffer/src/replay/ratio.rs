use std::num::NonZeroUsize;

use super::RandomSource;
use super::ring::Ring;

/// RLlib 2.x's mix-in buffer, for comparison with it: it gives the items added since the last call and a
/// share of old ones, all at once.
///
/// Its `replay_ratio` is `old / (old + new)`, which makes `p = ratio / (1 - ratio)` old items per new one. It
/// keeps that for single items only: with `n` new ones it takes 1 off `p` per draw and compares with `n * p`,
/// so there are fewer. At a ratio of 1 it gives one stored item and forgets the new ones; above 1 it replays
/// nothing. RLlib 2.x fills in `1 / replay_proportion` as the ratio, so a proportion of 2 replays half as
/// many as are fresh. Runs use [`MixInReplay`](crate::MixInReplay), which replays what was asked for.
///
/// ```
/// use std::num::NonZeroUsize;
/// use pronk_buffer::RatioReplay;
///
/// let mut buffer = RatioReplay::new(NonZeroUsize::MIN, 0.5);
/// buffer.add("new");
/// assert_eq!(buffer.replay(&mut || 0.5), Some(vec!["new", "new"]));
/// assert_eq!(buffer.replay(&mut || 0.5), None); // nothing new
/// ```
#[derive(Clone, Debug)]
pub struct RatioReplay<T> {
    ring: Ring<T>,
    new: Vec<T>,
    ratio: f64,
}

impl<T: Clone> RatioReplay<T> {
    /// Nothing stored yet, and room for `capacity` items.
    pub fn new(capacity: NonZeroUsize, replay_ratio: f64) -> Self {
        Self { ring: Ring::new(capacity.get()), new: Vec::new(), ratio: replay_ratio }
    }

    /// Old items per new one that the ratio stands for; `None` at a ratio of 1, and negative above it.
    pub fn proportion(&self) -> Option<f64> {
        (self.ratio != 1.0).then(|| self.ratio / (1.0 - self.ratio))
    }

    /// Adds an item, to be given as a new one once and stored for later.
    pub fn add(&mut self, item: T) {
        self.new.push(item.clone());
        let Ok(()) = self.ring.store_with(|| Ok::<T, std::convert::Infallible>(item));
    }

    /// The new items and as many old ones as are drawn, or `None` when there is nothing to give.
    pub fn replay(&mut self, draw: &mut impl RandomSource) -> Option<Vec<T>> {
        if self.ring.len() == 0 || (self.new.is_empty() && self.ratio < 1.0) {
            return None;
        }
        let new = std::mem::take(&mut self.new);
        let Some(mut proportion) = self.proportion() else {
            return Some(self.draw_one(draw).into_iter().collect());
        };
        let n_new = new.len() as f64;
        let mut given = new;
        // A ratio of 0 draws no random number.
        while self.ratio > 0.0 && draw.uniform() < n_new * proportion {
            proportion -= 1.0;
            given.extend(self.draw_one(draw));
        }
        Some(given)
    }

    fn draw_one(&self, draw: &mut impl RandomSource) -> Option<T> {
        self.ring.get(draw.index(self.ring.len())).cloned()
    }
}
