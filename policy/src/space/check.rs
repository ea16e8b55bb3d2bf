use super::{ObsDtype, Space};
use crate::PolicyError;

impl Space {
    /// One of `n` values.
    pub fn discrete(n: usize) -> Result<Self, PolicyError> {
        Self::Discrete { n }.checked()
    }

    /// One of `nvec[i]` values for each choice `i`.
    pub fn multi_discrete(nvec: Vec<usize>) -> Result<Self, PolicyError> {
        Self::MultiDiscrete { nvec }.checked()
    }

    /// `f32` numbers between `low` and `high`, each as long as the product of `shape`.
    pub fn boxed(low: Vec<f32>, high: Vec<f32>, shape: Vec<usize>) -> Result<Self, PolicyError> {
        Self::Box { low, high, shape, dtype: ObsDtype::F32 }.checked()
    }

    /// Bytes from 0 to 255 in the given shape.
    pub fn bytes(shape: Vec<usize>) -> Result<Self, PolicyError> {
        // `check` refuses a shape whose size overflows, before any allocation.
        let len = numbers_in(&shape).filter(|&len| len <= MAX_NUMBERS).unwrap_or(0);
        Self::Box { low: vec![0.0; len], high: vec![255.0; len], shape, dtype: ObsDtype::U8 }.checked()
    }

    /// Checks that nothing is empty, and that bounds are ordered and as many as the shape has.
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
                // NaN has no order.
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

/// Far above any practical observation, far below what would exhaust memory or overflow.
const MAX_NUMBERS: usize = 1 << 28;

fn numbers_in(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1, |product: usize, &n| product.checked_mul(n))
}
