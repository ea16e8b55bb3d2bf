//! Random numbers: seeded, splittable into streams, and the same on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use serde::{Deserialize, Serialize};

/// A seeded random number generator (xoshiro256++) whose state can be saved and restored.
///
/// A seed gives the same numbers on every machine and in every version with the same major number.
/// ([`Rng::normal`] depends on the last bits of the system's logarithm and cosine.) Every seed is good,
/// including 0.
///
/// ```
/// use pronk_policy::Rng;
///
/// let mut rng = Rng::stream(7, &[3, 0]); // seed 7, worker 3, its first incarnation
/// let again = Rng::stream(7, &[3, 0]).next_f32();
/// assert_eq!(rng.next_f32(), again);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng {
    state: Xoshiro256PlusPlus,
}

impl Rng {
    /// The generator of a seed.
    pub fn seed_from(seed: u64) -> Self {
        Self { state: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The generator at `path` below `seed`, for example worker, incarnation and environment. Different paths
    /// give independent streams.
    pub fn stream(seed: u64, path: &[u64]) -> Self {
        Self::seed_from(derive_seed(seed, path))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// A number in `[0, 1)`: one of the 2²⁴ multiples of 2⁻²⁴.
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1_u64 << 24) as f32)
    }

    /// A number in `[0, 1)`: one of the 2⁵³ multiples of 2⁻⁵³.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A uniform integer in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a 128-bit product maps 2^64 values onto n boxes, which are even once low products
        // below 2^64 mod n are rejected (Lemire, "Fast random integer generation in an interval", 2019).
        let uneven = if n == 0 { 0 } else { n.wrapping_neg() % n };
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= uneven {
                return (product >> 64) as u64;
            }
        }
    }

    /// A sample of the standard normal distribution (Box and Muller; two uniform numbers each).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.next_f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next_f64()).cos()
    }
}

/// The seed of [`Rng::stream`], as stable as it.
///
/// ```
/// use pronk_policy::derive_seed;
///
/// assert_ne!(derive_seed(7, &[1]), derive_seed(7, &[2]));
/// assert_ne!(derive_seed(7, &[1]), derive_seed(7, &[1, 0]));
/// ```
pub fn derive_seed(seed: u64, path: &[u64]) -> u64 {
    path.iter().fold(mix(seed), |seed, &step| mix(seed.rotate_left(32) ^ mix(step)))
}

/// A step of SplitMix64 (Steele, Lea and Flood, 2014): a bijection in which every input bit flips half the
/// output bits.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
