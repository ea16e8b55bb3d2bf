//! Spaces: which observations an environment shows and which actions it takes.

mod bounds;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::PolicyError;

/// The set that an observation or an action comes from (gymnasium's `Discrete`, `MultiDiscrete` and `Box`).
///
/// As an *action*, `Discrete` is one index and `MultiDiscrete` one index per choice. As an *observation* both are one-hot
/// vectors of `f32`, which is what a network reads; a `Box` is its numbers, flattened in row-major order.
///
/// The constructors refuse spaces that contradict themselves; a space written out or read from a file is checked by
/// [`Space::check`] wherever this library takes one.
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
    /// One of `n` things, numbered from 0.
    Discrete {
        /// How many things.
        n: usize,
    },
    /// Several independent choices.
    MultiDiscrete {
        /// The number of things of each choice.
        nvec: Vec<usize>,
    },
    /// Numbers between bounds.
    Box {
        /// The lowest value of each number, flattened; may be −∞.
        #[serde(with = "bounds")]
        low: Vec<f32>,
        /// The highest value of each number, flattened; may be ∞.
        #[serde(with = "bounds")]
        high: Vec<f32>,
        /// The shape before flattening.
        shape: Vec<usize>,
        /// How a number is stored.
        dtype: ObsDtype,
    },
}

/// How the numbers of an observation are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObsDtype {
    /// 32-bit floats.
    F32,
    /// Bytes, such as pixels. Networks scale them by 1/255.
    U8,
}

impl Space {
    /// One of `n` things.
    pub fn discrete(n: usize) -> Result<Self, PolicyError> {
        Self::Discrete { n }.checked()
    }

    /// One of `nvec[i]` things for each choice `i`.
    pub fn multi_discrete(nvec: Vec<usize>) -> Result<Self, PolicyError> {
        Self::MultiDiscrete { nvec }.checked()
    }

    /// `f32` numbers between `low` and `high`, each as long as the product of `shape`.
    pub fn boxed(low: Vec<f32>, high: Vec<f32>, shape: Vec<usize>) -> Result<Self, PolicyError> {
        Self::Box { low, high, shape, dtype: ObsDtype::F32 }.checked()
    }

    /// Bytes from 0 to 255 in the given shape.
    pub fn bytes(shape: Vec<usize>) -> Result<Self, PolicyError> {
        // A shape too big to count is left to `check`, which names it; until then no memory is asked for.
        let len = numbers_in(&shape).filter(|&len| len <= MAX_NUMBERS).unwrap_or(0);
        Self::Box { low: vec![0.0; len], high: vec![255.0; len], shape, dtype: ObsDtype::U8 }.checked()
    }

    /// The number of stored numbers of one observation.
    pub fn obs_len(&self) -> usize {
        match self {
            Self::Discrete { n } => *n,
            Self::MultiDiscrete { nvec } => nvec.iter().sum(),
            Self::Box { low, .. } => low.len(),
        }
    }

    /// How the numbers of an observation are stored.
    pub fn obs_dtype(&self) -> ObsDtype {
        match self {
            Self::Discrete { .. } | Self::MultiDiscrete { .. } => ObsDtype::F32,
            Self::Box { dtype, .. } => *dtype,
        }
    }

    /// The number of stored numbers of one action.
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

    /// The number of network outputs that describe a distribution over this space: a logit for each thing, or a mean and
    /// a log standard deviation for each number.
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

    /// Whether the space makes sense: nothing empty, bounds in order and as many as the shape says.
    pub fn check(&self) -> Result<(), PolicyError> {
        match self.contradiction() {
            None => Ok(()),
            Some(reason) => Err(PolicyError::BadSpace { space: Box::new(self.clone()), reason }),
        }
    }

    fn checked(self) -> Result<Self, PolicyError> {
        self.check().map(|()| self)
    }

    fn contradiction(&self) -> Option<String> {
        let too_big = || Some(format!("more than {MAX_NUMBERS} numbers"));
        match self {
            Self::Discrete { n: 0 } => Some("a choice needs at least one thing to choose".into()),
            Self::Discrete { n } if *n > MAX_NUMBERS => too_big(),
            Self::Discrete { .. } => None,
            Self::MultiDiscrete { nvec } if nvec.is_empty() => Some("there is no choice to make".into()),
            Self::MultiDiscrete { nvec } => match nvec.iter().position(|&n| n == 0) {
                Some(i) => Some(format!("choice {i} needs at least one thing to choose")),
                None if nvec
                    .iter()
                    .try_fold(0, |sum: usize, &n| sum.checked_add(n))
                    .is_none_or(|n| n > MAX_NUMBERS) =>
                {
                    too_big()
                }
                None => None,
            },
            Self::Box { low, high, shape, dtype } => {
                let Some(len) = numbers_in(shape).filter(|&len| len <= MAX_NUMBERS) else {
                    return too_big();
                };
                if len == 0 {
                    return Some("the shape holds no number".into());
                }
                if low.len() != len || high.len() != len {
                    let (lows, highs) = (low.len(), high.len());
                    return Some(format!(
                        "the shape holds {len} numbers, but there are {lows} low and {highs} high bounds"
                    ));
                }
                // NaN is in no order.
                let in_order = |i: usize| low[i] <= high[i];
                if let Some(i) = (0..len).find(|&i| !in_order(i)) {
                    return Some(format!("number {i} has low bound {} and high bound {}", low[i], high[i]));
                }
                let outside_a_byte = |i: &usize| low[*i] < 0.0 || high[*i] > 255.0;
                match (0..len).find(outside_a_byte) {
                    Some(i) if *dtype == ObsDtype::U8 => {
                        Some(format!("number {i} is a byte, but its bounds are {} and {}", low[i], high[i]))
                    }
                    _ => None,
                }
            }
        }
    }
}

/// Far above any observation seen in practice, far below what would exhaust memory or overflow a product.
const MAX_NUMBERS: usize = 1 << 28;

fn numbers_in(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1, |product: usize, &n| product.checked_mul(n))
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
