//! Mean and variance of numbers that come one after another.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Rows that no stream has, so that two counts can be added.
const MOST_ROWS: u64 = 1 << 60;

/// Keeps the standard deviation of constants above 0.
const EPSILON: f64 = 1e-8;

/// Running count, mean and variance of each column of a stream of rows.
///
/// Source: Welford 1962 for adding a row; Chan, Golub and LeVeque 1979 for merging two of them.
///
/// ```
/// use pronk_metrics::RunningMoments;
///
/// let mut moments = RunningMoments::new(2);
/// moments.add_rows(&[1.0_f32, 10.0, 3.0, 10.0]);
/// assert_eq!((moments.count(), moments.mean()), (2, [2.0, 10.0].as_slice()));
/// assert_eq!(moments.variance(), [1.0, 0.0]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningMoments {
    count: u64,
    mean: Vec<f64>,
    /// Sums of squared distances from the mean.
    squares: Vec<f64>,
}

impl RunningMoments {
    /// The moments of no rows yet, of `len` columns.
    pub fn new(len: usize) -> Self {
        Self { count: 0, mean: vec![0.0; len], squares: vec![0.0; len] }
    }

    /// The number of rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// `[len]`: the means; 0 before the first row.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// `[len]`: the population variances; 1 before the first row.
    pub fn variance(&self) -> Vec<f64> {
        let variance = |squares: &f64| if self.count == 0 { 1.0 } else { squares / self.count as f64 };
        self.squares.iter().map(variance).collect()
    }

    /// `[len]`: the standard deviations, always above 0.
    pub fn std(&self) -> Vec<f64> {
        self.variance().into_iter().map(|variance| (variance + EPSILON).sqrt()).collect()
    }

    /// Adds rows, `[rows, len]`; an incomplete last row is ignored.
    pub fn add_rows<T: Copy + Into<f64>>(&mut self, rows: &[T]) {
        for row in rows.chunks_exact(self.mean.len().max(1)) {
            self.count += 1;
            let share = 1.0 / self.count as f64;
            for ((value, mean), squares) in row.iter().zip(&mut self.mean).zip(&mut self.squares) {
                let value: f64 = (*value).into();
                let before = value - *mean;
                *mean += share * before;
                *squares += before * (value - *mean);
            }
        }
    }

    /// Merges other moments, as if their rows had been added here.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let share = others / (own + others);
        let numbers = self.mean.iter_mut().zip(&mut self.squares).zip(other.mean.iter().zip(&other.squares));
        for ((mean, squares), (other_mean, other_squares)) in numbers {
            let apart = other_mean - *mean;
            *mean += share * apart;
            *squares += other_squares + apart * apart * own * share;
        }
        self.count += other.count;
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.count = 0;
        self.mean.fill(0.0);
        self.squares.fill(0.0);
    }

    /// Whether these are valid moments of `len` columns, or empty: moments read from a file need not be.
    pub fn is_of(&self, len: usize) -> bool {
        let is_sum_of_squares = |squares: &f64| squares.is_finite() && *squares >= 0.0;
        let has_begun = self.count <= MOST_ROWS
            && (self.mean.len(), self.squares.len()) == (len, len)
            && self.mean.iter().all(|mean| mean.is_finite())
            && self.squares.iter().all(is_sum_of_squares);
        has_begun || *self == Self::default()
    }
}

/// The moments of a run's observations and returns; `None` for what is not normalised.
///
/// A fragment carries those of its own steps to the learner, which merges them and publishes the result with
/// the weights.
///
/// ```
/// use pronk_metrics::{NormalizerMoments, RunningMoments};
///
/// let mut of_fragment = RunningMoments::new(1);
/// of_fragment.add_rows(&[1.0_f32, 3.0]);
/// let mut moments = NormalizerMoments::default();
/// moments.merge(&NormalizerMoments { observations: Some(of_fragment), returns: None });
/// assert_eq!(moments.observations.map(|moments| moments.mean().to_vec()), Some(vec![2.0]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizerMoments {
    /// Of each element of the observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observations: Option<RunningMoments>,
    /// Of the discounted return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<RunningMoments>,
}

impl NormalizerMoments {
    /// Merges other moments, as if their rows had been added here.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in [(&mut self.observations, &other.observations), (&mut self.returns, &other.returns)] {
            if let Some(other) = other {
                own.get_or_insert_default().merge(other);
            }
        }
    }

    /// Checks that these are of observations of `obs_len` numbers and of returns: a file may hold others.
    ///
    /// # Errors
    /// Which are not.
    pub fn check(&self, obs_len: usize) -> Result<(), String> {
        for (what, moments, len) in [("observations", &self.observations, obs_len), ("returns", &self.returns, 1)] {
            if moments.as_ref().is_some_and(|moments| !moments.is_of(len)) {
                return Err(format!("`{what}` are not the moments of {len} numbers"));
            }
        }
        Ok(())
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        for moments in [&mut self.observations, &mut self.returns].into_iter().flatten() {
            moments.clear();
        }
    }
}
