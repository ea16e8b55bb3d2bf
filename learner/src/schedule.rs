//! Values that change with the env-steps trained on.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// A value over the env-steps trained on so far, each counted once: a learning rate, an entropy coefficient.
///
/// In a config file it is a number or a list of `[env_steps, value]` points, as in RLlib.
///
/// # Example
/// ```
/// use pronk_learner::Schedule;
///
/// let lr = Schedule::piecewise_linear([(0.0, 1e-3), (1_000.0, 0.0)])?;
/// assert_eq!(lr.value(250.0), 0.75e-3);
/// assert_eq!(lr.value(5_000.0), 0.0);
/// # Ok::<(), pronk_learner::ScheduleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Repr", into = "Repr")]
pub enum Schedule {
    /// A constant.
    Constant(f64),
    /// Linear between points.
    PiecewiseLinear(PiecewiseLinear),
}

/// Linear interpolation, made by [`Schedule::piecewise_linear`].
#[derive(Clone, Debug, PartialEq)]
pub struct PiecewiseLinear {
    endpoints: Vec<(f64, f64)>,
    outside_value: Option<f64>,
}

/// Why points are no schedule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No points.
    #[error("a schedule needs at least one [env_steps, value] point; give one, or a plain number for a constant")]
    Empty,
    /// A step or value is NaN or infinite.
    #[error("point {index} of the schedule, [{step}, {value}], is not finite")]
    NotFinite {
        /// The point, from 0.
        index: usize,
        /// Its env-steps.
        step: f64,
        /// Its value.
        value: f64,
    },
    /// The value outside all pieces, or a constant, is NaN or infinite.
    #[error("the value {value} of the schedule is not finite")]
    ValueNotFinite {
        /// The value.
        value: f64,
    },
    /// Points out of order.
    #[error(
        "point {index} of the schedule is at {step} env-steps, before the point ahead of it at {previous}; sort them"
    )]
    NotSorted {
        /// The point, from 0.
        index: usize,
        /// Its env-steps.
        step: f64,
        /// The env-steps of the point before.
        previous: f64,
    },
}

impl Schedule {
    /// Linear between `(env_steps, value)` points, constant before the first and after the last. Two points
    /// at the same step make a jump to the later one's value.
    ///
    /// # Errors
    /// No points, one that is not finite, or points out of order.
    pub fn piecewise_linear(endpoints: impl Into<Vec<(f64, f64)>>) -> Result<Schedule, ScheduleError> {
        PiecewiseLinear::new(endpoints.into(), None).map(Schedule::PiecewiseLinear)
    }

    /// As [`Schedule::piecewise_linear`], but with `outside_value` before the first point and from the last
    /// one on, as RLlib's `PiecewiseSchedule` has it.
    ///
    /// # Errors
    /// The same, and an `outside_value` that is not finite.
    pub fn piecewise_linear_with_outside_value(
        endpoints: impl Into<Vec<(f64, f64)>>,
        outside_value: f64,
    ) -> Result<Schedule, ScheduleError> {
        PiecewiseLinear::new(endpoints.into(), Some(outside_value)).map(Schedule::PiecewiseLinear)
    }

    /// From `initial` to 0 over `env_steps`: RLlib's `entropy_coeff_schedule` if it is a number. An error if
    /// a number is not finite, or `env_steps` is negative.
    pub fn linear_to_zero(initial: f64, env_steps: f64) -> Result<Schedule, ScheduleError> {
        Schedule::piecewise_linear([(0.0, initial), (env_steps, 0.0)])
    }

    /// The value at `env_steps`.
    pub fn value(&self, env_steps: f64) -> f64 {
        match self {
            Schedule::Constant(value) => *value,
            Schedule::PiecewiseLinear(pieces) => pieces.value(env_steps),
        }
    }

    /// Its smallest value, to check a config once.
    pub fn min_value(&self) -> f64 {
        self.fold_values(f64::min)
    }

    /// Its largest value.
    pub(crate) fn max_value(&self) -> f64 {
        self.fold_values(f64::max)
    }

    fn fold_values(&self, pick: impl Fn(f64, f64) -> f64) -> f64 {
        match self {
            Schedule::Constant(value) => *value,
            Schedule::PiecewiseLinear(PiecewiseLinear { endpoints, outside_value }) => {
                let values = endpoints.iter().map(|&(_, value)| value).chain(*outside_value);
                // There is at least one point; every check refuses NaN.
                values.reduce(pick).unwrap_or(f64::NAN)
            }
        }
    }
}

impl PiecewiseLinear {
    fn new(endpoints: Vec<(f64, f64)>, outside_value: Option<f64>) -> Result<PiecewiseLinear, ScheduleError> {
        if endpoints.is_empty() {
            return Err(ScheduleError::Empty);
        }
        for (index, &(step, value)) in endpoints.iter().enumerate() {
            if !(step.is_finite() && value.is_finite()) {
                return Err(ScheduleError::NotFinite { index, step, value });
            }
        }
        for (index, pair) in endpoints.windows(2).enumerate() {
            let (previous, step) = (pair[0].0, pair[1].0);
            if step < previous {
                return Err(ScheduleError::NotSorted { index: index + 1, step, previous });
            }
        }
        if let Some(value) = outside_value.filter(|value| !value.is_finite()) {
            return Err(ScheduleError::ValueNotFinite { value });
        }
        Ok(PiecewiseLinear { endpoints, outside_value })
    }

    fn value(&self, step: f64) -> f64 {
        // The half-open piece [t_i, t_i+1) with `step` begins at the last point not after it.
        let begun = self.endpoints.partition_point(|&(t, _)| t <= step);
        let left = begun.checked_sub(1).map(|i| self.endpoints[i]);
        let right = self.endpoints.get(begun).copied();
        match (left, right) {
            (Some((t_left, left)), Some((t_right, right))) => {
                left + (step - t_left) / (t_right - t_left) * (right - left)
            }
            (Some((_, edge)), None) | (None, Some((_, edge))) => self.outside_value.unwrap_or(edge),
            // Not reached: there is at least one point.
            (None, None) => self.outside_value.unwrap_or_default(),
        }
    }
}

/// A schedule in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Repr {
    Constant(f64),
    Points(Vec<(f64, f64)>),
    PointsAndOutside { endpoints: Vec<(f64, f64)>, outside_value: f64 },
}

impl TryFrom<Repr> for Schedule {
    type Error = ScheduleError;

    fn try_from(repr: Repr) -> Result<Schedule, ScheduleError> {
        match repr {
            Repr::Constant(value) if value.is_finite() => Ok(Schedule::Constant(value)),
            Repr::Constant(value) => Err(ScheduleError::ValueNotFinite { value }),
            Repr::Points(endpoints) => Schedule::piecewise_linear(endpoints),
            Repr::PointsAndOutside { endpoints, outside_value } => {
                Schedule::piecewise_linear_with_outside_value(endpoints, outside_value)
            }
        }
    }
}

impl From<Schedule> for Repr {
    fn from(schedule: Schedule) -> Repr {
        match schedule {
            Schedule::Constant(value) => Repr::Constant(value),
            Schedule::PiecewiseLinear(PiecewiseLinear { endpoints, outside_value: None }) => Repr::Points(endpoints),
            Schedule::PiecewiseLinear(PiecewiseLinear { endpoints, outside_value: Some(outside_value) }) => {
                Repr::PointsAndOutside { endpoints, outside_value }
            }
        }
    }
}
