//! A pass over all parameters: in blocks, with the widest SIMD instructions, and with sums in a fixed order.

use num_traits::Float;

use super::cast;

/// Parameters of a block: few enough that a block of each of the optimiser's vectors stays in the L1 cache
/// for a second look.
pub(super) const BLOCK: usize = 1024;

/// Independent partial sums: with one, each addition would wait for the last.
const LANES: usize = 16;

/// The sum of squares in `f64`, in an order that depends on positions alone, so that every machine gets the
/// same bits.
pub(super) struct SquareSum([f64; LANES]);

impl SquareSum {
    pub(super) fn new() -> Self {
        SquareSum([0.0; LANES])
    }

    #[inline(always)]
    pub(super) fn add<F: Float>(&mut self, values: &[F]) {
        let (chunks, rest) = values.as_chunks::<LANES>();
        // A copy stays in registers during the loop.
        let mut sums = self.0;
        for chunk in chunks {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum += square(*value);
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += square(*value);
        }
        self.0 = sums;
    }

    /// The L2 norm of the numbers.
    pub(super) fn root(&self) -> f64 {
        self.0.iter().sum::<f64>().sqrt()
    }
}

#[inline(always)]
fn square<F: Float>(value: F) -> f64 {
    value.to_f64().map_or(f64::NAN, |value| value * value)
}

/// `value`, or 0 where it is smaller than `smallest`.
///
/// Subnormal numbers slow a pass down tenfold, and they do occur: the mean of gradients that have become 0,
/// such as those of a dead unit, decays to one and stays there, because it rounds to itself.
#[inline(always)]
pub(super) fn flush<F: Float>(value: F, smallest: F) -> F {
    if value.abs() < smallest { F::zero() } else { value }
}

/// The smallest gradient that counts: a thousandth of its square is still a normal float.
pub(super) fn smallest_gradient<F: Float>() -> F {
    cast::<F>(64.0) * F::min_positive_value().sqrt()
}

/// Runs `pass`, which must be `#[inline(always)]`, compiled for the widest SIMD instructions of this machine.
/// The results are the same on all machines: the compiler neither reorders sums nor fuses multiplications
/// with additions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn at_full_width<R>(pass: impl FnOnce() -> R) -> R {
    use pulp::x86::{V3, V4};
    if let Some(avx512) = V4::try_new() {
        avx512.vectorize(pass)
    } else if let Some(avx2) = V3::try_new() {
        avx2.vectorize(pass)
    } else {
        pass()
    }
}

/// Runs `pass`: the target's SIMD instructions are the widest.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn at_full_width<R>(pass: impl FnOnce() -> R) -> R {
    pass()
}
