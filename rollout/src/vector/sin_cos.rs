use std::f64::consts::FRAC_2_PI;

/// 1.5 · 2⁵²: adding it rounds to an integer, which ends up in the low bits of the sum.
const ROUNDS: f64 = 6_755_399_441_055_744.0;

/// π/2 in three parts, of which the first two have few enough bits for exact products with small integers.
const HALF_PI: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];

/// Branch-free sine and cosine, which the compiler vectorises, with the same bits on every machine.
///
/// The error is at most 2 ulp up to ±0.78 and 3e-16 up to ±1e5, and grows beyond. NaN and infinities give
/// NaN.
///
/// Source: the polynomials and the constants of fdlibm (Sun Microsystems 1993, `k_sin.c`, `k_cos.c`,
/// `e_rem_pio2.c`).
#[inline(always)]
pub(crate) fn sin_cos(angle: f64) -> (f64, f64) {
    // angle = k π/2 + rest, |rest| ≤ π/4.
    let rounded = angle * FRAC_2_PI + ROUNDS;
    let k = rounded - ROUNDS;
    let rest = angle - k * HALF_PI[0] - k * HALF_PI[1] - k * HALF_PI[2];
    let (sin, cos) = near_zero(rest);

    let quadrant = rounded.to_bits();
    let (sin, cos) = if quadrant & 1 == 0 { (sin, cos) } else { (cos, sin) };
    // The sine is negative in the third and fourth quadrant (bit 1 becomes the sign); the cosine is one
    // quadrant ahead.
    let flip = |number: f64, quadrant: u64| f64::from_bits(number.to_bits() ^ ((quadrant & 2) << 62));
    (flip(sin, quadrant), flip(cos, quadrant.wrapping_add(1)))
}

/// Sine and cosine of an angle up to ±π/4.
#[inline(always)]
fn near_zero(x: f64) -> (f64, f64) {
    const SIN: [f64; 6] = [
        -1.666_666_666_666_663_2e-1,
        8.333_333_333_322_49e-3,
        -1.984_126_982_985_795e-4,
        2.755_731_370_707_006_8e-6,
        -2.505_076_025_340_686_3e-8,
        1.589_690_995_211_55e-10,
    ];
    const COS: [f64; 6] = [
        4.166_666_666_666_66e-2,
        -1.388_888_888_887_411e-3,
        2.480_158_728_947_673e-5,
        -2.755_731_435_139_066_3e-7,
        2.087_572_321_298_175e-9,
        -1.135_964_755_778_819_5e-11,
    ];
    let square = x * x;
    let sin = x + square * x * series(square, &SIN);
    // `lost` compensates the rounding of 1 − x²/2.
    let half = 0.5 * square;
    let above = 1.0 - half;
    let lost = (1.0 - above) - half;
    let cos = above + (lost + square * square * series(square, &COS));
    (sin, cos)
}

/// `c₀ + c₁ x + c₂ x² + …`
#[inline(always)]
fn series(x: f64, coefficients: &[f64; 6]) -> f64 {
    let [c0, c1, c2, c3, c4, c5] = coefficients;
    c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))))
}

#[cfg(test)]
mod tests;
