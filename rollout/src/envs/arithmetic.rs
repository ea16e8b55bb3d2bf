use pronk_policy::{ObsDtype, Rng, Space};

/// The space of `N` floats between bounds.
pub(super) fn floats_between<const N: usize>(low: [f32; N], high: [f32; N]) -> Space {
    Space::Box { low: low.to_vec(), high: high.to_vec(), shape: vec![N], dtype: ObsDtype::F32 }
}

/// The space of `N` floats between `-high` and `high`.
pub(super) fn floats_within<const N: usize>(high: [f32; N]) -> Space {
    floats_between(high.map(|bound| -bound), high)
}

/// A number drawn uniformly from `low..high`.
#[inline]
pub(super) fn uniform(low: f64, high: f64, rng: &mut Rng) -> f64 {
    low + (high - low) * rng.next_f64()
}
