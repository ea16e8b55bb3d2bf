//! Explained variance.

use num_traits::Float;

/// `max(-1, 1 - var(target - value) / var(target))` over the entries that `counts`; -1 if the targets do not
/// vary, `None` for fewer than two.
pub(crate) fn explained_variance<F: Float>(
    targets: &[F],
    values: &[F],
    counts: impl Fn(usize) -> bool + Copy,
) -> Option<f64> {
    let entries = || {
        let entries = targets.iter().zip(values).enumerate().filter(move |(i, _)| counts(*i));
        entries.map(|(_, (&target, &value))| (to_f64(target), to_f64(value)))
    };
    let (first_target, first_value) = entries().next()?;
    let count = entries().count() as f64;
    if count < 2.0 {
        return None;
    }
    // Subtracting the first entry makes the variance of equal numbers exactly 0.
    let shifted = entries().map(|(target, value)| {
        let target = target - first_target;
        (target, target - (value - first_value))
    });
    let sum_of_squares = |number: fn((f64, f64)) -> f64| {
        let numbers = shifted.clone().map(number);
        let mean = sum(numbers.clone()) / count;
        sum(numbers.map(|number| (number - mean).powi(2)))
    };
    let (of_targets, of_errors) = (sum_of_squares(|(target, _)| target), sum_of_squares(|(_, error)| error));
    if of_targets == 0.0 {
        return Some(-1.0);
    }
    Some((1.0 - of_errors / of_targets).max(-1.0))
}

/// The sum, of several partial sums: with one, each addition would wait for the last.
fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sums = [0.0; 8];
    numbers.enumerate().for_each(|(i, number)| sums[i % 8] += number);
    sums.iter().sum()
}

/// A number as `f64`; NaN if there is none.
pub(crate) fn to_f64<F: Float>(number: F) -> f64 {
    number.to_f64().unwrap_or(f64::NAN)
}
