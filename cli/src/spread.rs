//! How far numbers are spread.

/// The lowest, the median and the highest of the numbers; `None` of none.
pub(crate) fn spread(mut numbers: Vec<f64>) -> Option<[f64; 3]> {
    numbers.sort_by(f64::total_cmp);
    let (lowest, highest) = (*numbers.first()?, *numbers.last()?);
    let half = numbers.len() / 2;
    // The middle one, or the mean of the two in the middle.
    let median = if numbers.len() % 2 == 1 { numbers[half] } else { (numbers[half - 1] + numbers[half]) / 2.0 };
    Some([lowest, median, highest])
}
