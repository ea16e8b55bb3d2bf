//! The network on candle's tensors and automatic differentiation.

mod draw;
mod gradients;
mod layers;
mod model;
mod recorder;
mod spec_model;

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Init, VarBuilder};

use self::draw::draw;
use self::recorder::{Parameter, Recorder};
use self::spec_model::SpecModel;
use crate::error::check_len;
use crate::loaded::Place;
use crate::network::Kept;
use crate::params::check_layout;
use crate::space::ByteScale;
use crate::{
    Input, LoadedObs, Memory, Network, NetworkShape, NetworkSpec, ObsDtype, ObsLoader, ObsRef, OutputGrads, Outputs,
    ParamEntry, ParamLayout, Params, PolicyError, Rng, Space,
};

pub use self::model::{CandleInput, CandleMemory, CandleModel, CandleOutput};

/// A [`Network`] on any candle device, for every [`NetworkSpec`] and for your own models: the reference for
/// faster implementations. On the CPU, candle's operations share one thread pool of the process, so several
/// such networks slow each other down.
///
/// *Memory*: `forward_for_learning` keeps the batch's activations until `backward`. The device keeps a copy
/// of the weights for acting and one for learning.
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
    /// The initialisation of each parameter, if the model sets one.
    inits: Option<Vec<Init>>,
    device: Device,
    build: Box<Build>,
    acting: Option<Built>,
    learning: Option<Built>,
    /// The outputs with their graph; `None` for no rows.
    kept: Option<(Kept, Option<CandleOutput>)>,
}

/// Builds a model from the parameters of a `VarBuilder`.
type Build = dyn Fn(VarBuilder<'static>) -> candle_core::Result<Box<dyn CandleModel>> + Send;

/// The model with the parameters of one stamp.
struct Built {
    stamp: u64,
    /// In layout order.
    weights: Vec<Tensor>,
    model: Box<dyn CandleModel>,
}

impl CandleNetwork {
    /// The network of a spec, on a device. Errors are those of [`NetworkSpec::check`].
    pub fn new(spec: NetworkSpec, device: Device) -> Result<Self, PolicyError> {
        let (layout, towers) = (spec.layout()?, spec.towers());
        let build = Box::new(move |vb| boxed(SpecModel::new(&towers, &vb)?));
        Ok(Self::of(spec.shape(), layout, None, device, build))
    }

    /// The network of a spec, on the CPU. Errors are those of [`CandleNetwork::new`].
    pub fn cpu(spec: NetworkSpec) -> Result<Self, PolicyError> {
        Self::new(spec, Device::Cpu)
    }

    /// A network from your own model, with the sizes of its inputs and outputs.
    ///
    /// `build` makes the model; its requests to the `VarBuilder` become the parameters, with their names and
    /// in their order. It runs again whenever the weights change, so compute what does not depend on them
    /// outside. [`first_params`](Network::first_params) initialises parameters as the modules say; one
    /// requested by `VarBuilder::get` starts at zero.
    ///
    /// [`CandleModel`] has an example.
    ///
    /// # Errors
    /// An invalid observation space, or no logits; a parameter requested with two shapes, without a shape, or
    /// as another type than `F32`; a model that fails on two rows of zeros, returns other shapes than
    /// `shape`, or leaves a parameter without a gradient.
    pub fn with_model<M: CandleModel + 'static>(
        shape: NetworkShape,
        device: Device,
        build: impl Fn(VarBuilder<'static>) -> candle_core::Result<M> + Send + 'static,
    ) -> Result<Self, PolicyError> {
        shape.obs.check()?;
        if shape.dist_len == 0 {
            let reason = "dist_len is 0, but an action distribution needs at least one number".into();
            return Err(PolicyError::BadSpec { reason });
        }
        let build: Box<Build> = Box::new(move |vb| boxed(build(vb)?));
        let recorder = Recorder::default();
        let vb = VarBuilder::from_backend(Box::new(recorder.clone()), DType::F32, device.clone());
        let model = build(vb).map_err(failed_while("building the model"))?;
        let asked = recorder.take();
        let layout = ParamLayout::new(asked.iter().map(|asked| (asked.name.as_str(), asked.zeros.dims().to_vec())));
        layout.check_names()?;
        let inits = asked.iter().map(|asked| asked.init).collect();
        let network = Self::of(shape, layout, Some(inits), device, build);
        network.try_out(&*model, &asked)?;
        Ok(network)
    }

    fn of(
        shape: NetworkShape,
        layout: ParamLayout,
        inits: Option<Vec<Init>>,
        device: Device,
        build: Box<Build>,
    ) -> Self {
        Self { shape, layout: Arc::new(layout), inits, device, build, acting: None, learning: None, kept: None }
    }

    /// Checks the outputs of a model with the parameters `asked`, and that all of them have gradients. Some
    /// operations of `candle_nn` have none, and candle cuts the graph there silently, so that the layers
    /// below would never learn.
    fn try_out(&self, model: &dyn CandleModel, asked: &[Parameter]) -> Result<(), PolicyError> {
        // Some recurrent weights have no effect before the second step.
        const ROWS: usize = 2;
        let obs_len = ROWS * self.shape.obs.obs_len();
        let (numbers, bytes, state) = (vec![0.0; obs_len], vec![0; obs_len], vec![0.0; self.shape.state_len]);
        let obs = match self.shape.obs.obs_dtype() {
            ObsDtype::F32 => ObsRef::F32(&numbers),
            ObsDtype::U8 => ObsRef::U8(&bytes),
        };
        let mut input = Input::new(obs, ROWS);
        if !state.is_empty() {
            input = input.with_memory(Memory { state: &state, starts: &[false; ROWS] });
        }
        let mut out = Outputs::default();
        out.resize_for(&input, &self.shape);
        let output = self.run("trying the model on two rows", model, &input)?;
        download(&output, &mut out)?;
        let backward = || (output.logits.sum_all()? + output.values.sum_all()?)?.backward();
        let grads = backward().map_err(failed_while("running backward through the model"))?;
        let Some(lost) = asked.iter().find(|asked| grads.get(&asked.zeros).is_none()) else { return Ok(()) };
        let reason = format!(
            "parameter `{}` of shape {:?} has no gradient: either the outputs do not depend on it, or an operation that candle \
             cannot differentiate lies between, such as `forward` of a LayerNorm with a bias (use `layer_norm_no_bias` or \
             `ops::layer_norm_slow`), of an RmsNorm (`forward_diff`) or `ops::softmax_last_dim` (`ops::softmax`); a \
             tensor that is not to learn must not come from the VarBuilder",
            lost.name,
            lost.zeros.dims(),
        );
        Err(PolicyError::BadSpec { reason })
    }

    fn check(&self, params: &Params, input: &Input<'_>) -> Result<(), PolicyError> {
        check_layout(&self.layout, params.layout())?;
        input.check(&self.shape)
    }

    /// The outputs for at least one row.
    fn run(
        &self,
        doing: &'static str,
        model: &dyn CandleModel,
        input: &Input<'_>,
    ) -> Result<CandleOutput, PolicyError> {
        let fail = failed_while(doing);
        let output = model.forward(&self.upload_input(input).map_err(fail)?).map_err(fail)?;
        let (rows, state_len) = (input.rows, self.shape.state_len);
        let state = input.memory.map(|memory| vec![memory.columns(state_len), state_len]);
        check_dims("logits", Some(&output.logits), Some(vec![rows, self.shape.dist_len]))?;
        check_dims("values", Some(&output.values), Some(vec![rows]))?;
        check_dims("state", output.state.as_ref(), state)?;
        Ok(output)
    }

    fn upload_input(&self, input: &Input<'_>) -> candle_core::Result<CandleInput> {
        let obs = match input.loaded.map(|loaded| &loaded.place) {
            Some(Place::Device(obs)) => obs.clone(),
            _ => upload_obs(input.obs, &self.shape.obs, &self.device)?,
        };
        let upload = |memory| CandleMemory::upload(memory, input.rows, self.shape.state_len, &self.device);
        Ok(CandleInput { obs, memory: input.memory.map(upload).transpose()? })
    }

    /// The model with parameters made tensors by `tensor`; the cached one if it is current.
    fn build(
        &self,
        params: &Params,
        at_hand: Option<Built>,
        tensor: impl Fn(&[f32], &[usize], &Device) -> candle_core::Result<Tensor>,
    ) -> Result<Built, PolicyError> {
        if let Some(built) = at_hand.filter(|built| built.stamp == params.stamp()) {
            return Ok(built);
        }
        let upload = |entry: &ParamEntry| tensor(&params.values()[entry.range()], &entry.shape, &self.device);
        let weights: candle_core::Result<Vec<_>> = self.layout.entries().iter().map(upload).collect();
        let weights = weights.map_err(failed_while("copying weights to the device"))?;
        let names = self.layout.entries().iter().map(|entry| entry.name.clone());
        let named: HashMap<_, _> = names.zip(weights.iter().cloned()).collect();
        let vb = VarBuilder::from_tensors(named, DType::F32, &self.device);
        let model = (self.build)(vb).map_err(failed_while("building the model"))?;
        Ok(Built { stamp: params.stamp(), weights, model })
    }

    /// Overwrites `grad` with the gradient of Σ output · `grads`.
    fn differentiate(
        &self,
        output: &CandleOutput,
        weights: &[Tensor],
        grads: &OutputGrads,
        grad: &mut [f32],
    ) -> candle_core::Result<()> {
        let along = |output: &Tensor, grads: &[f32]| {
            (output * Tensor::from_slice(grads, output.dims(), &self.device)?)?.sum_all()
        };
        let sum = (along(&output.logits, &grads.logits)? + along(&output.values, &grads.values)?)?;
        let found = sum.backward()?;
        for (entry, weight) in self.layout.entries().iter().zip(weights) {
            match found.get(weight) {
                Some(tensor) => grad[entry.range()].copy_from_slice(&numbers(tensor)?),
                // The outputs are independent of it.
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
        // Tensors outside any graph.
        let built = self.build(params, at_hand, |values, dims, device| Tensor::from_slice(values, dims, device))?;
        let output = self.run("acting", &*built.model, input);
        self.acting = Some(built);
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
            // Variables, so that operations on them build a graph.
            let built = self.build(params, at_hand, |values, dims, device| {
                Ok(Var::from_slice(values, dims, device)?.into_inner())
            })?;
            let output = self.run("running forward for learning", &*built.model, input);
            self.learning = Some(built);
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

    fn first_params(&self, seed: u64) -> Option<Params> {
        let inits = self.inits.as_ref()?;
        let mut params = Params::zeros(Arc::clone(&self.layout));
        let values = params.values_mut();
        for (i, (entry, &init)) in self.layout.entries().iter().zip(inits).enumerate() {
            // A random stream for each, so that a change of one layer leaves the others unchanged.
            let rng = &mut Rng::stream(seed, &[i as u64]);
            draw(init, &entry.shape, rng, &mut values[entry.range()]);
        }
        Some(params)
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
        // A thread that has not called the device yet cannot free memory there.
        self.device.synchronize().map_err(failed_while("calling the device"))?;
        // Dropped first, so that the device never holds two batches.
        *into = LoadedObs::default();
        let copy = || {
            let there = upload_obs(obs, &self.obs, &self.device)?;
            // Every thread has a CUDA stream of its own, and nothing orders the learner's after this one.
            self.device.synchronize()?;
            Ok(there)
        };
        let there = copy().map_err(failed_while("copying observations"))?;
        *into = LoadedObs { rows: len / row, place: Place::Device(there) };
        Ok(())
    }

    fn selects_columns(&self) -> bool {
        true
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
        // Bytes are copied as bytes, a quarter of the size, and become floats on the device.
        ObsRef::U8(obs) => {
            let one = dims[1..].to_vec();
            let floats = Tensor::from_slice(obs, dims, device)?.to_dtype(DType::F32)?;
            let Some(ByteScale { low, factor }) = space.byte_scale() else {
                return floats.affine(1.0 / 255.0, 0.0);
            };
            let above = floats.broadcast_sub(&Tensor::from_vec(low, one.as_slice(), device)?)?;
            above.broadcast_mul(&Tensor::from_vec(factor, one, device)?)
        }
    }
}

fn boxed(model: impl CandleModel + 'static) -> candle_core::Result<Box<dyn CandleModel>> {
    Ok(Box::new(model))
}

fn failed_while(doing: &'static str) -> impl Fn(candle_core::Error) -> PolicyError + Copy {
    move |source| PolicyError::Tensor { doing, source }
}

/// Checks the shape of a model's output, or its absence.
fn check_dims(what: &'static str, tensor: Option<&Tensor>, expected: Option<Vec<usize>>) -> Result<(), PolicyError> {
    let got = tensor.map(|tensor| tensor.dims().to_vec());
    if got == expected { Ok(()) } else { Err(PolicyError::ModelOutput { what, expected, got }) }
}

/// Copies a model's outputs to the caller's.
fn download(output: &CandleOutput, out: &mut Outputs) -> Result<(), PolicyError> {
    let numbers = |tensor| numbers(tensor).map_err(failed_while("reading what the model put out"));
    out.logits.copy_from_slice(&numbers(&output.logits)?);
    out.values.copy_from_slice(&numbers(&output.values)?);
    if let Some(state) = &output.state {
        out.state.copy_from_slice(&numbers(state)?);
    }
    Ok(())
}

/// Without a step, the state stays.
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
