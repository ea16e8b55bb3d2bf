//! Rules for settings of several algorithms.

use crate::{LearnError, PgBootstrap, Schedule, VtraceConfig};

/// A discount, or a weight of later terms.
pub(crate) fn unit(name: &str, value: f64) -> Result<(), LearnError> {
    let rule = "from 0 to 1, or returns grow without bound";
    refuse_unless((0.0..=1.0).contains(&value), name, value, rule)
}

/// A weight in the loss.
pub(crate) fn weight(name: &str, value: f64) -> Result<(), LearnError> {
    refuse_unless(finite_and_not_negative(value), name, value, "finite and not negative")
}

/// A size above 0.
pub(crate) fn positive(name: &str, value: f64) -> Result<(), LearnError> {
    let works = finite_and_not_negative(value) && value as f32 > 0.0;
    refuse_unless(works, name, value, "finite and above 0 as a 32-bit float")
}

/// A bar on a ratio, or none.
pub(crate) fn bar(name: &str, bar: Option<f64>) -> Result<(), LearnError> {
    let rule = "finite and above 0, or nothing is learned; none turns clipping off";
    bar.map_or(Ok(()), |bar| refuse_unless(finite_and_not_negative(bar) && bar as f32 > 0.0, name, bar, rule))
}

/// The weight of the entropy bonus.
pub(crate) fn entropy_coeff(schedule: &Schedule) -> Result<(), LearnError> {
    let rule = "finite and not negative: the entropy is a bonus";
    [schedule.min_value(), schedule.max_value()]
        .into_iter()
        .try_for_each(|value| refuse_unless(finite_and_not_negative(value), "entropy_coeff", value, rule))
}

/// V-trace with these bars.
pub(crate) fn vtrace(clip_rho: Option<f64>, clip_pg_rho: Option<f64>, lambda: f64) -> VtraceConfig<f32> {
    VtraceConfig {
        clip_rho: clip_rho.map(|bar| bar as f32),
        clip_pg_rho: clip_pg_rho.map(|bar| bar as f32),
        clip_c: Some(1.0),
        lambda: lambda as f32,
        alpha: 1.0,
        pg_bootstrap: PgBootstrap::Target,
    }
}

fn finite_and_not_negative(value: f64) -> bool {
    value >= 0.0 && (value as f32).is_finite()
}

fn refuse_unless(works: bool, name: &str, value: f64, rule: &str) -> Result<(), LearnError> {
    if works {
        return Ok(());
    }
    Err(LearnError::Config { reason: format!("{name} is {value}; it must be {rule}") })
}
