//! Histograms of lists of numbers, and of counts between edges.

use prost::Message;

/// TensorBoard's histogram: `counts[i]` values above `limits[i - 1]`, or `min`, and up to `limits[i]`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(double, tag = "1")]
    pub(super) min: f64,
    #[prost(double, tag = "2")]
    pub(super) max: f64,
    #[prost(double, tag = "3")]
    pub(super) num: f64,
    #[prost(double, tag = "4")]
    pub(super) sum: f64,
    #[prost(double, tag = "5")]
    pub(super) sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    pub(super) limits: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub(super) counts: Vec<f64>,
}

impl Histogram {
    /// The histogram of `values` in equally wide buckets; `None` without finite values.
    pub(super) fn of_values(values: &[f64]) -> Option<Histogram> {
        const N_BUCKETS: usize = 30;
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        let width = (max - min) / N_BUCKETS as f64;
        // One bucket for equal values, and for those too far apart for their distance to be finite.
        let n = if width > 0.0 && width.is_finite() { N_BUCKETS } else { 1 };
        let mut limits: Vec<f64> = (1..n).map(|i| min + width * i as f64).collect();
        limits.push(max);
        let mut counts = vec![0.0; n];
        for value in &values {
            // Rounding can put the largest value one bucket too far.
            let bucket = if n == 1 { 0 } else { (((value - min) / width) as usize).min(n - 1) };
            counts[bucket] += 1.0;
        }
        let sum = values.iter().sum();
        let sum_squares = values.iter().map(|value| value * value).sum();
        Some(Histogram { min, max, num: values.len() as f64, sum, sum_squares, limits, counts })
    }

    /// The histogram of `counts[i]` values from `edges[i]` to `edges[i + 1]`.
    ///
    /// With as many counts as edges, the last bucket has no upper bound and is shown as wide as the one
    /// before. Sums take each value as the middle of its bucket. `None` without counts, and for edges that do
    /// not rise or do not fit the counts.
    pub(super) fn of_buckets(edges: &[f64], counts: &[f64]) -> Option<Histogram> {
        let mut edges = edges.to_vec();
        if edges.len() == counts.len() {
            let last = *edges.last()?;
            let width = edges.len().checked_sub(2).map_or(1.0, |before| last - edges[before]);
            edges.push(last + width);
        }
        let rises = edges.windows(2).all(|pair| pair[0] < pair[1]);
        if edges.len() != counts.len() + 1 || !rises || edges.iter().any(|edge| !edge.is_finite()) {
            return None;
        }
        let first = counts.iter().position(|&count| count > 0.0)?;
        let last = counts.iter().rposition(|&count| count > 0.0)?;
        let middles = || counts.iter().zip(edges.windows(2)).map(|(&count, pair)| (count, (pair[0] + pair[1]) / 2.0));
        Some(Histogram {
            min: edges[first],
            max: edges[last + 1],
            num: counts.iter().sum(),
            sum: middles().map(|(count, middle)| count * middle).sum(),
            sum_squares: middles().map(|(count, middle)| count * middle * middle).sum(),
            limits: edges[first + 1..=last + 1].to_vec(),
            counts: counts[first..=last].to_vec(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_buckets_from_the_least_to_the_largest() {
        let values: Vec<f64> = (0..=60).map(f64::from).collect();
        let histogram = Histogram::of_values(&values).unwrap();
        assert_eq!((histogram.min, histogram.max, histogram.num), (0.0, 60.0, 61.0));
        assert_eq!((histogram.sum, histogram.sum_squares), (1830.0, 73_810.0));
        assert_eq!((histogram.limits.len(), histogram.limits[0], histogram.limits[29]), (30, 2.0, 60.0));
        assert_eq!(histogram.counts[..29], [2.0; 29]);
        assert_eq!(histogram.counts[29], 3.0);
    }

    #[test]
    fn values_that_are_alike_far_apart_or_no_numbers_give_a_histogram_or_none() {
        let alike = Histogram::of_values(&[7.0, 7.0, f64::NAN, f64::INFINITY]).unwrap();
        assert_eq!((alike.min, alike.max, alike.limits, alike.counts), (7.0, 7.0, vec![7.0], vec![2.0]));
        let apart = Histogram::of_values(&[f64::MIN, 0.0, f64::MAX]).unwrap();
        assert_eq!((apart.limits, apart.counts), (vec![f64::MAX], vec![3.0]));
        let close = Histogram::of_values(&[0.0, f64::from_bits(1)]).unwrap();
        assert_eq!(close.counts.iter().sum::<f64>(), 2.0);
        assert_eq!(Histogram::of_values(&[]), None);
        assert_eq!(Histogram::of_values(&[f64::NAN]), None);
    }

    #[test]
    fn counts_between_edges_keep_their_buckets_without_the_empty_ends() {
        let histogram = Histogram::of_buckets(&[0.0, 1.0, 2.0, 4.0, 8.0], &[0.0, 3.0, 1.0, 0.0]).unwrap();
        assert_eq!((histogram.min, histogram.max, histogram.num), (1.0, 4.0, 4.0));
        assert_eq!((histogram.sum, histogram.sum_squares), (7.5, 15.75));
        assert_eq!((histogram.limits, histogram.counts), (vec![2.0, 4.0], vec![3.0, 1.0]));
    }

    #[test]
    fn an_open_last_bucket_is_as_wide_as_the_one_before() {
        let histogram = Histogram::of_buckets(&[0.0, 1.0, 3.0], &[1.0, 0.0, 2.0]).unwrap();
        assert_eq!((histogram.min, histogram.max), (0.0, 5.0));
        assert_eq!((histogram.limits, histogram.counts), (vec![1.0, 3.0, 5.0], vec![1.0, 0.0, 2.0]));
        assert_eq!(Histogram::of_buckets(&[4.0], &[2.0]).unwrap().limits, [5.0]);
    }

    #[test]
    fn edges_and_counts_that_do_not_fit_are_no_histogram() {
        for (edges, counts) in [
            (&[][..], &[][..]),
            (&[0.0], &[]),
            (&[0.0, 1.0], &[0.0]),
            (&[0.0, 1.0], &[1.0, 1.0, 1.0]),
            (&[1.0, 0.0], &[1.0]),
            (&[0.0, f64::NAN], &[1.0]),
            (&[0.0, f64::INFINITY], &[1.0]),
        ] {
            assert_eq!(Histogram::of_buckets(edges, counts), None, "{edges:?} {counts:?}");
        }
    }
}
