//! [`Point`]: the values that the parameters of a sweep have in a trial.

use pronk::Rng;
use serde_json::{Map, Value};

use super::parameter::Parameter;
use crate::run_file::{Entry, FileError};

/// The values that the parameters have in a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point(pub(super) Vec<Entry>);

impl Point {
    /// Key and value of each parameter.
    pub(super) fn values(&self) -> Map<String, Value> {
        self.0.iter().map(|entry| (entry.key.join("."), entry.value.clone())).collect()
    }
}

/// How many points the grid of the parameters has.
///
/// # Errors
/// A parameter without a list of values.
pub(super) fn grid_size(parameters: &[Parameter]) -> Result<usize, FileError> {
    parameters.iter().try_fold(1_usize, |size, parameter| Ok(size.saturating_mul(parameter.all()?.len())))
}

/// Every combination of the values of the parameters; those of the last one change fastest.
///
/// # Errors
/// A parameter without a list of values.
pub(super) fn grid(parameters: &[Parameter]) -> Result<Vec<Point>, FileError> {
    parameters.iter().try_fold(vec![Point(Vec::new())], |points, parameter| {
        let values = parameter.all()?;
        let with = |point: &Point, value: &Entry| Point([&point.0[..], std::slice::from_ref(value)].concat());
        Ok(points.iter().flat_map(|point| values.iter().map(|value| with(point, value))).collect())
    })
}

/// A point at random, which depends on the seed and the number of the trial alone.
pub(super) fn random(parameters: &[Parameter], seed: u64, trial: u64) -> Point {
    let mut rng = Rng::stream(seed, &[trial]);
    Point(parameters.iter().map(|parameter| parameter.draw(&mut rng)).collect())
}
