/// Rounds to `digits` decimal places, exact ties to the even digit: Python's `round(value, digits)`.
///
/// It rounds the exact binary value, so `2.675`, which is a little less, becomes `2.67`. Infinities and NaN
/// stay.
///
/// ```
/// use pronk_metrics::round_half_even;
///
/// assert_eq!(round_half_even(0.125, 2), 0.12);
/// assert_eq!(round_half_even(0.375, 2), 0.38);
/// assert_eq!(round_half_even(2.675, 2), 2.67);
/// ```
pub fn round_half_even(value: f64, digits: u32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    // The formatter rounds the exact binary value, ties to even; scaling by a power of ten would not.
    let digits = usize::try_from(digits).unwrap_or(usize::MAX).min(MAX_DIGITS);
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// An episode return for people: with two decimals, with fewer from ten thousand on, and with three
/// significant digits below a tenth, where two decimals would say little or nothing.
///
/// ```
/// use pronk_metrics::format_return;
///
/// assert_eq!([475.0, -0.88, 0.0].map(format_return), ["475.00", "-0.88", "0.00"]);
/// assert_eq!([0.0042, -3e-5, 123_456.7].map(format_return), ["0.00420", "-3.00e-5", "123457"]);
/// ```
pub fn format_return(value: f64) -> String {
    match value.abs() {
        0.0 => "0.00".to_owned(),
        size if size < 0.001 => format!("{value:.2e}"),
        size if size < 0.01 => format!("{value:.5}"),
        size if size < 0.1 => format!("{value:.4}"),
        size if size < 9_999.995 => format!("{value:.2}"),
        size if size < 99_999.95 => format!("{value:.1}"),
        size if size < 9_999_999.5 => format!("{value:.0}"),
        _ => format!("{value:.2e}"),
    }
}

/// No finite f64 has more decimal places than this.
const MAX_DIGITS: usize = 1074;

/// Sums in NumPy's order: below 8 values in sequence, up to 128 in eight lanes, above that by halves. Means
/// then equal NumPy's to the last bit, which decides ties in rounded milliseconds.
pub(crate) fn sum_as_numpy(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    const BLOCK: usize = 128;
    let n = values.len();
    if n < LANES {
        return values.iter().fold(0.0, |sum, value| sum + value);
    }
    if n > BLOCK {
        let half = n / 2;
        let (left, right) = values.split_at(half - half % LANES);
        return sum_as_numpy(left) + sum_as_numpy(right);
    }
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(sum, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_has_significant_digits_and_fits_its_column() {
        for (value, text) in [
            (-0.0, "0.00"),
            (0.004, "0.00400"),
            (-0.004_999, "-0.00500"),
            (0.000_123, "1.23e-4"),
            (0.05, "0.0500"),
            (0.1, "0.10"),
            (-1.0, "-1.00"),
            (-9_999.99, "-9999.99"),
            (-12_345.67, "-12345.7"),
            (-9_999_999.4, "-9999999"),
            (12_345_678.0, "1.23e7"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_return(value), text);
            assert!(text.len() <= 8, "{text}");
        }
    }

    #[test]
    fn ties_go_to_the_even_digit() {
        for (value, digits, rounded) in [
            (0.5, 0, 0.0),
            (1.5, 0, 2.0),
            (2.5, 0, 2.0),
            (-2.5, 0, -2.0),
            (0.0625, 3, 0.062),
            (0.1875, 3, 0.188),
            (1e300, 3, 1e300),
        ] {
            assert_eq!(round_half_even(value, digits), rounded, "round({value}, {digits})");
        }
    }

    #[test]
    fn rounding_sees_the_binary_value_not_the_decimal_notation() {
        assert_eq!(round_half_even(2.675, 2), 2.67);
        assert_eq!(round_half_even(1.005, 2), 1.0);
        assert_eq!(round_half_even(51.5925, 3), 51.593);
    }

    #[test]
    fn what_is_not_a_number_stays() {
        assert!(round_half_even(f64::NAN, 3).is_nan());
        assert_eq!(round_half_even(f64::NEG_INFINITY, 3), f64::NEG_INFINITY);
        assert_eq!(round_half_even(0.1, u32::MAX), 0.1);
    }

    #[test]
    fn sums_agree_with_a_plain_sum_at_every_length() {
        let values: Vec<f64> = (0..700).map(|i| f64::from(i) * 0.5 - 30.0).collect();
        for n in 0..values.len() {
            // Halves of small integers add without rounding, so every order must give the same bits.
            assert_eq!(sum_as_numpy(&values[..n]), values[..n].iter().sum::<f64>(), "{n} values");
        }
    }

    #[test]
    fn values_eight_apart_are_added_first() {
        let mut values = [0.0; 16];
        (values[0], values[1], values[8]) = (1e16, -1e16, 1.0);
        // From left to right it would be 1; in lanes the 1 meets 1e16 first and is rounded away.
        assert_eq!(sum_as_numpy(&values), 0.0);
    }
}
