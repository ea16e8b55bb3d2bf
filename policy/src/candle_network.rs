//! The network on candle's tensors and automatic differentiation.

mod draw;
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
use crate::{
    Input, LoadedObs, Memory, Network, NetworkShape, NetworkSpec, ObsDtype, ObsLoader, ObsRef, OutputGrads, Outputs,
    ParamEntry, ParamLayout, Params, PolicyError, Rng, Space,
};

pub use self::model::{CandleInput, CandleMemory, CandleModel, CandleOutput};

/// A [`Network`] on any candle device, for every [`NetworkSpec`] and for models of one's own.
///
/// It is written with the modules of `candle_nn` and candle's plain operations, the reference that faster implementations must agree with. On the CPU,
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
    /// How each parameter starts, where the model says so.
    inits: Option<Vec<Init>>,
    device: Device,
    build: Box<Build>,
    acting: Option<Built>,
    learning: Option<Built>,
    /// With the graph behind the output; no output if there were no rows.
    kept: Option<(Kept, Option<CandleOutput>)>,
}

/// Makes a model of the parameters that the `VarBuilder` holds.
type Build = dyn Fn(VarBuilder<'static>) -> candle_core::Result<Box<dyn CandleModel>> + Send;

/// The model with the parameters of one stamp.
struct Built {
    stamp: u64,
    /// In the order of the layout.
    weights: Vec<Tensor>,
    model: Box<dyn CandleModel>,
}

impl CandleNetwork {
    /// The network of a description, on a device.
    ///
    /// # Errors
    /// When the description is one that [`NetworkSpec::check`] refuses.
    pub fn new(spec: NetworkSpec, device: Device) -> Result<Self, PolicyError> {
        let (layout, towers) = (spec.layout()?, spec.towers());
        let build = Box::new(move |vb| boxed(SpecModel::new(&towers, &vb)?));
        Ok(Self::of(spec.shape(), layout, None, device, build))
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
    /// `build` makes the model; what it asks the `VarBuilder` for becomes the parameters, in that order and under those
    /// names. It runs once here, and once more each time the network sees other weights: what takes long and does not
    /// depend on the weights belongs outside. [`first_params`](Network::first_params) draws the first weights as the
    /// modules say; a parameter asked for by `VarBuilder::get`, which says nothing, starts at zero.
    ///
    /// [`CandleModel`] has an example.
    ///
    /// # Errors
    /// The observation space contradicts itself, or there are no logits. The model asks for a parameter twice with two
    /// shapes, without a shape, or as another type than `F32`. Tried on two rows of zeros, it fails, puts out something
    /// else than `shape` says, or leaves a parameter without a gradient.
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

    /// Whether a model that was built of `asked` puts out what it should and learns all of them.
    ///
    /// Some operations of `candle_nn` have no gradient, and candle cuts the graph there without a word: the layers below
    /// would never learn.
    fn try_out(&self, model: &dyn CandleModel, asked: &[Parameter]) -> Result<(), PolicyError> {
        // A recurrent weight may not count before the second step.
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

    /// What the model says about at least one row.
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

    /// The model of parameters made tensors by `tensor`, unless the one at hand is still good.
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

    /// Overwrites `grad` with the gradient of Σ output · `grads`, `grads` held fixed.
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
            // Variables, so that operations on them make a graph.
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
            // A stream for each, so that changing one layer leaves the others alone.
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

fn boxed(model: impl CandleModel + 'static) -> candle_core::Result<Box<dyn CandleModel>> {
    Ok(Box::new(model))
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
