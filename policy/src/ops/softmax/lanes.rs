//! Arithmetic on as many numbers as a register holds.

use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};
use std::ops::{Add, Div, Mul, Sub};

use pulp::Simd;

/// The most numbers that any register holds.
pub(super) const MOST: usize = 16;

/// The numbers in a register. No operations are fused, so all machines get the same bits.
#[derive(Clone, Copy)]
pub(super) struct Lanes<S: Simd> {
    simd: S,
    register: S::f32s,
}

impl<S: Simd> Lanes<S> {
    pub(super) const COUNT: usize = S::F32_LANES;

    #[inline(always)]
    pub(super) fn all(simd: S, number: f32) -> Self {
        Self { simd, register: simd.splat_f32s(number) }
    }

    /// The first [`Self::COUNT`] numbers of a slice.
    #[inline(always)]
    pub(super) fn of(simd: S, numbers: &[f32]) -> Self {
        Self { simd, register: S::as_simd_f32s(&numbers[..Self::COUNT]).0[0] }
    }

    /// The results of `number` for each lane.
    #[inline(always)]
    pub(super) fn from_each(simd: S, mut number: impl FnMut(usize) -> f32) -> Self {
        let mut numbers = [0.0; MOST];
        for (lane, place) in numbers.iter_mut().enumerate().take(Self::COUNT) {
            *place = number(lane);
        }
        Self::of(simd, &numbers)
    }

    /// Numbers for the first lanes, 0 for the others.
    #[inline(always)]
    pub(super) fn padded(simd: S, numbers: &[f32]) -> Self {
        Self::from_each(simd, |lane| numbers.get(lane).copied().unwrap_or(0.0))
    }

    #[inline(always)]
    pub(super) fn write(self, numbers: &mut [f32]) {
        S::as_mut_simd_f32s(&mut numbers[..Self::COUNT]).0[0] = self.register;
    }

    /// The numbers, one by one.
    #[inline(always)]
    pub(super) fn each(self) -> [f32; MOST] {
        let mut numbers = [0.0; MOST];
        self.write(&mut numbers);
        numbers
    }

    /// The maximum; this one if the other is NaN.
    #[inline(always)]
    pub(super) fn or_greater(self, other: Self) -> Self {
        self.select(self.simd.less_than_f32s(self.register, other.register), other, self)
    }

    /// 0 where these numbers are below `others`, 1 elsewhere and where one is NaN.
    #[inline(always)]
    pub(super) fn not_below(self, others: Self) -> Self {
        let below = self.simd.less_than_f32s(self.register, others.register);
        self.select(below, Self::all(self.simd, 0.0), Self::all(self.simd, 1.0))
    }

    /// 1 where these numbers are `number`, 0 elsewhere.
    #[inline(always)]
    pub(super) fn ones_where(self, number: f32) -> Self {
        let same = self.simd.equal_f32s(self.register, self.simd.splat_f32s(number));
        self.select(same, Self::all(self.simd, 1.0), Self::all(self.simd, 0.0))
    }

    /// `self · value`, and 0 for a weight of 0 even if the value is infinite.
    #[inline(always)]
    pub(super) fn share_of(self, value: Self) -> Self {
        let zero = Self::all(self.simd, 0.0);
        self.select(self.simd.equal_f32s(self.register, zero.register), zero, self * value)
    }

    /// The exponential of numbers of at most 0, or NaN. Zero below −87, near the smallest normal number;
    /// above, the relative error is below 1e-7.
    #[inline(always)]
    pub(super) fn exp(self) -> Self {
        /// Adding it leaves no bits for a fraction, which rounds.
        const ROUNDS: f32 = 12_582_912.0;
        let simd = self.simd;
        // x = k ln 2 + rest, |rest| ≤ ln(2) / 2.
        let rounded = self * LOG2_E + ROUNDS;
        let k = rounded - ROUNDS;
        let rest = self - k * LN_2_HIGH - k * LN_2_LOW;
        // The series up to rest⁷ / 7!: the first omitted term is below 6e-9. In pairs, to shorten the chain
        // of dependencies.
        let square = rest * rest;
        let (two, four, six) =
            (rest * (1.0 / 6.0) + 0.5, rest * (1.0 / 120.0) + 1.0 / 24.0, rest * (1.0 / 5040.0) + 1.0 / 720.0);
        let series = (six * square + four) * square + two;
        let exp_rest = series * square + rest + 1.0;
        // The last bits of `rounded` are k. It belongs where a float has its exponent, and there 1 has 127.
        let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(rounded.register), simd.splat_u32s(23));
        let power = simd.add_u32s(exponent, simd.splat_u32s(1.0_f32.to_bits()));
        let exp = exp_rest * Self { simd, register: simd.transmute_f32s_u32s(power) };
        let vanishes = simd.less_than_f32s(self.register, simd.splat_f32s(-87.0));
        self.select(vanishes, Self::all(simd, 0.0), exp)
    }

    /// The natural logarithm of finite numbers of at least 1, or NaN, with a relative error below 2e-7.
    #[inline(always)]
    pub(super) fn ln(self) -> Self {
        /// The float in whose last bits a whole number of up to 22 bits can be added to it.
        const WHOLE: f32 = 8_388_608.0;
        let simd = self.simd;
        // x = 2^k m, m from √½ to √2.
        let bits = simd.transmute_u32s_f32s(self.register);
        let places = simd.splat_u32s(23);
        let k = simd.wrapping_dyn_shr_u32s(simd.sub_u32s(bits, simd.splat_u32s(FRAC_1_SQRT_2.to_bits())), places);
        let m = simd.transmute_f32s_u32s(simd.sub_u32s(bits, simd.wrapping_dyn_shl_u32s(k, places)));
        let m = Self { simd, register: m };
        let k = simd.transmute_f32s_u32s(simd.add_u32s(k, simd.splat_u32s(WHOLE.to_bits())));
        let k = Self { simd, register: k } - WHOLE;
        // ln m = 2 artanh s, the series up to s⁹ / 9: the first term left out is below 3e-9 of it.
        let s = (m - 1.0) / (m + 1.0);
        let square = s * s;
        let series = ((square * (2.0 / 9.0) + 2.0 / 7.0) * square + 2.0 / 5.0) * square + 2.0 / 3.0;
        let ln_m = series * (square * s) + s * 2.0;
        let ln = k * LN_2_LOW + ln_m + k * LN_2_HIGH;
        let number = simd.equal_f32s(self.register, self.register);
        self.select(number, ln, self)
    }

    #[inline(always)]
    fn select(self, mask: S::m32s, if_set: Self, if_not: Self) -> Self {
        let register = self.simd.select_f32s(mask, if_set.register, if_not.register);
        Self { simd: self.simd, register }
    }
}

/// ln 2 in two parts: small integer multiples of the first are exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 355.0 / 512.0) as f32;

/// The operator between registers, and between a register and one number for all lanes.
macro_rules! operator {
    ($operator:ident, $method:ident, $instruction:ident) => {
        impl<S: Simd> $operator for Lanes<S> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self { simd: self.simd, register: self.simd.$instruction(self.register, other.register) }
            }
        }

        impl<S: Simd> $operator<f32> for Lanes<S> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: f32) -> Self {
                self.$method(Self::all(self.simd, other))
            }
        }
    };
}

operator!(Add, add, add_f32s);
operator!(Sub, sub, sub_f32s);
operator!(Mul, mul, mul_f32s);
operator!(Div, div, div_f32s);

#[cfg(test)]
mod tests;
