use std::collections::VecDeque;
use std::num::NonZeroUsize;

use crate::numbers::sum_as_numpy;
use crate::result::ResultDict;

/// The newest values of a figure such as the length of a queue: RLlib's `WindowStat`.
///
/// Mean, standard deviation and quantiles are over the newest `window` values without NaN; the count is over
/// all.
///
/// ```
/// use std::num::NonZeroUsize;
/// use pronk_metrics::{ResultDict, WindowStat};
///
/// let mut size = WindowStat::new("size", NonZeroUsize::new(3).unwrap());
/// for length in [5.0, 7.0, 7.0, 10.0] {
///     size.push(length);
/// }
/// assert_eq!(size.mean(), Some(8.0));
/// let mut result = ResultDict::new();
/// size.write_into(&mut result, "info.learner_queue");
/// assert_eq!(result.number("info.learner_queue.size_count"), Some(4.0));
/// ```
#[derive(Clone, Debug)]
pub struct WindowStat {
    name: String,
    window: NonZeroUsize,
    values: VecDeque<f64>,
    count: u64,
}

impl WindowStat {
    /// An empty window of `window` values; `name` begins its keys in the result dict.
    pub fn new(name: &str, window: NonZeroUsize) -> WindowStat {
        WindowStat { name: name.to_owned(), window, values: VecDeque::with_capacity(window.get()), count: 0 }
    }

    /// Adds a value; a full window drops its oldest.
    pub fn push(&mut self, value: f64) {
        if self.values.len() == self.window.get() {
            self.values.pop_front();
        }
        self.values.push_back(value);
        self.count += 1;
    }

    /// The number of values ever pushed, including NaN.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of the numbers in the window.
    pub fn mean(&self) -> Option<f64> {
        let numbers = self.numbers();
        (!numbers.is_empty()).then(|| sum_as_numpy(&numbers) / numbers.len() as f64)
    }

    /// The population standard deviation of the numbers in the window.
    pub fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: Vec<f64> = self.numbers().iter().map(|x| (x - mean) * (x - mean)).collect();
        Some((sum_as_numpy(&squares) / squares.len() as f64).sqrt())
    }

    /// Percentiles 0, 10, 50, 90 and 100, linear between neighbours. Empty for an empty window; five NaN for
    /// a window of NaN only.
    pub fn quantiles(&self) -> Vec<f64> {
        if self.values.is_empty() {
            return Vec::new();
        }
        let mut sorted = self.numbers();
        sorted.sort_by(f64::total_cmp);
        QUANTILES.iter().map(|&q| quantile(&sorted, q)).collect()
    }

    /// Writes `<name>_count`, `_mean`, `_std` and `_quantiles` below `prefix`; missing ones become null.
    pub fn write_into(&self, dict: &mut ResultDict, prefix: &str) {
        let name = &self.name;
        dict.set(&format!("{prefix}.{name}_count"), self.count);
        dict.set(&format!("{prefix}.{name}_mean"), self.mean());
        dict.set(&format!("{prefix}.{name}_std"), self.std());
        dict.set(&format!("{prefix}.{name}_quantiles"), self.quantiles());
    }

    fn numbers(&self) -> Vec<f64> {
        self.values.iter().copied().filter(|value| !value.is_nan()).collect()
    }
}

const QUANTILES: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let rank = q * last as f64;
    let below = rank.floor() as usize;
    let (low, high) = (sorted[below], sorted[last.min(below + 1)]);
    // Interpolating between two infinities would give NaN.
    if low == high { low } else { low + (high - low) * rank.fract() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn window(n: usize, values: &[f64]) -> WindowStat {
        let mut window = WindowStat::new("w", NonZeroUsize::new(n).unwrap());
        values.iter().for_each(|&value| window.push(value));
        window
    }

    #[test]
    fn only_the_newest_values_take_part_but_all_count() {
        let w = window(3, &[100.0, 5.0, 7.0, 9.0]);
        assert_eq!((w.count(), w.mean()), (4, Some(7.0)));
        assert_eq!(w.std(), Some((8.0_f64 / 3.0).sqrt()));
        assert_eq!(w.quantiles(), [5.0, 5.4, 7.0, 8.6, 9.0]);
    }

    #[test]
    fn an_empty_window_has_no_figures() {
        let w = window(3, &[]);
        assert_eq!((w.count(), w.mean(), w.std()), (0, None, None));
        assert_eq!(w.quantiles(), Vec::<f64>::new());
    }

    #[test]
    fn nan_is_counted_and_otherwise_passed_over() {
        let w = window(3, &[f64::NAN, 2.0, 4.0]);
        assert_eq!((w.count(), w.mean(), w.std()), (3, Some(3.0), Some(1.0)));
        let only_nan = window(3, &[f64::NAN]);
        assert_eq!((only_nan.mean(), only_nan.std()), (None, None));
        assert_eq!(only_nan.quantiles().len(), 5);
        assert!(only_nan.quantiles().iter().all(|q| q.is_nan()));
    }

    #[test]
    fn infinities_give_no_nan_quantiles() {
        let w = window(4, &[f64::INFINITY, f64::INFINITY, f64::INFINITY, 1.0]);
        assert_eq!(w.quantiles()[2..], [f64::INFINITY; 3]);
    }

    #[test]
    fn the_result_dict_has_four_keys_with_null_for_what_is_not_there() {
        let mut dict = ResultDict::new();
        window(2, &[f64::NAN]).write_into(&mut dict, "info.queue");
        assert_eq!(
            dict.as_json()["info"]["queue"],
            json!({"w_count": 1, "w_mean": null, "w_std": null, "w_quantiles": [null, null, null, null, null]})
        );
    }
}
