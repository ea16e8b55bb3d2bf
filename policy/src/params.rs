//! Parameters: all weights of a network in one flat vector, so that publishing is one copy and an optimiser
//! step one pass.

mod check;
mod file;

pub(crate) use check::check_layout;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::PolicyError;
use crate::error::check_len;

pub use file::LoadError;

/// The tensors of the flat vector, in order and without gaps.
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
    /// Its shape; weights are `[inputs, outputs]` in pronk's networks, `[outputs, inputs]` in `candle_nn`.
    pub shape: Vec<usize>,
    /// Its offset in the flat vector.
    pub offset: usize,
}

impl ParamEntry {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its range in the flat vector.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// The name of metadata in weight files.
const RESERVED: &str = "__metadata__";

impl ParamLayout {
    /// A layout of these tensors. Names should be unique: only the first of equal ones can be found.
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

    /// The tensor of this name.
    pub fn find(&self, name: &str) -> Option<&ParamEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The length of the flat vector.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the flat vector is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Checks that weight files can hold parameters of this layout.
    ///
    /// # Errors
    /// [`PolicyError::BadSpec`] for two tensors of one name, or a reserved name.
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

    /// Checks that layout `got` has the same tensors in the same order.
    ///
    /// # Errors
    /// [`PolicyError::WrongParams`] with the first difference.
    pub fn check_same(&self, got: &Self) -> Result<(), PolicyError> {
        check_layout(self, got)
    }
}

/// The values of all tensors of a [`ParamLayout`].
///
/// Equal *stamps* mean equal values, so a cache derived from the values, such as a copy on a device, is valid
/// while the stamps are equal. A clone keeps the stamp, every change renews it.
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
#[derive(Debug)]
pub struct Params {
    layout: Arc<ParamLayout>,
    values: Vec<f32>,
    stamp: u64,
}

impl Clone for Params {
    fn clone(&self) -> Self {
        Self { layout: Arc::clone(&self.layout), values: self.values.clone(), stamp: self.stamp }
    }

    /// Into the storage that is there: fresh memory takes longer to get than the values to copy.
    fn clone_from(&mut self, other: &Self) {
        self.layout.clone_from(&other.layout);
        self.values.clone_from(&other.values);
        self.stamp = other.stamp;
    }
}

impl Params {
    /// Parameters with these values; an error if their number is wrong.
    pub fn new(layout: Arc<ParamLayout>, values: Vec<f32>) -> Result<Self, PolicyError> {
        check_len("parameters", layout.len(), values.len())?;
        Ok(Self { layout, values, stamp: next_stamp() })
    }

    /// All zero.
    pub fn zeros(layout: Arc<ParamLayout>) -> Self {
        let values = vec![0.0; layout.len()];
        Self { layout, values, stamp: next_stamp() }
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// All values in layout order.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, mutable; renews the stamp.
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
    /// [`PolicyError::NonFiniteParams`] with the first one that is not.
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

    /// The stamp: unique to these values in this process.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Copies `other`, including its stamp, into the existing memory.
    pub fn copy_from(&mut self, other: &Self) {
        if !Arc::ptr_eq(&self.layout, &other.layout) {
            self.layout = Arc::clone(&other.layout);
        }
        self.values.clone_from(&other.values);
        self.stamp = other.stamp;
    }
}

fn next_stamp() -> u64 {
    // Relaxed: stamps only have to differ.
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests;
