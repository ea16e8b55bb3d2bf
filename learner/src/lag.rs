//! Policy lag.

use serde_json::{Value, json};

/// Policy lag of steps: the learner's version minus the version that chose their actions.
///
/// *Units*: publications of weights.
///
/// ```
/// use pronk_learner::PolicyLag;
///
/// let lag = PolicyLag::of(9, [9, 8, 8, 2]);
/// assert_eq!((lag.min(), lag.mean(), lag.max()), (Some(0), Some(2.25), Some(7)));
/// assert_eq!(lag.histogram(), [(0, 1), (1, 2), (2, 0), (3, 0), (5, 1)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyLag {
    steps: u64,
    sum: u64,
    min: u64,
    max: u64,
    /// Steps in each bucket; see [`lowest_in`].
    counts: [u64; BUCKETS],
}

/// 0, 1, 2, 3–4, 5–8 and so on; the last holds all lags above 2^14.
const BUCKETS: usize = 17;

/// The bucket of a lag.
fn bucket(lag: u64) -> usize {
    let n_bits = |number: u64| (u64::BITS - number.leading_zeros()) as usize;
    if lag < 2 { lag as usize } else { (1 + n_bits(lag - 1)).min(BUCKETS - 1) }
}

/// The smallest lag in a bucket.
fn lowest_in(bucket: usize) -> u64 {
    if bucket < 3 { bucket as u64 } else { (1 << (bucket - 2)) + 1 }
}

impl PolicyLag {
    /// The lag of steps with `versions`, at the learner's version.
    pub fn of(learner: u64, versions: impl IntoIterator<Item = u64>) -> Self {
        let mut lag = Self { min: u64::MAX, ..Self::default() };
        // Most neighbours have the same version, so they are counted together.
        let mut run = (0, 0);
        for version in versions {
            if version != run.0 {
                lag.count(learner, run);
                run = (version, 0);
            }
            run.1 += 1;
        }
        lag.count(learner, run);
        if lag.steps == 0 { Self::default() } else { lag }
    }

    /// Counts so many steps of one version.
    fn count(&mut self, learner: u64, (version, steps): (u64, u64)) {
        if steps == 0 {
            return;
        }
        let lag = learner.saturating_sub(version);
        self.steps += steps;
        self.sum = self.sum.saturating_add(lag.saturating_mul(steps));
        self.min = self.min.min(lag);
        self.max = self.max.max(lag);
        self.counts[bucket(lag)] += steps;
    }

    /// Adds the steps of `other`.
    pub fn add(&mut self, other: Self) {
        if other.steps == 0 {
            return;
        }
        self.min = if self.steps == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
        self.steps += other.steps;
        for (count, others) in self.counts.iter_mut().zip(other.counts) {
            *count += others;
        }
    }

    /// The number of steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Smallest lag, if there was a step.
    pub fn min(&self) -> Option<u64> {
        (self.steps > 0).then_some(self.min)
    }

    /// Mean lag over the steps, if there was one.
    pub fn mean(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.sum as f64 / self.steps as f64)
    }

    /// Largest lag, if there was a step.
    pub fn max(&self) -> Option<u64> {
        (self.steps > 0).then_some(self.max)
    }

    /// The smallest lag and the number of steps of each bucket, up to that of the largest lag. Lags up to 2
    /// have a bucket each; then each is twice as wide as the one before.
    pub fn histogram(&self) -> Vec<(u64, u64)> {
        let used = if self.steps == 0 { 0 } else { bucket(self.max) + 1 };
        self.counts[..used].iter().enumerate().map(|(bucket, count)| (lowest_in(bucket), *count)).collect()
    }

    /// `{"min", "mean", "max", "histogram": {"edges", "counts"}}`: a count from each edge to below the next.
    /// Nulls and empty lists without steps.
    pub fn to_json(&self) -> Value {
        let histogram = self.histogram();
        let mut edges: Vec<u64> = histogram.iter().map(|(lowest, _)| *lowest).collect();
        edges.extend(self.max().map(|max| max.saturating_add(1)));
        let counts: Vec<u64> = histogram.iter().map(|(_, count)| *count).collect();
        json!({
            "min": self.min(),
            "mean": self.mean(),
            "max": self.max(),
            "histogram": { "edges": edges, "counts": counts },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_of_no_steps_is_none_and_adding_it_changes_nothing() {
        let mut lag = PolicyLag::of(5, [3, 4]);
        lag.add(PolicyLag::default());
        assert_eq!((lag.min(), lag.mean(), lag.max(), lag.steps()), (Some(1), Some(1.5), Some(2), 2));
        assert_eq!(PolicyLag::of(5, []), PolicyLag::default());
        let none = PolicyLag::default();
        assert_eq!((none.min(), none.mean(), none.max(), none.histogram()), (None, None, None, Vec::new()));
        assert_eq!(none.to_json()["histogram"], json!({"edges": [], "counts": []}));
    }

    #[test]
    fn every_lag_is_in_the_bucket_that_begins_at_or_below_it() {
        for lag in (0..70).chain([1 << 13, (1 << 14) + 1, 1 << 31, u64::MAX]) {
            let bucket = bucket(lag);
            assert!(lowest_in(bucket) <= lag, "{lag}");
            assert!(bucket + 1 == BUCKETS || lag < lowest_in(bucket + 1), "{lag}");
        }
        assert_eq!((0..BUCKETS).map(lowest_in).take(7).collect::<Vec<_>>(), [0, 1, 2, 3, 5, 9, 17]);
    }

    #[test]
    fn the_histogram_counts_every_step_once_whatever_is_added() {
        let mut lag = PolicyLag::of(100, [100, 97, 0]);
        lag.add(PolicyLag::of(100, [99, 90]));
        let total: u64 = lag.histogram().iter().map(|(_, count)| count).sum();
        assert_eq!((total, lag.steps()), (5, 5));
        let json = lag.to_json();
        assert_eq!(json["histogram"]["edges"], json!([0, 1, 2, 3, 5, 9, 17, 33, 65, 101]));
        assert_eq!(json["histogram"]["counts"], json!([1, 1, 0, 1, 0, 1, 0, 0, 1]));
    }
}
