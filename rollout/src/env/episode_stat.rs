use pronk_buffer::Fold;
use serde::{Deserialize, Serialize};

/// One finished episode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodeStat {
    /// The worker that played it.
    pub worker: u32,
    /// The environment of that worker.
    pub index: u32,
    /// The seed it was reset with.
    pub seed: u64,
    /// The sum of its rewards.
    pub episode_return: f64,
    /// Its length in steps.
    pub episode_len: u32,
}

/// Statistics of the returns of agents under one policy; there is at least one return.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReturnStat {
    /// The number of returns.
    pub n: u64,
    /// Their sum.
    pub sum: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl ReturnStat {
    /// The statistics of a single return.
    pub fn of(value: f64) -> Self {
        Self { n: 1, sum: value, min: value, max: value }
    }

    /// The mean of the returns.
    pub fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }
}

impl Fold for ReturnStat {
    fn fold(&mut self, later: Self) {
        self.n += later.n;
        self.sum += later.sum;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
    }
}
