//! How a pass over all parameters is made: in blocks, with the machine's widest instructions, and with sums
//! whose order is fixed.

use num_traits::Float;

use super::cast;

/// Parameters of a block: few enough that a block of every vector of an optimiser stays in the first-level
/// cache, where the block can be looked at twice.
pub(super) const BLOCK: usize = 1024;

/// Independent partial sums: one running sum would wait for each addition.
const LANES: usize = 16;

/// The sum of squares of many numbers, in `f64`. Its order depends on the numbers' places alone, so every
/// machine gets the same bits.
pub(super) struct SquareSum([f64; LANES]);

impl SquareSum {
    pub(super) fn new() -> Self {
        SquareSum([0.0; LANES])
    }

    #[inline(always)]
    pub(super) fn add<F: Float>(&mut self, values: &[F]) {
        let (chunks, rest) = values.as_chunks::<LANES>();
        // A copy, which stays in registers over the whole loop.
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
/// Numbers below the smallest normal float slow a pass down tenfold, and they come by themselves: the mean of
/// gradients that have become 0, as a dead unit's do, decays to one of them and stays there, because it
/// rounds to itself.
#[inline(always)]
pub(super) fn flush<F: Float>(value: F, smallest: F) -> F {
    if value.abs() < smallest { F::zero() } else { value }
}

/// The smallest gradient to reckon with: weighted with a thousandth, its square is still a normal float.
pub(super) fn smallest_gradient<F: Float>() -> F {
    cast::<F>(64.0) * F::min_positive_value().sqrt()
}

/// Runs `pass` compiled for the widest vector instructions that this machine has; the target itself may
/// promise few. The result is the same on all of them: the compiler reorders nothing and fuses no
/// multiplication with an addition.
///
/// `pass` has to be marked `#[inline(always)]`, or it is compiled for the target only.
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

/// Runs `pass`: the target's own vector instructions are the widest.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn at_full_width<R>(pass: impl FnOnce() -> R) -> R {
    pass()
}
