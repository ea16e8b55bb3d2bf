//! Parameters: every weight of a network in one flat vector.
//!
//! One vector makes publishing weights one copy, an optimiser step one pass, an average over replicas one buffer.

mod check;
mod file;

pub(crate) use check::check_layout;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::PolicyError;
use crate::error::check_len;

pub use file::LoadError;

/// Where each named tensor lies in the flat vector: one after the other, in order, without gaps.
///
/// ```
/// use pronk_policy::ParamLayout;
///
/// let layout = ParamLayout::new([("weight", vec![4, 2]), ("bias", vec![2])]);
/// assert_eq!(layout.len(), 10);
/// assert_eq!(layout.find("bias").map(|bias| bias.offset), Some(8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ParamLayout {
    entries: Vec<ParamEntry>,
    len: usize,
}

/// One tensor of a [`ParamLayout`], row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamEntry {
    /// Its name, such as `torso.0.weight`.
    pub name: String,
    /// Its shape; a weight is `[inputs, outputs]` in pronk's own networks, and `[outputs, inputs]` in modules of `candle_nn`.
    pub shape: Vec<usize>,
    /// Where it starts in the flat vector.
    pub offset: usize,
}

impl ParamEntry {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its place in the flat vector.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// What weight files call the part of their header that is no tensor.
const RESERVED: &str = "__metadata__";

impl ParamLayout {
    /// Lays the tensors out in the given order. Names should differ: only the first of two alike can be found.
    pub fn new<N: Into<String>>(tensors: impl IntoIterator<Item = (N, Vec<usize>)>) -> Self {
        let mut layout = Self::default();
        for (name, shape) in tensors {
            let entry = ParamEntry { name: name.into(), shape, offset: layout.len };
            layout.len += entry.len();
            layout.entries.push(entry);
        }
        layout
    }

    /// The tensors in order.
    pub fn entries(&self) -> &[ParamEntry] {
        &self.entries
    }

    /// The tensor of that name.
    pub fn find(&self, name: &str) -> Option<&ParamEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The length of the flat vector.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether parameters of this layout can be written to a file and found in it again.
    ///
    /// # Errors
    /// [`PolicyError::BadSpec`] when two tensors have one name, or one has the name that weight files keep for themselves.
    pub fn check_names(&self) -> Result<(), PolicyError> {
        let mut names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        let reason = if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            format!("two parameters have the name `{}`: give each its own", pair[0])
        } else if names.contains(&RESERVED) {
            format!("a parameter has the name `{}`, which weight files keep for themselves: rename it", RESERVED)
        } else {
            return Ok(());
        };
        Err(PolicyError::BadSpec { reason })
    }

    /// Whether parameters of layout `got` are those of this one: the same tensors in the same order.
    ///
    /// # Errors
    /// [`PolicyError::WrongParams`] with the first difference.
    pub fn check_same(&self, got: &Self) -> Result<(), PolicyError> {
        check_layout(self, got)
    }
}

/// The values of all tensors of a [`ParamLayout`].
///
/// Each carries a *stamp*: equal stamps mean equal values, so who keeps something made from the values (a copy on a
/// device, say) compares stamps to know whether it is still good. A clone keeps the stamp, every change renews it.
///
/// ```
/// use std::sync::Arc;
/// use pronk_policy::{ParamLayout, Params};
///
/// let layout = Arc::new(ParamLayout::new([("weight", vec![4, 2]), ("bias", vec![2])]));
/// let mut params = Params::zeros(layout);
/// let copy = params.clone();
/// assert_eq!(copy.stamp(), params.stamp());
/// params.values_mut()[8] = 1.0;
/// assert_ne!(copy.stamp(), params.stamp());
/// assert_eq!(params.get("bias"), Some([1.0, 0.0].as_slice()));
/// ```
#[derive(Clone, Debug)]
pub struct Params {
    layout: Arc<ParamLayout>,
    values: Vec<f32>,
    stamp: u64,
}

impl Params {
    /// Takes the values over; an error if there are not as many as the layout holds.
    pub fn new(layout: Arc<ParamLayout>, values: Vec<f32>) -> Result<Self, PolicyError> {
        check_len("parameters", layout.len(), values.len())?;
        Ok(Self { layout, values, stamp: next_stamp() })
    }

    /// All zero.
    pub fn zeros(layout: Arc<ParamLayout>) -> Self {
        let values = vec![0.0; layout.len()];
        Self { layout, values, stamp: next_stamp() }
    }

    /// Where each tensor lies.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// All values in layout order.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, to be changed: the stamp is renewed whether or not they are.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.stamp = next_stamp();
        &mut self.values
    }

    /// The values of one tensor.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.layout.find(name).map(|entry| &self.values[entry.range()])
    }

    /// Checks that every value is finite.
    ///
    /// # Errors
    /// [`PolicyError::NonFiniteParams`] naming the first one that is not.
    pub fn check_finite(&self) -> Result<(), PolicyError> {
        let not_finite = |entry: &ParamEntry| {
            let values = &self.values[entry.range()];
            let index = values.iter().position(|value| !value.is_finite())?;
            Some((entry.name.clone(), index, values[index]))
        };
        match self.layout.entries.iter().find_map(not_finite) {
            Some((tensor, index, value)) => Err(PolicyError::NonFiniteParams { tensor, index, value }),
            None => Ok(()),
        }
    }

    /// A number that no other values have had since the program started.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Becomes a copy of `other`, stamp included, in the memory it has.
    pub fn copy_from(&mut self, other: &Self) {
        if !Arc::ptr_eq(&self.layout, &other.layout) {
            self.layout = Arc::clone(&other.layout);
        }
        self.values.clone_from(&other.values);
        self.stamp = other.stamp;
    }
}

fn next_stamp() -> u64 {
    // Relaxed: stamps only have to differ. 64 bits outlast any run.
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests;
