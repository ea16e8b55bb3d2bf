//! Records the parameters that a model requests from its `VarBuilder` when it is first built.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor, Var, bail};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;

/// A backend that records every requested parameter in order and returns zeros.
#[derive(Clone, Default)]
pub(super) struct Recorder {
    asked: Arc<Mutex<Vec<Parameter>>>,
}

/// A parameter of a model.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) init: Init,
    /// A variable, so that it has a gradient.
    pub(super) zeros: Tensor,
}

impl Recorder {
    fn asked(&self) -> MutexGuard<'_, Vec<Parameter>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requested parameters, each once.
    pub(super) fn take(&self) -> Vec<Parameter> {
        std::mem::take(&mut self.asked())
    }
}

impl SimpleBackend for Recorder {
    fn get(&self, shape: Shape, name: &str, init: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        if dtype != DType::F32 {
            bail!(
                "parameter `{name}` of shape {shape:?} is asked for as {dtype:?}: parameters are F32, convert the tensor"
            );
        }
        let mut asked = self.asked();
        // A second request shares the parameter between two modules.
        if let Some(parameter) = asked.iter().find(|parameter| parameter.name == name) {
            let first = parameter.zeros.shape();
            if *first != shape {
                bail!(
                    "parameter `{name}` is asked for twice, first with shape {first:?} and then with {shape:?}: give each module a name of its own"
                );
            }
            return Ok(parameter.zeros.clone());
        }
        let zeros = Var::zeros(shape, dtype, device)?.into_inner();
        asked.push(Parameter { name: name.to_owned(), init, zeros: zeros.clone() });
        Ok(zeros)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        bail!(
            "parameter `{name}` is asked for without a shape: use `get` or `get_with_hints` instead of `get_unchecked`"
        )
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.asked().iter().any(|parameter| parameter.name == name)
    }
}
