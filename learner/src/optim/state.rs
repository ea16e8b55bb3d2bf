//! Saved optimiser state.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_traits::Float;
use pronk_policy::{ParamLayout, Params};
use safetensors::{Dtype, SafeTensors};

use crate::LearnError;

const OPTIMIZER: &str = "optimizer";
const STEPS: &str = "steps";

/// The mean square, whose root is taken.
pub(super) const MEAN_SQUARE: &str = "mean_square";

/// Steps that no optimiser takes: a damaged file may hold any number.
const MOST_STEPS: u64 = 1 << 60;

/// Far above any optimiser file's header; the format allows 100 MB.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// The state of an optimiser: named vectors with an entry per parameter, and the number of steps taken. A
/// restored optimiser continues bit for bit.
///
/// # Example
/// ```
/// use pronk_learner::{Adam, AdamConfig, Optimizer, OptimizerState};
///
/// let mut adam = Adam::<f32>::new(3, AdamConfig::default())?;
/// let bytes = adam.state().to_safetensors()?;
/// adam.load_state(OptimizerState::from_safetensors(&bytes)?)?;
/// # Ok::<(), pronk_learner::LearnError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerState<F = f32> {
    /// The optimiser's name.
    pub optimizer: String,
    /// Steps taken.
    pub steps: u64,
    /// Its vectors by name.
    pub vectors: BTreeMap<String, Vec<F>>,
}

impl<F> OptimizerState<F> {
    /// A state without vectors.
    pub fn empty() -> Self {
        Self { optimizer: String::new(), steps: 0, vectors: BTreeMap::new() }
    }
}

impl<F: Float> OptimizerState<F> {
    /// Replaces all of it, in the storage of the vectors that it has.
    pub(super) fn set(&mut self, optimizer: &str, steps: u64, vectors: &[(&str, &Vec<F>)]) {
        optimizer.clone_into(&mut self.optimizer);
        self.steps = steps;
        self.vectors.retain(|name, _| vectors.iter().any(|(kept, _)| kept == name));
        for (name, vector) in vectors {
            self.vectors.entry((*name).to_owned()).or_default().clone_from(vector);
        }
    }

    /// The vectors `names`, if the state fits.
    pub(super) fn take<const N: usize>(
        mut self,
        optimizer: &str,
        n_params: usize,
        names: [&str; N],
    ) -> Result<[Vec<F>; N], LearnError> {
        if self.optimizer != optimizer {
            return refuse(format!("it is of '{}' and this optimiser is '{optimizer}'", self.optimizer));
        }
        if self.steps > MOST_STEPS {
            return refuse(format!("it has taken {} steps, and none takes so many", self.steps));
        }
        for name in names {
            match self.vectors.get(name) {
                None => return refuse(format!("vector '{name}' is missing; it may come from other settings")),
                Some(vector) if vector.len() != n_params => {
                    let got = vector.len();
                    return refuse(format!("vector '{name}' has {got} elements and the network {n_params} parameters"));
                }
                Some(vector) => {
                    if let Some(i) = vector.iter().position(|value| !value.is_finite()) {
                        return refuse(format!("vector '{name}' is not finite at element {i}"));
                    }
                    let negative = |vector: &[F]| vector.iter().position(|value| *value < F::zero());
                    if name == MEAN_SQUARE
                        && let Some(i) = negative(vector)
                    {
                        return refuse(format!("vector '{name}' is negative at element {i}; a square cannot be"));
                    }
                }
            }
        }
        let taken = names.map(|name| self.vectors.remove(name).unwrap_or_default());
        match self.vectors.keys().next() {
            Some(name) => refuse(format!("vector '{name}' has no place here; it may come from other settings")),
            None => Ok(taken),
        }
    }
}

impl OptimizerState<f32> {
    /// The state as a safetensors file, with name and steps in its metadata. Equal states yield equal bytes.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, LearnError> {
        let metadata = BTreeMap::from([
            (OPTIMIZER.to_owned(), self.optimizer.clone()),
            (STEPS.to_owned(), self.steps.to_string()),
        ]);
        let layout = ParamLayout::new(self.vectors.iter().map(|(name, vector)| (name, vec![vector.len()])));
        let values = self.vectors.values().flatten().copied().collect();
        Ok(Params::new(Arc::new(layout), values)?.to_safetensors(&metadata))
    }

    /// Reads what [`OptimizerState::to_safetensors`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such file.
    pub fn from_safetensors(bytes: &[u8]) -> Result<OptimizerState, LearnError> {
        let header_bytes = bytes.first_chunk().map(|size| u64::from_le_bytes(*size));
        if header_bytes.is_none_or(|size| size > MAX_HEADER_BYTES) {
            return refuse("it does not begin like a safetensors file".to_owned());
        }
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
        let entry = |name: &str| {
            let value = header.metadata().as_ref().and_then(|metadata| metadata.get(name));
            value.ok_or_else(|| LearnError::OptimizerState { reason: format!("its metadata has no '{name}'") })
        };
        let optimizer = entry(OPTIMIZER)?.clone();
        let Ok(steps) = entry(STEPS)?.parse() else {
            return refuse(format!("'{STEPS}' in its metadata is not a count: {}", entry(STEPS)?));
        };
        let tensors = SafeTensors::deserialize(bytes).map_err(unreadable)?;
        let mut vectors = BTreeMap::new();
        for (name, view) in tensors.iter() {
            if view.dtype() != Dtype::F32 || view.shape().len() != 1 {
                return refuse(format!("'{name}' is {:?} {:?} and not a vector of F32", view.dtype(), view.shape()));
            }
            let (words, _) = view.data().as_chunks();
            vectors.insert(name.to_owned(), words.iter().map(|word| f32::from_le_bytes(*word)).collect());
        }
        Ok(OptimizerState { optimizer, steps, vectors })
    }
}

fn refuse<T>(reason: String) -> Result<T, LearnError> {
    Err(LearnError::OptimizerState { reason })
}

fn unreadable(error: safetensors::SafeTensorError) -> LearnError {
    LearnError::OptimizerState { reason: error.to_string() }
}
