//! [`LogStdRange`]: bounds on the standard deviations of a Gaussian.

use serde::{Deserialize, Serialize};

use crate::PolicyError;

/// Bounds on the logarithm of a Gaussian's standard deviation. Outputs beyond are clamped. At a bound and
/// beyond, gradients that would lead further out are dropped; those that lead back pass.
///
/// In a file it is `[lowest, highest]`. The default `[-5, 2]` means standard deviations from 0.007 to 7.4,
/// where the bounds of actions are ±1. Without bounds, a policy with clamped actions may widen forever, since
/// all actions beyond the bounds earn the same.
///
/// # Example
/// ```
/// use pronk_policy::LogStdRange;
///
/// let range = LogStdRange::new(-3.0, 0.5)?;
/// assert_eq!((range.lowest(), range.highest()), (-3.0, 0.5));
/// assert!(LogStdRange::new(1.0, 0.0).is_err());
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(f32, f32)", into = "(f32, f32)")]
pub struct LogStdRange {
    lowest: f32,
    highest: f32,
}

impl LogStdRange {
    /// No bounds, for comparisons. It cannot be written to a file.
    pub const UNBOUNDED: Self = Self { lowest: f32::NEG_INFINITY, highest: f32::INFINITY };

    pub(crate) const DEFAULT: Self = Self { lowest: -5.0, highest: 2.0 };

    /// The range from `lowest` to `highest`.
    ///
    /// # Errors
    /// A bound that is not finite, or bounds out of order.
    pub fn new(lowest: f32, highest: f32) -> Result<Self, PolicyError> {
        if lowest.is_finite() && highest.is_finite() && lowest < highest {
            return Ok(Self { lowest, highest });
        }
        let reason = format!(
            "log_std_range = [{lowest}, {highest}]: the logarithms of the least and the greatest standard deviation have \
             to be finite, the first below the second; [-5, 2] is usual"
        );
        Err(PolicyError::BadSpec { reason })
    }

    /// The lower bound.
    pub fn lowest(self) -> f32 {
        self.lowest
    }

    /// The upper bound.
    pub fn highest(self) -> f32 {
        self.highest
    }
}

impl Default for LogStdRange {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<(f32, f32)> for LogStdRange {
    type Error = PolicyError;

    fn try_from((lowest, highest): (f32, f32)) -> Result<Self, PolicyError> {
        Self::new(lowest, highest)
    }
}

impl From<LogStdRange> for (f32, f32) {
    fn from(range: LogStdRange) -> Self {
        (range.lowest, range.highest)
    }
}
