//! A curve in bounded memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A curve of at most `capacity` points. Each covers an interval of x and keeps minimum, mean and maximum.
/// When x outgrows the last interval, all intervals double and neighbours merge.
#[derive(Clone, Debug)]
pub(super) struct Series {
    capacity: usize,
    /// The start of the first interval.
    origin: Option<f64>,
    stretch: f64,
    points: BTreeMap<u64, Point>,
}

/// The figures in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// The mean x in the interval.
    pub(super) x: f64,
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) max: f64,
    n: f64,
}

impl Series {
    /// An empty curve with intervals of length `stretch` at first.
    pub(super) fn new(capacity: usize, stretch: f64) -> Series {
        Series { capacity, origin: None, stretch, points: BTreeMap::new() }
    }

    /// Adds a figure with its range, which defaults to the figure itself. Non-finite figures are left out.
    pub(super) fn push(&mut self, x: f64, mean: f64, range: (Option<f64>, Option<f64>)) {
        if !(x.is_finite() && mean.is_finite()) {
            return;
        }
        // Keeps differences and sums finite.
        let tame = |value: f64| value.clamp(-1e300, 1e300);
        let (x, mean) = (tame(x), tame(mean));
        let end = |end: Option<f64>| end.filter(|end| end.is_finite()).map_or(mean, tame);
        let point = Point { x, min: end(range.0).min(mean), mean, max: end(range.1).max(mean), n: 1.0 };
        let origin = *self.origin.get_or_insert(x);
        while (x - origin) / self.stretch >= self.capacity as f64 {
            self.halve();
        }
        // An x before the first is in the first interval.
        let at = ((x - origin) / self.stretch).max(0.0) as u64;
        self.points.entry(at).and_modify(|there| *there = there.with(point)).or_insert(point);
    }

    /// `{"x": […], "mean": […]}`, with `"min"` and `"max"` where they differ from the mean.
    pub(super) fn to_json(&self) -> Value {
        let column = |value: fn(&Point) -> f64| self.points.values().map(|point| rounded(value(point))).collect();
        let (x, mean): (Vec<f64>, Vec<f64>) = (column(|point| point.x), column(|point| point.mean));
        let mut curve = json!({"x": x, "mean": mean});
        if self.points.values().any(|point| point.min < point.mean || point.max > point.mean) {
            let (min, max): (Vec<f64>, Vec<f64>) = (column(|point| point.min), column(|point| point.max));
            (curve["min"], curve["max"]) = (json!(min), json!(max));
        }
        curve
    }

    #[cfg(test)]
    fn points(&self) -> impl Iterator<Item = Point> {
        self.points.values().copied()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    fn halve(&mut self) {
        self.stretch *= 2.0;
        for (at, point) in std::mem::take(&mut self.points) {
            self.points.entry(at / 2).and_modify(|there| *there = there.with(point)).or_insert(point);
        }
    }
}

impl Point {
    fn with(self, other: Point) -> Point {
        let n = self.n + other.n;
        // Weights first, so that no sum overflows.
        let mean = |a: f64, b: f64| a * (self.n / n) + b * (other.n / n);
        Point {
            x: mean(self.x, other.x),
            min: self.min.min(other.min),
            mean: mean(self.mean, other.mean),
            max: self.max.max(other.max),
            n,
        }
    }
}

/// Seven digits, more than a chart shows, halve the page.
fn rounded(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_curve_halves_its_resolution_and_keeps_ranges_and_means() {
        let mut series = Series::new(8, 1.0);
        for x in 0..64 {
            series.push(f64::from(x), f64::from(x), (Some(-1.0), Some(100.0)));
        }
        let points: Vec<Point> = series.points().collect();
        assert_eq!(points.len(), 8);
        for (i, point) in points.iter().enumerate() {
            let middle = 8.0 * i as f64 + 3.5;
            assert!((point.x - middle).abs() < 1e-9 && (point.mean - middle).abs() < 1e-9, "{point:?}");
            assert_eq!((point.min, point.max), (-1.0, 100.0));
        }
    }

    #[test]
    fn a_curve_never_has_more_points_than_it_may() {
        let mut series = Series::new(512, 1.0);
        let mut x = 0.0;
        for i in 0..100_000_u32 {
            x += f64::from(1 + i % 977);
            series.push(x, f64::from(i), (None, None));
            assert!(series.len() <= 512);
        }
        assert!(series.len() >= 256, "{}", series.len());
    }

    #[test]
    fn figures_that_are_not_finite_are_left_out() {
        let mut series = Series::new(8, 1.0);
        series.push(1.0, f64::NAN, (None, None));
        series.push(f64::INFINITY, 1.0, (None, None));
        series.push(2.0, f64::NEG_INFINITY, (None, None));
        assert_eq!(series.len(), 0);
        series.push(3.0, 4.0, (Some(f64::NAN), None));
        assert_eq!(series.points().next(), Some(Point { x: 3.0, min: 4.0, mean: 4.0, max: 4.0, n: 1.0 }));
    }

    #[test]
    fn curves_begin_where_their_run_begins_and_reach_as_far_as_it_goes() {
        let mut series = Series::new(512, 1.0);
        for x in [9.0e15, 9.0e15 + 2.0, 9.0e15 + 600.0, f64::MAX, 5.0] {
            series.push(x, 1.0, (None, None));
        }
        assert!(series.len() <= 512 && series.points().all(|point| point.x.is_finite()));
        let mut resumed = Series::new(512, 1.0);
        for x in 0..300 {
            resumed.push(1e9 + f64::from(x), 0.0, (None, None));
        }
        assert_eq!(resumed.len(), 300);
    }
}
