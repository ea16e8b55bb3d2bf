//! The network on candle's tensors and automatic differentiation.

mod layers;
mod model;
mod spec_model;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};

pub use self::model::{CandleInput, CandleMemory, CandleModel, CandleOutput, CandleWeights};
use self::spec_model::SpecModel;
use crate::error::check_len;
use crate::loaded::Place;
use crate::network::{Kept, check_layout};
use crate::{
    Input, LoadedObs, Network, NetworkShape, NetworkSpec, ObsLoader, ObsRef, OutputGrads, Outputs, ParamEntry,
    ParamLayout, Params, PolicyError, Space,
};

/// A [`Network`] on any candle device, for every [`NetworkSpec`] and for models of one's own.
///
/// It is written with candle's plain operations, the reference that faster implementations must agree with. On the CPU,
/// candle spreads large operations over a thread pool that the whole process shares, so many of these networks at once
/// get in each other's way there.
///
/// *Memory*: `forward_for_learning` keeps the batch's activations until `backward`. Weights stay on the device, a copy
/// for acting and one for learning, until other parameters come.
///
/// ```
/// use pronk_policy::{CandleNetwork, Input, Network, NetworkSpec, ObsRef, Outputs, Space};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let params = spec.init_params(0)?;
/// let mut network = CandleNetwork::cpu(spec)?;
///
/// let mut out = Outputs::default();
/// network.forward(&params, &Input::new(ObsRef::F32(&[0.1; 3 * 4]), 3), &mut out)?;
/// assert_eq!((out.logits.len(), out.values.len()), (6, 3));
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
pub struct CandleNetwork {
    shape: NetworkShape,
    layout: Arc<ParamLayout>,
    device: Device,
    model: Box<dyn CandleModel>,
    acting: Option<Uploaded>,
    learning: Option<Uploaded>,
    /// With the graph behind the output; no output if there were no rows.
    kept: Option<(Kept, Option<CandleOutput>)>,
}

/// The parameters of one stamp.
struct Uploaded {
    stamp: u64,
    weights: CandleWeights,
}

impl CandleNetwork {
    /// The network of a description, on a device.
    ///
    /// # Errors
    /// When the description is one that [`NetworkSpec::check`] refuses.
    pub fn new(spec: NetworkSpec, device: Device) -> Result<Self, PolicyError> {
        let model = SpecModel::new(&spec)?;
        Self::with_model(spec.shape(), Box::new(model), device)
    }

    /// The network of a description, on the CPU.
    ///
    /// # Errors
    /// As [`CandleNetwork::new`].
    pub fn cpu(spec: NetworkSpec) -> Result<Self, PolicyError> {
        Self::new(spec, Device::Cpu)
    }

    /// A network from a model of one's own, with the sizes of what the model reads and puts out.
    ///
    /// # Errors
    /// When the observation space contradicts itself, there are no logits, or two parameters have one name.
    pub fn with_model(shape: NetworkShape, model: Box<dyn CandleModel>, device: Device) -> Result<Self, PolicyError> {
        shape.obs.check()?;
        let refuse = |reason: String| Err(PolicyError::BadSpec { reason });
        if shape.dist_len == 0 {
            return refuse("dist_len is 0, but an action distribution needs at least one number".into());
        }
        let layout = Arc::new(model.layout());
        layout.check_names()?;
        Ok(Self { shape, layout, device, model, acting: None, learning: None, kept: None })
    }

    fn check(&self, params: &Params, input: &Input<'_>) -> Result<(), PolicyError> {
        check_layout(&self.layout, params.layout())?;
        input.check(&self.shape)
    }

    /// What the model says about at least one row.
    fn run(
        &self,
        doing: &'static str,
        weights: &CandleWeights,
        input: &Input<'_>,
    ) -> Result<CandleOutput, PolicyError> {
        let fail = failed_while(doing);
        let output = self.model.forward(weights, &self.upload_input(input).map_err(fail)?).map_err(fail)?;
        let (rows, state_len) = (input.rows, self.shape.state_len);
        let state = input.memory.map(|memory| vec![memory.columns(state_len), state_len]);
        check_dims("logits", Some(&output.logits), Some(vec![rows, self.shape.dist_len]))?;
        check_dims("values", Some(&output.values), Some(vec![rows]))?;
        check_dims("state", output.state.as_ref(), state)?;
        Ok(output)
    }

    fn upload_input<'a>(&self, input: &Input<'a>) -> candle_core::Result<CandleInput<'a>> {
        let obs = match input.loaded.map(|loaded| &loaded.place) {
            Some(Place::Device(obs)) => obs.clone(),
            _ => upload_obs(input.obs, &self.shape.obs, &self.device)?,
        };
        let upload = |memory| CandleMemory::upload(memory, input.rows, self.shape.state_len, &self.device);
        Ok(CandleInput { obs, memory: input.memory.map(upload).transpose()? })
    }

    /// The parameters made tensors by `tensor`, unless those at hand are still good.
    fn upload_weights(
        &self,
        params: &Params,
        at_hand: Option<Uploaded>,
        tensor: impl Fn(&[f32], &[usize], &Device) -> candle_core::Result<Tensor>,
    ) -> Result<Uploaded, PolicyError> {
        if let Some(uploaded) = at_hand.filter(|uploaded| uploaded.stamp == params.stamp()) {
            return Ok(uploaded);
        }
        let named = |entry: &ParamEntry| {
            let tensor = tensor(&params.values()[entry.range()], &entry.shape, &self.device)?;
            Ok((entry.name.clone(), tensor))
        };
        let tensors: candle_core::Result<_> = self.layout.entries().iter().map(named).collect();
        let weights = CandleWeights::new(tensors.map_err(failed_while("copying weights to the device"))?);
        Ok(Uploaded { stamp: params.stamp(), weights })
    }

    /// Overwrites `grad` with the gradient of Σ output · `grads`, `grads` held fixed.
    fn differentiate(
        &self,
        output: &CandleOutput,
        weights: &CandleWeights,
        grads: &OutputGrads,
        grad: &mut [f32],
    ) -> candle_core::Result<()> {
        let along = |output: &Tensor, grads: &[f32]| {
            (output * Tensor::from_slice(grads, output.dims(), &self.device)?)?.sum_all()
        };
        let sum = (along(&output.logits, &grads.logits)? + along(&output.values, &grads.values)?)?;
        let found = sum.backward()?;
        for entry in self.layout.entries() {
            match found.get(weights.get(&entry.name)?) {
                Some(tensor) => grad[entry.range()].copy_from_slice(&numbers(tensor)?),
                // The outputs do not depend on it.
                None => grad[entry.range()].fill(0.0),
            }
        }
        Ok(())
    }
}

impl Network for CandleNetwork {
    fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.check(params, input)?;
        out.resize_for(input, &self.shape);
        if input.rows == 0 {
            keep_state(input, out);
            return Ok(());
        }
        let at_hand = self.acting.take();
        // Tensors that no operation remembers.
        let uploaded =
            self.upload_weights(params, at_hand, |values, dims, device| Tensor::from_slice(values, dims, device))?;
        let output = self.run("acting", &uploaded.weights, input);
        self.acting = Some(uploaded);
        download(&output?, out)
    }

    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        self.kept = None;
        self.check(params, input)?;
        out.resize_for(input, &self.shape);
        let mut graph = None;
        if input.rows == 0 {
            keep_state(input, out);
        } else {
            let at_hand = self.learning.take();
            // Variables, so that operations on them make a graph.
            let uploaded = self.upload_weights(params, at_hand, |values, dims, device| {
                Ok(Var::from_slice(values, dims, device)?.into_inner())
            })?;
            let output = self.run("running forward for learning", &uploaded.weights, input);
            self.learning = Some(uploaded);
            let output = output?;
            download(&output, out)?;
            graph = Some(output);
        }
        self.kept = Some((Kept::of(params, input), graph));
        Ok(())
    }

    fn backward(&mut self, params: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        check_len("parameter gradient", self.layout.len(), grad.len())?;
        let (kept, output) = self.kept.take().unzip();
        Kept::check(kept, params, grads, &self.shape)?;
        let (Some(Some(output)), Some(learning)) = (&output, &self.learning) else {
            grad.fill(0.0);
            return Ok(());
        };
        self.differentiate(output, &learning.weights, grads, grad).map_err(failed_while("running backward"))
    }

    fn obs_loader(&self) -> Option<Arc<dyn ObsLoader>> {
        Some(Arc::new(Uploader { obs: self.shape.obs.clone(), device: self.device.clone() }))
    }
}

/// Uploads observations to a device.
struct Uploader {
    obs: Space,
    device: Device,
}

impl ObsLoader for Uploader {
    fn load(&self, obs: ObsRef<'_>, columns: usize, into: &mut LoadedObs) -> Result<(), PolicyError> {
        let (len, row) = (obs.len(), self.obs.obs_len());
        check_len("observations", len / (row * columns).max(1) * row * columns, len)?;
        // Gone before the new ones come, so that the device holds one batch and not two.
        *into = LoadedObs::default();
        let there = upload_obs(obs, &self.obs, &self.device).map_err(failed_while("copying observations"))?;
        *into = LoadedObs { rows: len / row, place: Place::Device(there) };
        Ok(())
    }
}

/// Observations of a space as floats on a device.
fn upload_obs(obs: ObsRef<'_>, space: &Space, device: &Device) -> candle_core::Result<Tensor> {
    let mut dims = vec![obs.len() / space.obs_len()];
    match space {
        Space::Box { shape, .. } => dims.extend(shape),
        other => dims.push(other.obs_len()),
    }
    match obs {
        ObsRef::F32(obs) => Tensor::from_slice(obs, dims, device),
        // Bytes travel as bytes, a quarter of the way, and become floats on the device.
        ObsRef::U8(obs) => Tensor::from_slice(obs, dims, device)?.to_dtype(DType::F32)?.affine(1.0 / 255.0, 0.0),
    }
}

fn failed_while(doing: &'static str) -> impl Fn(candle_core::Error) -> PolicyError + Copy {
    move |source| PolicyError::Tensor { doing, source }
}

/// Whether a model put out a tensor of the dimensions that it should, or none where it should not.
fn check_dims(what: &'static str, tensor: Option<&Tensor>, expected: Option<Vec<usize>>) -> Result<(), PolicyError> {
    let got = tensor.map(|tensor| tensor.dims().to_vec());
    if got == expected { Ok(()) } else { Err(PolicyError::ModelOutput { what, expected, got }) }
}

/// Copies what a model said to where the caller wants it.
fn download(output: &CandleOutput, out: &mut Outputs) -> Result<(), PolicyError> {
    let numbers = |tensor| numbers(tensor).map_err(failed_while("reading what the model put out"));
    out.logits.copy_from_slice(&numbers(&output.logits)?);
    out.values.copy_from_slice(&numbers(&output.values)?);
    if let Some(state) = &output.state {
        out.state.copy_from_slice(&numbers(state)?);
    }
    Ok(())
}

/// After no step, the state is the one before.
fn keep_state(input: &Input<'_>, out: &mut Outputs) {
    if let Some(memory) = input.memory {
        out.state.copy_from_slice(memory.state);
    }
}

fn numbers(tensor: &Tensor) -> candle_core::Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}

#[cfg(test)]
mod tests;
