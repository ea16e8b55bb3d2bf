//! Spaces of observations and actions.

mod bounds;

mod byte_scale;

mod check;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use self::byte_scale::ByteScale;

/// The set of observations or actions (Gymnasium's `Discrete`, `MultiDiscrete` and `Box`).
///
/// As an *action*, `Discrete` is one index and `MultiDiscrete` one index per choice. As an *observation* both
/// are one-hot vectors of `f32`; a `Box` is its numbers, flattened in row-major order. The constructors
/// refuse invalid spaces; [`Space::check`] checks others wherever they are used.
///
/// ```
/// use pronk_policy::Space;
///
/// let observation = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?;
/// let action = Space::discrete(2)?;
/// assert_eq!((observation.obs_len(), action.act_len(), action.dist_len()), (4, 1, 2));
/// assert!(Space::discrete(0).is_err());
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Space {
    /// One of `n` values, from 0.
    Discrete {
        /// The number of values.
        n: usize,
    },
    /// Several independent choices.
    MultiDiscrete {
        /// The number of values of each choice.
        nvec: Vec<usize>,
    },
    /// Numbers between bounds.
    Box {
        /// The lower bounds, flattened; may be −∞.
        #[serde(with = "bounds")]
        low: Vec<f32>,
        /// The upper bounds, flattened; may be ∞.
        #[serde(with = "bounds")]
        high: Vec<f32>,
        /// The shape before flattening.
        shape: Vec<usize>,
        /// The element type.
        dtype: ObsDtype,
    },
}

/// The element type of observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObsDtype {
    /// 32-bit floats.
    F32,
    /// Bytes, such as pixels. Networks scale them by their bounds, from 0 to 1: pixels, which have the bounds
    /// 0 and 255, by 1/255.
    U8,
}

impl Space {
    /// Elements of one observation.
    pub fn obs_len(&self) -> usize {
        match self {
            Self::Discrete { n } => *n,
            Self::MultiDiscrete { nvec } => nvec.iter().sum(),
            Self::Box { low, .. } => low.len(),
        }
    }

    /// The element type of observations.
    pub fn obs_dtype(&self) -> ObsDtype {
        match self {
            Self::Discrete { .. } | Self::MultiDiscrete { .. } => ObsDtype::F32,
            Self::Box { dtype, .. } => *dtype,
        }
    }

    /// Bytes of one frame, if an observation may be a stack of frames: bytes of shape
    /// `[frames, height, width]`. Images with channels have the same shape.
    pub fn frame_len(&self) -> Option<usize> {
        match self {
            Self::Box { shape, dtype: ObsDtype::U8, .. } => match shape[..] {
                [images, height, width] if images > 1 => Some(height * width),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether its shape is that of an image with its channels last, `[height, width, channels]` with 1, 3 or
    /// 4 channels; convolutional networks read `[channels, height, width]`.
    pub fn looks_channels_last(&self) -> bool {
        match self {
            // Other axes of so few elements may be the channels.
            Self::Box { shape, .. } => matches!(shape[..], [height, width, 1 | 3 | 4] if height.min(width) > 4),
            _ => false,
        }
    }

    /// Elements of one action.
    pub fn act_len(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::MultiDiscrete { nvec } => nvec.len(),
            Self::Box { low, .. } => low.len(),
        }
    }

    /// Whether actions are indices (`u32`) rather than numbers (`f32`).
    pub fn has_discrete_actions(&self) -> bool {
        !matches!(self, Self::Box { .. })
    }

    /// Inputs of a distribution over this space: a logit for each value, or a mean and a log standard
    /// deviation for each number.
    pub fn dist_len(&self) -> usize {
        match self {
            Self::Discrete { n } => *n,
            Self::MultiDiscrete { nvec } => nvec.iter().sum(),
            Self::Box { low, .. } => 2 * low.len(),
        }
    }

    /// Whether `obs` is an observation of this space stored as `f32`.
    pub fn contains_f32(&self, obs: &[f32]) -> bool {
        match self {
            Self::Discrete { n } => is_one_hot(obs, &[*n]),
            Self::MultiDiscrete { nvec } => is_one_hot(obs, nvec),
            Self::Box { low, high, dtype, .. } => *dtype == ObsDtype::F32 && within(obs, low, high),
        }
    }

    /// Whether `obs` is an observation of this space stored as bytes.
    pub fn contains_u8(&self, obs: &[u8]) -> bool {
        match self {
            Self::Box { low, high, dtype: ObsDtype::U8, .. } => {
                obs.len() == low.len()
                    && obs
                        .iter()
                        .zip(low.iter().zip(high))
                        .all(|(&x, (&low, &high))| (low..=high).contains(&f32::from(x)))
            }
            _ => false,
        }
    }

    /// Whether the indices are an action of this space.
    pub fn contains_discrete(&self, action: &[u32]) -> bool {
        match self {
            Self::Discrete { n } => matches!(action, [a] if (*a as usize) < *n),
            Self::MultiDiscrete { nvec } => {
                action.len() == nvec.len() && action.iter().zip(nvec).all(|(&a, &n)| (a as usize) < n)
            }
            Self::Box { .. } => false,
        }
    }

    /// Whether the numbers are an action of this space.
    pub fn contains_continuous(&self, action: &[f32]) -> bool {
        match self {
            Self::Box { low, high, .. } => within(action, low, high),
            _ => false,
        }
    }
}

fn within(xs: &[f32], low: &[f32], high: &[f32]) -> bool {
    xs.len() == low.len() && xs.iter().zip(low.iter().zip(high)).all(|(x, (low, high))| (low..=high).contains(&x))
}

fn is_one_hot(xs: &[f32], nvec: &[usize]) -> bool {
    let mut rest = xs;
    for &n in nvec {
        let Some((head, tail)) = rest.split_at_checked(n) else {
            return false;
        };
        if head.iter().filter(|&&x| x == 1.0).count() != 1 || head.iter().filter(|&&x| x == 0.0).count() != n - 1 {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discrete { n } => write!(f, "Discrete({n})"),
            Self::MultiDiscrete { nvec } => write!(f, "MultiDiscrete({nvec:?})"),
            Self::Box { low, high, shape, dtype } => {
                let lowest = low.iter().copied().fold(f32::INFINITY, f32::min);
                let highest = high.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let dtype = match dtype {
                    ObsDtype::F32 => "f32",
                    ObsDtype::U8 => "u8",
                };
                write!(f, "Box({lowest}..={highest}, {shape:?}, {dtype})")
            }
        }
    }
}

#[cfg(test)]
mod tests;
