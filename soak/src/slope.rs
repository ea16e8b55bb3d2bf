//! [`Slope`]: whether something grows, however much it goes up and down.

/// A straight line through measurements, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    /// Per unit of `x`.
    pub(crate) slope: f64,
    /// Its standard error.
    pub(crate) error: f64,
}

impl Slope {
    /// Through the lowest of each `window` of `x`, which leaves out what is soon given back. The last window
    /// is seldom complete and does not count; `None` with fewer than four others.
    pub(crate) fn of_floors(points: &[(f64, f64)], window: f64) -> Option<Self> {
        let first = points.first()?.0;
        let mut floors: Vec<(f64, f64)> = Vec::new();
        for &(x, y) in points {
            let middle = first + (((x - first) / window).floor() + 0.5) * window;
            match floors.last_mut() {
                Some(floor) if floor.0 == middle => floor.1 = floor.1.min(y),
                _ => floors.push((middle, y)),
            }
        }
        floors.pop();
        Self::of(&floors)
    }

    fn of(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        if points.len() < 4 {
            return None;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
        let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
        let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
        let slope = xy / xx;
        let rest: f64 = points.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
        Some(Self { slope, error: (rest / (n - 2.0) / xx).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_no_error() {
        let points: Vec<_> = (0..100).map(|x| (f64::from(x), 3.0 * f64::from(x) + 1.0)).collect();
        let line = Slope::of_floors(&points, 10.0).unwrap();
        assert!((line.slope - 3.0).abs() < 1e-9 && line.error < 1e-9, "{line:?}");
        assert_eq!(Slope::of_floors(&points[..40], 10.0), None, "three windows are too few");
    }

    #[test]
    fn what_is_soon_given_back_does_not_count() {
        let points: Vec<_> =
            (0..100).map(|x| (f64::from(x), if x % 10 == 0 { 5.0 } else { f64::from(10 + x) })).collect();
        assert_eq!(Slope::of_floors(&points, 10.0).map(|line| line.slope), Some(0.0));
    }
}
