//! Weight files in the safetensors format.

use std::collections::BTreeMap;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde_json::{Map, Value, json};

use super::{ParamLayout, Params};

/// The maximal header length. A header takes about 100 bytes per tensor; the format allows 100 MB, which a
/// hostile file could make us parse.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Why a weight file was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is shorter or longer than its header says.
    #[error("weight file has {got} bytes where its header promises {expected}: it was cut short or overwritten")]
    Truncated {
        /// The expected length.
        expected: u64,
        /// The actual length.
        got: usize,
    },

    /// The header is too long.
    #[error(
        "weight file announces a header of {bytes} bytes, more than the {MAX_HEADER_BYTES} allowed: not a weight file?"
    )]
    HeaderTooLong {
        /// The announced length.
        bytes: u64,
    },

    /// The header cannot be parsed.
    #[error("weight file is not in the safetensors format, or damaged")]
    Damaged(#[source] SafeTensorError),

    /// The file lacks a tensor of the network.
    #[error("weight file lacks tensor `{name}` of shape {shape:?}: it was saved from another network")]
    Missing {
        /// The tensor.
        name: String,
        /// The network's shape.
        shape: Vec<usize>,
    },

    /// The file has a tensor that the network lacks.
    #[error("weight file holds tensor `{name}` of shape {shape:?}, which this network does not have")]
    Unknown {
        /// The tensor.
        name: String,
        /// Its shape in the file.
        shape: Vec<usize>,
    },

    /// A tensor of another shape than the network's.
    #[error("tensor `{name}`: the network needs shape {expected:?}, the weight file has {got:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// The network's shape.
        expected: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },

    /// A tensor that is not `F32`.
    #[error("tensor `{name}` is stored as {got}, but only F32 is read")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its type in the file.
        got: Dtype,
    },
}

impl Params {
    /// A safetensors file with these values and with `metadata` in its header. Equal contents give equal
    /// bytes.
    pub fn to_safetensors(&self, metadata: &BTreeMap<String, String>) -> Vec<u8> {
        // Not by the safetensors crate, which writes metadata in random order.
        let mut header = Map::new();
        if !metadata.is_empty() {
            header.insert("__metadata__".into(), json!(metadata));
        }
        for entry in self.layout.entries() {
            let (start, end) = (4 * entry.offset, 4 * entry.range().end);
            header.insert(
                entry.name.clone(),
                json!({ "dtype": "F32", "shape": entry.shape, "data_offsets": [start, end] }),
            );
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        // The format aligns the data to eight bytes, filled with spaces.
        header.resize(header.len().next_multiple_of(8), b' ');

        let mut bytes = Vec::with_capacity(8 + header.len() + 4 * self.values.len());
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        bytes.extend(self.values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    /// Reads a safetensors file with exactly the tensors of `layout`, in any order. It accepts NaN and
    /// infinity.
    ///
    /// *Errors*: [`LoadError`].
    ///
    /// ```
    /// use std::{collections::BTreeMap, sync::Arc};
    /// use pronk_policy::{LoadError, ParamLayout, Params};
    ///
    /// let layout = Arc::new(ParamLayout::new([("weight", vec![2, 3])]));
    /// let bytes = Params::zeros(Arc::clone(&layout)).to_safetensors(&BTreeMap::new());
    /// assert_eq!(Params::from_safetensors(&layout, &bytes)?.values(), [0.0; 6]);
    ///
    /// let other = Arc::new(ParamLayout::new([("weight", vec![3, 2])]));
    /// assert!(matches!(Params::from_safetensors(&other, &bytes), Err(LoadError::Shape { .. })));
    /// # Ok::<(), LoadError>(())
    /// ```
    pub fn from_safetensors(layout: &Arc<ParamLayout>, bytes: &[u8]) -> Result<Self, LoadError> {
        check_length(bytes)?;
        let file = SafeTensors::deserialize(bytes).map_err(|source| match source {
            SafeTensorError::MetadataIncompleteBuffer => {
                LoadError::Truncated { expected: promised_len(bytes), got: bytes.len() }
            }
            source => LoadError::Damaged(source),
        })?;

        // The layout may be larger than any file.
        let mut values = Vec::with_capacity(layout.len().min(bytes.len() / size_of::<f32>()));
        for entry in layout.entries() {
            let name = || entry.name.clone();
            let Ok(tensor) = file.tensor(&entry.name) else {
                return Err(LoadError::Missing { name: name(), shape: entry.shape.clone() });
            };
            if tensor.dtype() != Dtype::F32 {
                return Err(LoadError::Dtype { name: name(), got: tensor.dtype() });
            }
            if tensor.shape() != entry.shape {
                let (expected, got) = (entry.shape.clone(), tensor.shape().to_vec());
                return Err(LoadError::Shape { name: name(), expected, got });
            }
            let (numbers, _) = tensor.data().as_chunks::<4>();
            values.extend(numbers.iter().map(|&number| f32::from_le_bytes(number)));
        }
        // Sorted, so that errors are deterministic.
        let known = |name: &str| layout.find(name).is_some();
        let unknown = file.iter().filter(|(name, _)| !known(name)).min_by_key(|&(name, _)| name.to_owned());
        if let Some((name, tensor)) = unknown {
            return Err(LoadError::Unknown { name: name.to_owned(), shape: tensor.shape().to_vec() });
        }
        let mut params = Self::zeros(Arc::clone(layout));
        params.values = values;
        Ok(params)
    }
}

fn check_length(bytes: &[u8]) -> Result<(), LoadError> {
    let Some((header_bytes, rest)) = bytes.split_first_chunk() else {
        return Err(LoadError::Truncated { expected: 8, got: bytes.len() });
    };
    let header_bytes = u64::from_le_bytes(*header_bytes);
    if header_bytes > MAX_HEADER_BYTES {
        Err(LoadError::HeaderTooLong { bytes: header_bytes })
    } else if header_bytes > rest.len() as u64 {
        Err(LoadError::Truncated { expected: 8 + header_bytes, got: bytes.len() })
    } else {
        Ok(())
    }
}

/// The file length according to the header: itself and the data up to the end of the last tensor.
fn promised_len(bytes: &[u8]) -> u64 {
    let Some((header_bytes, rest)) = bytes.split_first_chunk() else {
        return 8;
    };
    let header_bytes = u64::from_le_bytes(*header_bytes);
    let header = rest.get(..header_bytes as usize).and_then(|header| serde_json::from_slice::<Map<_, _>>(header).ok());
    let ends = header.iter().flat_map(Map::values).filter_map(|tensor: &Value| tensor["data_offsets"][1].as_u64());
    (8 + header_bytes).saturating_add(ends.max().unwrap_or(0))
}

#[cfg(test)]
mod tests;
