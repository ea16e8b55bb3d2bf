use serde::{Deserialize, Serialize};

/// Keeps a standard deviation above 0 where a number never changes.
const EPSILON: f64 = 1e-8;

/// Count, mean and variance of rows of numbers that come one after the other, each number of a row by itself.
///
/// Source: Welford 1962 for one row more; Chan, Golub and LeVeque 1979 for two such joined into one.
///
/// ```
/// use pronk_rollout::RunningMoments;
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
    /// No row yet, of `len` numbers.
    pub fn new(len: usize) -> Self {
        Self { count: 0, mean: vec![0.0; len], squares: vec![0.0; len] }
    }

    /// How many rows there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// `[len]`: the mean of each number; 0 before there is a row.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// `[len]`: the variance of each number, over the rows there were; 1 before there is one.
    pub fn variance(&self) -> Vec<f64> {
        let variance = |squares: &f64| if self.count == 0 { 1.0 } else { squares / self.count as f64 };
        self.squares.iter().map(variance).collect()
    }

    /// `[len]`: the standard deviation of each number, never quite 0.
    pub fn std(&self) -> Vec<f64> {
        self.variance().into_iter().map(|variance| (variance + EPSILON).sqrt()).collect()
    }

    /// Adds rows, `[rows, len]`; what is left over is no row.
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

    /// Adds all rows of another one, as if they had come here.
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

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.count = 0;
        self.mean.fill(0.0);
        self.squares.fill(0.0);
    }

    /// Whether these can be the moments of rows of `len` numbers: what is read from a file need not be.
    pub fn is_of(&self, len: usize) -> bool {
        let is_sum_of_squares = |squares: &f64| squares.is_finite() && *squares >= 0.0;
        let has_begun = (self.mean.len(), self.squares.len()) == (len, len)
            && self.mean.iter().all(|mean| mean.is_finite())
            && self.squares.iter().all(is_sum_of_squares);
        has_begun || *self == Self::default()
    }
}
