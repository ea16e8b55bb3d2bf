use std::num::NonZeroUsize;

use pronk_buffer::RandomSource;

/// RLlib 2.x's mix-in buffer, which pronk does not have: it returns the items added since the last call and a
/// share of old ones, all at once.
///
/// Its `replay_ratio` is `old / (old + new)`, which makes `p = ratio / (1 - ratio)` old items per new one. It
/// keeps that for single items only: with `n` new ones it takes 1 off `p` per draw and compares with `n * p`,
/// so there are fewer. At a ratio of 1 it returns one stored item and forgets the new ones; above 1 it
/// replays nothing. RLlib 2.x fills in `1 / replay_proportion` as the ratio, so a proportion of 2 replays
/// half as many as are fresh.
pub(crate) struct RatioReplay<T> {
    stored: Vec<T>,
    capacity: usize,
    /// The index of the oldest item once all places are taken.
    oldest: usize,
    new: Vec<T>,
    ratio: f64,
}

impl<T: Clone> RatioReplay<T> {
    /// Nothing stored yet, and room for `capacity` items.
    pub(crate) fn new(capacity: NonZeroUsize, replay_ratio: f64) -> Self {
        Self { stored: Vec::new(), capacity: capacity.get(), oldest: 0, new: Vec::new(), ratio: replay_ratio }
    }

    /// Old items per new one that the ratio stands for; `None` at a ratio of 1, and negative above it.
    pub(crate) fn proportion(&self) -> Option<f64> {
        (self.ratio != 1.0).then(|| self.ratio / (1.0 - self.ratio))
    }

    /// Adds an item, to be given as a new one once and stored for later.
    pub(crate) fn add(&mut self, item: T) {
        self.new.push(item.clone());
        if self.stored.len() < self.capacity {
            return self.stored.push(item);
        }
        self.stored[self.oldest] = item;
        self.oldest = (self.oldest + 1) % self.capacity;
    }

    /// The new items and as many old ones as are drawn, or `None` when there is nothing to give.
    pub(crate) fn replay(&mut self, draw: &mut impl RandomSource) -> Option<Vec<T>> {
        if self.stored.is_empty() || (self.new.is_empty() && self.ratio < 1.0) {
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
        self.stored.get(draw.index(self.stored.len())).cloned()
    }
}
