use pulp::{Arch, Simd, WithSimd};

/// The instruction set that products are computed with on this processor, such as `V4` (AVX-512), `V3` (AVX2)
/// or `Neon`. Sums are equal to the last bit only where it is the same.
///
/// ```
/// assert!(!pronk_policy::instructions().is_empty());
/// ```
pub fn instructions() -> &'static str {
    Arch::new().dispatch(Name)
}

struct Name;

impl WithSimd for Name {
    type Output = &'static str;

    fn with_simd<S: Simd>(self, _simd: S) -> &'static str {
        let path = std::any::type_name::<S>();
        path.rsplit("::").next().unwrap_or(path)
    }
}
