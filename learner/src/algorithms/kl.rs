//! The adaptive weight of a divergence.

use std::collections::BTreeMap;

use crate::LearnError;

/// The weight of a divergence in the loss, which keeps the divergence near a target: times 1.5 if it was
/// above twice the target, times 0.5 if below half of it.
///
/// *Source*: RLlib 2.2's `update_kl`; the idea is that of Schulman et al. 2017, section 4.
#[derive(Clone, Debug, PartialEq)]
pub struct KlCoeff {
    coeff: f64,
    target: f64,
    /// Divergences since the last change.
    sum: f64,
    count: u64,
}

/// Bounds from which the weight can return in reasonable time.
const LEAST: f64 = 1e-8;
const MOST: f64 = 1e8;

/// Of updates between two changes: above, a float skips counts, which only a damaged file can bring.
const MOST_UPDATES: f64 = (1_u64 << 53) as f64;

impl KlCoeff {
    /// Starts at `coeff` and aims at a mean divergence of `target`.
    pub fn new(coeff: f64, target: f64) -> Self {
        Self { coeff, target, sum: 0.0, count: 0 }
    }

    /// The current weight.
    pub fn value(&self) -> f64 {
        self.coeff
    }

    /// Records the mean divergence of an update; a non-finite one counts as four times the target.
    pub fn add(&mut self, kl: f64) {
        self.sum += if kl.is_finite() { kl } else { 4.0 * self.target };
        self.count += 1;
    }

    /// Updates recorded since the last change.
    pub fn updates(&self) -> u64 {
        self.count
    }

    /// Adapts the weight to the mean divergence since the last call.
    pub fn adapt(&mut self) {
        if self.count == 0 {
            return;
        }
        let kl = self.sum / self.count as f64;
        (self.sum, self.count) = (0.0, 0);
        let factor = if kl > 2.0 * self.target {
            1.5
        } else if kl < 0.5 * self.target {
            0.5
        } else {
            return;
        };
        if self.coeff > 0.0 {
            self.coeff = (self.coeff * factor).clamp(LEAST, MOST);
        }
    }

    /// Its state, as numbers by name.
    pub(crate) fn save(&self) -> BTreeMap<String, f64> {
        let numbers = [("kl_coeff", self.coeff), ("kl_sum", self.sum), ("kl_count", self.count as f64)];
        numbers.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
    }

    /// Restores its state.
    pub(crate) fn load(&mut self, numbers: &BTreeMap<String, f64>) -> Result<(), LearnError> {
        let number = |name: &str| match numbers.get(name) {
            Some(count) if name == "kl_count" && (*count > MOST_UPDATES || count.fract() != 0.0) => {
                Err(format!("`{name}` is {count}, which is no count of updates"))
            }
            // Rounding makes the divergences of equal policies a little less than 0.
            Some(number) if number.is_finite() && (*number >= 0.0 || name == "kl_sum") => Ok(*number),
            Some(number) => Err(format!("`{name}` is {number}; it must be finite and not negative")),
            None => Err(format!("`{name}` is missing: it was saved by another algorithm")),
        };
        let read = || Ok((number("kl_coeff")?, number("kl_sum")?, number("kl_count")?));
        let (coeff, sum, count) = read().map_err(|reason: String| LearnError::AlgorithmState { reason })?;
        (self.coeff, self.sum, self.count) = (coeff, sum, count as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
