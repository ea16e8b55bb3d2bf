//! Normalisation of observations.

use crate::PolicyError;
use crate::error::check_len;

/// Normalises each number of an observation to mean 0 and standard deviation 1, and clips it. The statistics
/// are fixed. A policy trained with it needs it to act:
/// [`Policy::with_normalizer`](crate::Policy::with_normalizer).
///
/// ```
/// use pronk_policy::ObsNormalizer;
///
/// let normalizer = ObsNormalizer { mean: vec![100.0, 0.0], std: vec![50.0, 0.1], clip: 10.0 };
/// let mut rows = [150.0, 0.0, 100.0, -5.0];
/// normalizer.apply(&mut rows)?;
/// assert_eq!(rows, [1.0, 0.0, 0.0, -10.0]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ObsNormalizer {
    /// `[obs_len]`: means.
    pub mean: Vec<f64>,
    /// `[obs_len]`: standard deviations, above 0.
    pub std: Vec<f64>,
    /// The bound on normalised numbers.
    pub clip: f32,
}

impl ObsNormalizer {
    /// Normalises observations in place.
    ///
    /// *Shape*: `rows` is `[rows, obs_len]`.
    ///
    /// # Errors
    /// Incomplete rows, or a `mean` and `std` of different lengths.
    pub fn apply(&self, rows: &mut [f32]) -> Result<(), PolicyError> {
        let obs_len = self.mean.len();
        check_len("std", obs_len, self.std.len())?;
        check_len("observations", rows.len() / obs_len.max(1) * obs_len, rows.len())?;
        for row in rows.chunks_exact_mut(obs_len.max(1)) {
            for ((value, mean), std) in row.iter_mut().zip(&self.mean).zip(&self.std) {
                // In f64, so that large numbers that hardly vary keep their digits.
                *value = (((f64::from(*value) - mean) / std) as f32).clamp(-self.clip, self.clip);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rows_that_are_not_whole_are_refused() {
        let normalizer = ObsNormalizer { mean: vec![0.0; 3], std: vec![1.0; 3], clip: 10.0 };
        let error = normalizer.apply(&mut [0.0; 4]).unwrap_err();
        assert!(matches!(error, PolicyError::Length { what: "observations", expected: 3, got: 4 }), "{error}");
        let uneven = ObsNormalizer { std: vec![1.0; 2], ..normalizer };
        assert!(uneven.apply(&mut [0.0; 3]).is_err());
    }

    #[test]
    fn large_numbers_that_hardly_vary_keep_their_digits() {
        let normalizer = ObsNormalizer { mean: vec![1e6 + 0.25], std: vec![0.25], clip: 10.0 };
        let mut rows = [1e6, 1e6 + 0.5];
        normalizer.apply(&mut rows).unwrap();
        assert_eq!(rows, [-1.0, 1.0]);
    }
}
