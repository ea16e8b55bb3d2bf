//! What becomes of a model of one's own: its parameters, when it is built, and what is refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Result, Tensor};
use candle_nn::{
    Conv2dConfig, Linear, Module, ModuleT, VarBuilder, batch_norm, conv2d, layer_norm, linear_no_bias, ops, rms_norm,
};

use super::*;
use crate::{CandleInput, CandleModel, CandleOutput, Memory, NetworkShape};

/// Four numbers to two logits and a value.
struct Heads {
    policy: Linear,
    value: Linear,
    say: Say,
}

/// What a test lets a model do, from what its heads say.
type Say = fn(&CandleInput, CandleOutput) -> Result<CandleOutput>;

impl Heads {
    fn new(vb: VarBuilder, say: Say) -> Result<Self> {
        Ok(Self { policy: linear_no_bias(4, 2, vb.pp("policy"))?, value: linear_no_bias(4, 1, vb.pp("value"))?, say })
    }

    fn of(&self, x: &Tensor) -> Result<CandleOutput> {
        Ok(CandleOutput { logits: self.policy.forward(x)?, values: self.value.forward(x)?.squeeze(1)?, state: None })
    }
}

impl CandleModel for Heads {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        (self.say)(input, self.of(&input.obs)?)
    }
}

/// Heads behind something that a test puts in between.
struct Behind<F> {
    heads: Heads,
    between: F,
}

impl<F: Fn(&Tensor) -> Result<Tensor> + Send> CandleModel for Behind<F> {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        self.heads.of(&(self.between)(&input.obs)?)
    }
}

fn shape(state_len: usize) -> NetworkShape {
    NetworkShape { obs: Space::boxed(vec![-9.0; 4], vec![9.0; 4], vec![4]).unwrap(), dist_len: 2, state_len }
}

fn network(state_len: usize, say: Say) -> std::result::Result<CandleNetwork, PolicyError> {
    CandleNetwork::with_model(shape(state_len), Device::Cpu, move |vb| Heads::new(vb, say))
}

fn plain() -> CandleNetwork {
    network(0, |_, output| Ok(output)).unwrap()
}

#[test]
fn a_model_of_ones_own_acts_and_learns_as_a_network() {
    let mut network = plain();
    let names: Vec<_> =
        network.layout().entries().iter().map(|entry| (entry.name.as_str(), &entry.shape[..])).collect();
    assert_eq!(names, [("policy.weight", &[2, 4][..]), ("value.weight", &[1, 4])]);
    let params = network.first_params(1).unwrap();
    let obs = [1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.0, 2.0];
    let grads = OutputGrads { logits: vec![1.0, 0.0, 0.0, 2.0], values: vec![3.0, -1.0] };
    let (out, grad) = learn(&mut network, &params, &Batch { obs: obs.to_vec(), grads, rows: 2 });
    let weight = params.get("value.weight").unwrap();
    let want = |row: usize| (0..4).map(|i| f64::from(obs[row * 4 + i] * weight[i])).sum::<f64>();
    assert!(distance(&out.values, &[want(0), want(1)]) < ROUNDING);
    assert_eq!(grad[..8], [1.0, 2.0, 3.0, 4.0, -2.0, 1.0, 0.0, 4.0]);
    assert_eq!(grad[8..], [4.0, 5.5, 9.0, 10.0]);
}

#[test]
fn the_first_weights_come_from_the_seed_and_each_parameter_has_a_stream_of_its_own() {
    let bits = |seed| plain().first_params(seed).unwrap().values().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(3), bits(3));
    assert_ne!(bits(3), bits(4));
    let wider = CandleNetwork::with_model(shape(0), Device::Cpu, |vb: VarBuilder| {
        let policy = linear_no_bias(4, 2, vb.pp("policy"))?;
        let hidden = linear_no_bias(4, 4, vb.pp("hidden"))?;
        let heads = Heads { policy, value: linear_no_bias(4, 1, vb.pp("value"))?, say: |_, output| Ok(output) };
        Ok(Behind { heads, between: move |x: &Tensor| hidden.forward(x) })
    });
    let wider = wider.unwrap().first_params(3).unwrap();
    assert_eq!(wider.get("policy.weight"), plain().first_params(3).unwrap().get("policy.weight"));
    assert!(CandleNetwork::cpu(small(Activation::Tanh, Torso::Shared)).unwrap().first_params(3).is_none());
}

#[test]
fn a_model_is_built_once_for_each_version_of_the_weights() {
    let built = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&built);
    let network = CandleNetwork::with_model(shape(0), Device::Cpu, move |vb| {
        counter.fetch_add(1, Ordering::Relaxed);
        Heads::new(vb, |_, output| Ok(output))
    });
    let (mut network, count) = (network.unwrap(), || built.load(Ordering::Relaxed));
    let batch = Batch { obs: vec![1.0; 4], grads: OutputGrads { logits: vec![1.0; 2], values: vec![1.0] }, rows: 1 };
    let mut params = network.first_params(0).unwrap();
    assert_eq!(count(), 1, "to see what it asks for");
    for updates in 1..4 {
        (0..3).for_each(|_| drop(act(&mut network, &params, &batch)));
        assert_eq!(count(), 2 * updates, "to act");
        (0..3).for_each(|_| drop(learn(&mut network, &params, &batch)));
        assert_eq!(count(), 2 * updates + 1, "to learn");
        params.values_mut()[0] += 1.0;
    }
}

#[test]
fn a_parameter_that_two_modules_share_is_one_and_its_gradients_add_up() {
    let network = CandleNetwork::with_model(shape(0), Device::Cpu, |vb: VarBuilder| {
        let heads = Heads::new(vb.clone(), |_, output| Ok(output))?;
        let [once, twice] = [linear_no_bias(4, 4, vb.pp("mix"))?, linear_no_bias(4, 4, vb.pp("mix"))?];
        Ok(Behind { heads, between: move |x: &Tensor| twice.forward(&once.forward(x)?.tanh()?) })
    });
    let mut network = network.unwrap();
    assert_eq!(network.layout().entries().len(), 3);
    let mut params = network.first_params(1).unwrap();
    let batch = Batch { obs: vec![0.3; 4], grads: OutputGrads { logits: vec![1.0, -2.0], values: vec![0.5] }, rows: 1 };
    super::modules::assert_slopes(&mut network, &mut params, &batch.input(), &batch.grads);
}

/// Remembers the sum of the first observations of an episode.
fn counting(input: &CandleInput, output: CandleOutput) -> Result<CandleOutput> {
    let memory = input.memory.as_ref().expect("the shape has a state");
    let mut state = memory.state.clone();
    for step in 0..memory.steps {
        let seen = input.obs.narrow(0, step * memory.columns, memory.columns)?.narrow(1, 0, 1)?;
        state = (memory.before_step(step, &state)? + seen)?;
    }
    Ok(CandleOutput { state: Some(state), ..output })
}

#[test]
fn a_model_of_ones_own_may_remember() {
    let mut network = network(1, counting).unwrap();
    let (params, mut out) = (network.first_params(0).unwrap(), Outputs::default());
    // Three steps of two columns; the second column starts again at the last step.
    let obs: Vec<f32> = (0..6).flat_map(|row| [row as f32, 0.0, 0.0, 0.0]).collect();
    let memory = Memory { state: &[100.0, 200.0], starts: &[false, false, false, false, false, true] };
    network.forward(&params, &Input::new(ObsRef::F32(&obs), 6).with_memory(memory), &mut out).unwrap();
    assert_eq!(out.state, [100.0 + 0.0 + 2.0 + 4.0, 5.0]);
}

/// What the error says, with its causes.
fn whole(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(|e| e.to_string()).collect::<Vec<_>>().join(": ")
}

#[test]
fn a_model_that_puts_out_something_else_is_refused_by_what_it_is() {
    let refusal = |state_len, say: Say| whole(&network(state_len, say).map(drop).unwrap_err());
    let wide: Say = |input, output| Ok(CandleOutput { logits: input.obs.clone(), ..output });
    assert_eq!(refusal(0, wide), "the model's logits: expected shape [2, 2], got shape [2, 4]");
    let square: Say = |_, output| Ok(CandleOutput { values: output.values.unsqueeze(1)?, ..output });
    assert_eq!(refusal(0, square), "the model's values: expected shape [2], got shape [2, 1]");
    let forgetful: Say = |_, output| Ok(output);
    assert_eq!(refusal(1, forgetful), "the model's state: expected shape [1, 1], got none");
    let remembering: Say = |_, output| {
        let state = Some(Tensor::zeros((2, 1), DType::F32, &Device::Cpu)?);
        Ok(CandleOutput { state, ..output })
    };
    assert_eq!(refusal(0, remembering), "the model's state: expected none, got shape [2, 1]");
    let double: Say = |_, output| Ok(CandleOutput { values: output.values.to_dtype(DType::F64)?, ..output });
    assert!(refusal(0, double).contains("F64"), "{}", refusal(0, double));
}

fn refused(change: impl Fn(VarBuilder) -> Result<Tensor> + Send + 'static) -> String {
    let network = CandleNetwork::with_model(shape(0), Device::Cpu, move |vb| {
        let asked = change(vb.clone())?;
        let heads = Heads::new(vb, |_, output| Ok(output))?;
        Ok(Behind { heads, between: move |x: &Tensor| x.broadcast_add(&asked) })
    });
    whole(&network.map(drop).unwrap_err())
}

#[test]
fn what_a_model_may_not_ask_for_is_refused_by_name_and_shape() {
    let twice = refused(|vb| vb.get(8, "value.weight"));
    assert!(twice.contains("`value.weight` is asked for twice, first with shape [8] and then with [1, 4]"), "{twice}");
    let unchecked = refused(|vb| vb.pp("body").get_unchecked("shift"));
    assert!(unchecked.contains("`body.shift` is asked for without a shape"), "{unchecked}");
    let half = refused(|vb| vb.to_dtype(DType::F16).get(4, "shift"));
    assert!(half.contains("`shift` of shape [4] is asked for as F16"), "{half}");
    let reserved = refused(|vb| vb.get(4, "__metadata__"));
    assert!(reserved.contains("`__metadata__`") && reserved.contains("rename it"), "{reserved}");
}

#[test]
fn a_parameter_without_a_gradient_is_refused_by_name() {
    let idle = refused(|vb| vb.pp("idle").get((3, 2), "weight")?.zeros_like()?.sum_all()?.broadcast_as(4));
    assert!(idle.contains("parameter `idle.weight` of shape [3, 2] has no gradient"), "{idle}");
    // What these put out depends on everything below, and candle's backward ends at them without an error.
    type Between = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send>;
    type Layer = fn(VarBuilder) -> Result<Between>;
    let cut: [(&str, Layer); 3] = [
        ("layer_norm", |vb| {
            let norm = layer_norm(4, 1e-5, vb)?;
            Ok(Box::new(move |x| norm.forward(x)))
        }),
        ("rms_norm", |vb| {
            let norm = rms_norm(4, 1e-5, vb)?;
            Ok(Box::new(move |x| norm.forward(x)))
        }),
        ("softmax", |_| Ok(Box::new(ops::softmax_last_dim))),
    ];
    for (what, operation) in cut {
        let network = CandleNetwork::with_model(shape(0), Device::Cpu, move |vb: VarBuilder| {
            let (below, operation) = (linear_no_bias(4, 4, vb.pp("below"))?, operation(vb.pp("norm"))?);
            let heads = Heads::new(vb, |_, output| Ok(output))?;
            Ok(Behind { heads, between: move |x: &Tensor| operation(&below.forward(x)?) })
        });
        let error = network.map(drop).unwrap_err().to_string();
        assert!(error.contains("parameter `below.weight` of shape [4, 4] has no gradient"), "{what}: {error}");
        assert!(error.contains("layer_norm_no_bias"), "{what}: {error}");
    }
}

#[test]
fn statistics_of_a_batch_norm_are_no_parameters() {
    let network = CandleNetwork::with_model(shape(0), Device::Cpu, |vb: VarBuilder| {
        let norm = batch_norm(4, 1e-5, vb.pp("norm"))?;
        let heads = Heads::new(vb, |_, output| Ok(output))?;
        Ok(Behind { heads, between: move |x: &Tensor| norm.forward_t(x, false) })
    });
    let error = network.map(drop).unwrap_err().to_string();
    assert!(error.contains("parameter `norm.running_mean` of shape [4] has no gradient"), "{error}");
}

#[test]
fn a_convolution_whose_gradient_candle_gets_wrong_is_refused_until_the_rest_is_cut_off() {
    // Kernels of 3 every other pixel leave no rest of 5 rows and one of 6 columns.
    let network = |cut: usize| {
        let obs = Space::boxed(vec![-9.0; 30], vec![9.0; 30], vec![1, 5, 6]).unwrap();
        CandleNetwork::with_model(NetworkShape { obs, ..shape(0) }, Device::Cpu, move |vb: VarBuilder| {
            let stride = Conv2dConfig { stride: 2, ..Conv2dConfig::default() };
            let conv = conv2d(1, 1, 3, stride, vb.pp("conv"))?;
            let heads = Heads::new(vb, |_, output| Ok(output))?;
            let between = move |x: &Tensor| conv.forward(&x.narrow(3, 0, 6 - cut)?)?.flatten_from(1);
            Ok(Behind { heads, between })
        })
    };
    let error = whole(&network(0).map(drop).unwrap_err());
    assert!(error.contains("running backward through the model") && error.contains("[2, 1, 5, 6]"), "{error}");
    assert!(network(1).is_ok());
}

#[test]
fn a_model_that_asks_for_something_else_the_second_time_fails_by_name() {
    let built = AtomicUsize::new(0);
    let network = CandleNetwork::with_model(shape(0), Device::Cpu, move |vb: VarBuilder| {
        let vb = if built.fetch_add(1, Ordering::Relaxed) == 0 { vb } else { vb.pp("later") };
        Heads::new(vb, |_, output| Ok(output))
    });
    let mut network = network.unwrap();
    let (params, mut out) = (network.first_params(0).unwrap(), Outputs::default());
    let error = network.forward(&params, &Input::new(ObsRef::F32(&[0.0; 4]), 1), &mut out).unwrap_err();
    let error = whole(&error);
    assert!(error.contains("building the model") && error.contains("later.policy.weight"), "{error}");
}

#[test]
fn a_model_that_cannot_be_a_network_is_refused_with_the_reason() {
    let refusal = |shape| {
        let build = |vb: VarBuilder| Heads::new(vb, |_, output| Ok(output));
        CandleNetwork::with_model(shape, Device::Cpu, build).map(drop).unwrap_err().to_string()
    };
    assert!(refusal(NetworkShape { dist_len: 0, ..shape(0) }).contains("dist_len is 0"));
    assert!(refusal(NetworkShape { obs: Space::Discrete { n: 0 }, ..shape(0) }).contains("at least one thing"));
}
