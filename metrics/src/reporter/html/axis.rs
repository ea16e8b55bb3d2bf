//! Where values stand on an axis, and the round numbers that are written beside it.

/// One axis of a chart: the range that it covers and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    min: f64,
    max: f64,
    step: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis that begins and ends on a tick and covers all from `min` to `max`, with about `n` steps.
    pub(super) fn rounded_out(min: f64, max: f64, n: u32) -> Axis {
        let (min, max) = apart(min, max);
        let step = round_step((max - min) / f64::from(n));
        let first = (min / step + 1e-9).floor();
        let last = (max / step - 1e-9).ceil();
        Axis { min: first * step, max: last * step, step, ticks: ticks(first, last, step) }
    }

    /// An axis that covers just what is from `min` to `max`, with about `n` steps.
    pub(super) fn exact(min: f64, max: f64, n: u32) -> Axis {
        let (min, max) = apart(min, max);
        let step = round_step((max - min) / f64::from(n));
        let first = (min / step - 1e-9).ceil();
        let last = (max / step + 1e-9).floor();
        Axis { min, max, step, ticks: ticks(first, last, step) }
    }

    /// How far along the axis `value` stands, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0)
    }

    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// What is written at a tick. All of an axis are in one unit and have the same number of decimals.
    pub(super) fn label(&self, tick: f64) -> String {
        if tick == 0.0 {
            return "0".to_owned();
        }
        let largest = self.min.abs().max(self.max.abs());
        let sign = if tick < 0.0 { "−" } else { "" };
        if !(1e-4..1e18).contains(&largest) {
            return format!("{sign}{:.1e}", tick.abs()).replace("e-", "e−");
        }
        let units = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
        let (size, unit) = units.into_iter().find(|(size, _)| largest >= *size).unwrap_or((1.0, ""));
        let size = if unit == "k" { 1e3 } else { size };
        let decimals = (-(self.step / size).log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
        format!("{sign}{:.decimals$}{unit}", tick.abs() / size)
    }
}

/// The two ends, moved apart when there is nothing between them.
fn apart(min: f64, max: f64) -> (f64, f64) {
    let size = min.abs().max(max.abs());
    if size < 1e-290 {
        return (0.0, 1.0);
    }
    if max - min > 1e-9 * size { (min, max) } else { (min - 0.1 * size, max + 0.1 * size) }
}

/// The least of 1, 2, 5, 10, 20, … that is not much below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough * 0.7).unwrap_or(10.0 * power)
}

fn ticks(first: f64, last: f64, step: f64) -> Vec<f64> {
    // Adding zero turns the zero below zero into the ordinary one.
    (0..=(last - first).clamp(0.0, 30.0) as u32).map(|i| (first + f64::from(i)) * step + 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_in_one_unit() {
        assert_eq!(labels(&Axis::rounded_out(9.0, 500.0, 5)), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(labels(&Axis::exact(0.0, 1_863_040.0, 4)), ["0", "0.5M", "1.0M", "1.5M"]);
        assert_eq!(labels(&Axis::rounded_out(-0.013, 0.02, 4)), ["−0.02", "−0.01", "0", "0.01", "0.02"]);
        assert_eq!(labels(&Axis::rounded_out(0.0, 5000.0, 5)), ["0", "1000", "2000", "3000", "4000", "5000"]);
        assert_eq!(labels(&Axis::rounded_out(1.2e-7, 4e-7, 3)), ["1.0e−7", "2.0e−7", "3.0e−7", "4.0e−7"]);
    }

    #[test]
    fn an_axis_covers_its_values_at_any_size_and_with_nothing_between_them() {
        let ends = [
            (0.0, 0.0),
            (0.01, 0.01),
            (-3.0, -3.0),
            (1e300, 1e300),
            (-1e300, 1e300),
            (0.0, 5e-324),
            (1e-289, 2e-289),
            (9.007e15, 9.007e15 + 2.0),
            (1e9, 1e9 + 1e-3),
        ];
        for (min, max) in ends {
            for axis in [Axis::rounded_out(min, max, 5), Axis::exact(min, max, 5)] {
                assert!((1..=12).contains(&axis.ticks().len()), "{min} {max} {axis:?}");
                assert!((0.0..=1.0).contains(&axis.place(min)), "{axis:?}");
                assert!(axis.place(min) <= axis.place(max), "{axis:?}");
                assert!(axis.ticks().iter().all(|tick| tick.is_finite() && axis.label(*tick).len() < 24), "{axis:?}");
            }
        }
    }
}
