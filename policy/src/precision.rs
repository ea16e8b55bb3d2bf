//! The precision of a network's products.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::ops::Unit;

/// The precision of the factors that a [`CpuNetwork`](crate::CpuNetwork) multiplies. Weights, sums,
/// activations and gradients are stored as `f32` in any case.
///
/// ```
/// use pronk_policy::Precision;
///
/// assert_eq!(Precision::default(), Precision::F32);
/// Precision::F32.check_fast()?;
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 24 bits: nothing is rounded.
    #[default]
    F32,
    /// 8 bits, bfloat16: weights, observations, activations and gradients are rounded where layers multiply
    /// them. Two layers are exact: the heads, which give logits and values, and a first convolution whose
    /// kernels have rows of odd length.
    Bf16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

impl Precision {
    /// Checks that this processor has instructions for it. Without them the network computes the same,
    /// slowly.
    pub fn check_fast(self) -> Result<(), PolicyError> {
        if self == Self::Bf16 && Unit::fastest() == Unit::Numbers {
            return Err(PolicyError::SlowPrecision);
        }
        Ok(())
    }
}
