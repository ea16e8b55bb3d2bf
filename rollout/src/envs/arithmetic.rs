use pronk_policy::{ObsDtype, Rng, Space};

use crate::env::{ActionRef, EnvError};

/// The space of `N` numbers between bounds.
pub(super) fn numbers_between<const N: usize>(low: [f32; N], high: [f32; N]) -> Space {
    Space::Box { low: low.to_vec(), high: high.to_vec(), shape: vec![N], dtype: ObsDtype::F32 }
}

pub(super) fn uniform(low: f64, high: f64, rng: &mut Rng) -> f64 {
    low + (high - low) * rng.next_f64()
}

/// How sine and cosine are computed: one by one by the mathematical library, or many at once by `vectorised::sin_cos`.
pub(super) trait SinCos: Fn(f64) -> (f64, f64) + Copy {}

impl<F: Fn(f64) -> (f64, f64) + Copy> SinCos for F {}

/// The one number of a continuous action. NaN is refused, since no bound could clip it.
pub(super) fn one_number(name: &str, action: ActionRef<'_>) -> Result<f32, EnvError> {
    match action.continuous()? {
        [value] if !value.is_nan() => Ok(*value),
        other => Err(EnvError::new(format!("{name} takes one number, got {other:?}"))),
    }
}
