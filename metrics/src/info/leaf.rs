use serde_json::Value;

use super::InfoError;

/// One statistic: its value and its merge rule.
///
/// ```
/// use pronk_metrics::{Leaf, LeafValue, Reduction};
///
/// let longest = Leaf::new(17.0, Reduction::Max);
/// assert_eq!(longest.value(), &LeafValue::Number(17.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    value: LeafValue,
    rule: Reduction,
    /// The share of its tree's rows behind this value: below 1 after a merge with results that had NaN here,
    /// or no such leaf. Merging weighs by it, so merging in stages equals merging at once.
    pub(super) share: f64,
}

impl Leaf {
    /// A statistic with this rule.
    pub fn new(value: impl Into<LeafValue>, rule: Reduction) -> Leaf {
        Leaf { value: value.into(), rule, share: 1.0 }
    }

    /// The value.
    pub fn value(&self) -> &LeafValue {
        &self.value
    }

    /// The rule.
    pub fn rule(&self) -> Reduction {
        self.rule
    }
}

/// The value of a statistic.
///
/// ```
/// use pronk_metrics::LeafValue;
///
/// assert_eq!(LeafValue::from(vec![1.0, 2.0]), LeafValue::array(vec![2], vec![1.0, 2.0])?);
/// assert!(LeafValue::array(vec![2, 2], vec![1.0]).is_err());
/// # Ok::<(), pronk_metrics::InfoError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum LeafValue {
    /// One number.
    Number(f64),
    /// Numbers in row-major order, made by [`LeafValue::array`] or from a vector.
    #[non_exhaustive]
    Array {
        /// The sizes of the axes.
        shape: Vec<usize>,
        /// The values.
        values: Vec<f64>,
    },
}

impl LeafValue {
    /// An array of that shape.
    ///
    /// # Errors
    /// Another number of values than the shape has.
    pub fn array(shape: Vec<usize>, values: Vec<f64>) -> Result<LeafValue, InfoError> {
        let size = shape.iter().try_fold(1, |size: usize, axis| size.checked_mul(*axis));
        if size == Some(values.len()) {
            Ok(LeafValue::Array { shape, values })
        } else {
            Err(InfoError::Array { shape, n_values: values.len() })
        }
    }

    /// The value if it is one number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            LeafValue::Number(number) => Some(*number),
            LeafValue::Array { .. } => None,
        }
    }

    /// The sizes of the axes; none for a number.
    pub fn shape(&self) -> &[usize] {
        match self {
            LeafValue::Number(_) => &[],
            LeafValue::Array { shape, .. } => shape,
        }
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[f64] {
        match self {
            LeafValue::Number(number) => std::slice::from_ref(number),
            LeafValue::Array { values, .. } => values,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            LeafValue::Number(number) => Value::from(*number),
            LeafValue::Array { shape, values } => nested(shape, values),
        }
    }
}

fn nested(shape: &[usize], values: &[f64]) -> Value {
    match shape {
        [] => values.first().copied().map_or(Value::Null, Value::from),
        [_] => Value::from(values.to_vec()),
        [rows, inner @ ..] => {
            let size: usize = inner.iter().product();
            (0..*rows).map(|row| nested(inner, &values[row * size..(row + 1) * size])).collect()
        }
    }
}

impl From<f64> for LeafValue {
    fn from(number: f64) -> LeafValue {
        LeafValue::Number(number)
    }
}

impl From<Vec<f64>> for LeafValue {
    fn from(values: Vec<f64>) -> LeafValue {
        LeafValue::Array { shape: vec![values.len()], values }
    }
}

/// How values of one statistic merge.
///
/// NaN is ignored unless there is nothing else. All rules but `Concat` and `Last` reduce arrays, which must
/// have one shape, to a single number.
///
/// ```
/// use pronk_metrics::{Info, LearnerInfoBuilder, Reduction};
///
/// let mut builder = LearnerInfoBuilder::new(1);
/// for (rows, worst) in [(100.0, 1.5), (50.0, 0.5)] {
///     builder.add(None, Info::tree([
///         ("n_rows", Info::leaf(rows, Reduction::Sum)),
///         ("worst", Info::leaf(worst, Reduction::Min)),
///         ("max_q", worst.into()),
///     ]))?;
/// }
/// let info = builder.finalize()?;
/// assert_eq!(info.number("default_policy", "n_rows"), Some(150.0));
/// assert_eq!(info.number("default_policy", "worst"), Some(0.5));
/// assert_eq!(info.number("default_policy", "max_q"), Some(1.5));
/// # Ok::<(), pronk_metrics::InfoError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// RLlib's rule by path: concatenation for the top-level `td_error`, the extreme for keys that start with
    /// `min_` or `max_`, the mean for all others.
    #[default]
    ByName,
    /// The mean over all elements, weighted by rows if results have weights.
    Mean,
    /// The sum of all elements.
    Sum,
    /// The smallest element.
    Min,
    /// The largest element.
    Max,
    /// Concatenation along the first axis; a number is an array of one.
    Concat,
    /// The newest value.
    Last,
}
