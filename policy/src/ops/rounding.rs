//! Rounding to bfloat16: the upper half of an `f32`.

use super::instructions::vectorized;

/// The nearest bfloat16, of two the even one; NaN stays NaN.
#[inline(always)]
pub(super) fn rounded(x: f32) -> u16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if x.is_nan() { bits >> 16 | 0x40 } else { nearest }) as u16
}

/// The same number as an `f32`.
pub(super) fn widened(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

vectorized! {
    /// Rounds a matrix with rows of `step` numbers to bfloat16 and pairs each two rows, the first one low; a
    /// last row alone is paired with zeros.
    fn round_pairs<'a>(rows: &'a [f32], step: usize, pairs: &'a mut [u32]) {
        for (rows, pairs) in rows.chunks(2 * step).zip(pairs.chunks_exact_mut(step)) {
            let (low, high) = rows.split_at(step);
            pair_up(low, high, pairs);
        }
    }
}

vectorized! {
    /// The same for two rows, of which the second may be missing.
    fn round_pair<'a>(low: &'a [f32], high: &'a [f32], pairs: &'a mut [u32]) {
        pair_up(low, high, pairs);
    }
}

#[inline(always)]
fn pair_up(low: &[f32], high: &[f32], pairs: &mut [u32]) {
    for (pair, &low) in pairs.iter_mut().zip(low) {
        *pair = u32::from(rounded(low));
    }
    for (pair, &high) in pairs.iter_mut().zip(high) {
        *pair |= u32::from(rounded(high)) << 16;
    }
}
