//! Models made of modules of `candle_nn`: their gradients are the slopes of their outputs.

use candle_core::{Result, Tensor};
use candle_nn::{
    Conv2d, Conv2dConfig, LSTM, LSTMConfig, LayerNorm, Linear, Module, VarBuilder, conv2d, layer_norm,
    layer_norm_no_bias, linear, lstm, ops,
};

use super::*;
use crate::{CandleInput, CandleModel, CandleOutput, DataParallel, Memory, NetworkShape};

struct Heads {
    policy: Linear,
    value: Linear,
}

impl Heads {
    fn new(inputs: usize, vb: &VarBuilder) -> Result<Self> {
        Ok(Self { policy: linear(inputs, 2, vb.pp("policy"))?, value: linear(inputs, 1, vb.pp("value"))? })
    }

    fn say(&self, x: &Tensor, state: Option<Tensor>) -> Result<CandleOutput> {
        Ok(CandleOutput { logits: self.policy.forward(x)?, values: self.value.forward(x)?.squeeze(1)?, state })
    }
}

struct Mlp {
    layers: Vec<Linear>,
    heads: Heads,
}

impl CandleModel for Mlp {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        let x = self.layers.iter().try_fold(input.obs.clone(), |x, layer| layer.forward(&x)?.tanh())?;
        self.heads.say(&x, None)
    }
}

fn mlp() -> CandleNetwork {
    let shape =
        NetworkShape { obs: Space::boxed(vec![-9.0; 3], vec![9.0; 3], vec![3]).unwrap(), dist_len: 2, state_len: 0 };
    let build = |vb: VarBuilder| {
        let layers = vec![linear(3, 5, vb.pp("layers.0"))?, linear(5, 4, vb.pp("layers.1"))?];
        Ok(Mlp { layers, heads: Heads::new(4, &vb)? })
    };
    CandleNetwork::with_model(shape, Device::Cpu, build).unwrap()
}

/// A convolution over bytes and both kinds of normalisation that have a gradient.
struct Vision {
    conv: Conv2d,
    scaled: LayerNorm,
    dense: Linear,
    shifted: LayerNorm,
    heads: Heads,
}

impl CandleModel for Vision {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        let x = self.conv.forward(&input.obs)?.flatten_from(1)?;
        let x = self.dense.forward(&self.scaled.forward(&x)?.tanh()?)?;
        let (weight, bias) = (self.shifted.weight(), self.shifted.bias().expect("made with one"));
        self.heads.say(&ops::layer_norm_slow(&x, weight, bias, self.shifted.eps() as f32)?.tanh()?, None)
    }
}

fn vision() -> CandleNetwork {
    let shape = NetworkShape { obs: Space::bytes(vec![2, 6, 6]).unwrap(), dist_len: 2, state_len: 0 };
    let build = |vb: VarBuilder| {
        let stride = Conv2dConfig { stride: 2, ..Conv2dConfig::default() };
        Ok(Vision {
            conv: conv2d(2, 3, 3, stride, vb.pp("conv"))?,
            scaled: layer_norm_no_bias(12, 1e-5, vb.pp("scaled"))?,
            dense: linear(12, 4, vb.pp("dense"))?,
            shifted: layer_norm(4, 1e-5, vb.pp("shifted"))?,
            heads: Heads::new(4, &vb)?,
        })
    };
    CandleNetwork::with_model(shape, Device::Cpu, build).unwrap()
}

struct Recurrent {
    core: LSTM,
    heads: Heads,
}

impl CandleModel for Recurrent {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        let memory = input.memory.as_ref().expect("the shape has a state");
        let (x, state) = memory.run_lstm(&self.core, &input.obs, &memory.state)?;
        self.heads.say(&x, Some(state))
    }
}

const WIDTH: usize = 4;
const COLUMNS: usize = 3;

fn recurrent() -> CandleNetwork {
    let obs = Space::boxed(vec![-9.0; 3], vec![9.0; 3], vec![3]).unwrap();
    let shape = NetworkShape { obs, dist_len: 2, state_len: 2 * WIDTH };
    let build = |vb: VarBuilder| {
        let core = lstm(3, WIDTH, LSTMConfig::default(), vb.pp("core"))?;
        Ok(Recurrent { core, heads: Heads::new(WIDTH, &vb)? })
    };
    CandleNetwork::with_model(shape, Device::Cpu, build).unwrap()
}

fn output_grads(rows: usize) -> OutputGrads {
    let mut rng = Rng::seed_from(9);
    OutputGrads { logits: normals(&mut rng, rows * 2), values: normals(&mut rng, rows) }
}

fn differentiate(
    network: &mut dyn Network,
    params: &Params,
    input: &Input<'_>,
    grads: &OutputGrads,
) -> (Outputs, Vec<f32>) {
    let (mut out, mut grad) = (Outputs::default(), vec![f32::NAN; params.layout().len()]);
    network.forward_for_learning(params, input, &mut out).unwrap();
    network.backward(params, grads, &mut grad).unwrap();
    (out, grad)
}

/// Steps of 1e-2 in f32: rounding of the loss (1e-6) over the step gives 1e-4, curvature times the step squared as much.
pub(super) fn assert_slopes(network: &mut CandleNetwork, params: &mut Params, input: &Input<'_>, grads: &OutputGrads) {
    let (_, grad) = differentiate(network, params, input, grads);
    let layout = Arc::clone(params.layout());
    let mut out = Outputs::default();
    for entry in layout.entries() {
        for i in entry.range() {
            let value = params.values()[i];
            let mut loss_at = |at: f32| {
                params.values_mut()[i] = at;
                network.forward(params, input, &mut out).unwrap();
                let terms = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
                terms(&out.logits, &grads.logits) + terms(&out.values, &grads.values)
            };
            let slope = (loss_at(value + 1e-2) - loss_at(value - 1e-2)) / 2e-2;
            loss_at(value);
            let got = f64::from(grad[i]);
            assert!((slope - got).abs() < 5e-3 * got.abs().max(1.0), "{}: got {got}, slope {slope}", entry.name);
        }
    }
}

#[test]
fn the_gradient_of_linear_layers_is_the_slope() {
    let mut network = mlp();
    let mut params = network.first_params(1).unwrap();
    let obs = normals(&mut Rng::seed_from(2), 3 * 4);
    assert_slopes(&mut network, &mut params, &Input::new(ObsRef::F32(&obs), 4), &output_grads(4));
}

#[test]
fn the_gradient_of_a_convolution_and_of_layer_norms_is_the_slope() {
    let mut network = vision();
    let mut params = network.first_params(1).unwrap();
    assert_eq!(params.get("scaled.weight"), Some([1.0; 12].as_slice()));
    assert_eq!(params.get("shifted.bias"), Some([0.0; 4].as_slice()));
    let mut rng = Rng::seed_from(3);
    let bytes: Vec<u8> = (0..2 * 72).map(|_| rng.below(256) as u8).collect();
    assert_slopes(&mut network, &mut params, &Input::new(ObsRef::U8(&bytes), 2), &output_grads(2));
}

#[test]
fn the_gradient_of_an_lstm_is_the_slope_through_time_and_stops_where_an_episode_starts() {
    let mut network = recurrent();
    let mut params = network.first_params(1).unwrap();
    let mut rng = Rng::seed_from(4);
    let (obs, state) = (normals(&mut rng, 4 * COLUMNS * 3), normals(&mut rng, COLUMNS * 2 * WIDTH));
    let mut starts = [false; 4 * COLUMNS];
    starts[2 * COLUMNS + 1] = true;
    let input = |starts| Input::new(ObsRef::F32(&obs), 4 * COLUMNS).with_memory(Memory { state: &state, starts });
    let grads = output_grads(4 * COLUMNS);
    assert_slopes(&mut network, &mut params, &input(&starts), &grads);
    let (with, without) = (
        differentiate(&mut network, &params, &input(&starts), &grads).1,
        differentiate(&mut network, &params, &input(&[false; 4 * COLUMNS]), &grads).1,
    );
    assert_ne!(with, without);
}

#[test]
fn an_lstm_goes_on_from_the_state_it_left_and_from_zero_after_a_start() {
    let mut network = recurrent();
    let params = network.first_params(1).unwrap();
    let mut rng = Rng::seed_from(5);
    let (obs, state) = (normals(&mut rng, 4 * COLUMNS * 3), normals(&mut rng, COLUMNS * 2 * WIDTH));
    let mut starts = [false; 4 * COLUMNS];
    starts[2 * COLUMNS + 1] = true;
    let mut act = |steps: std::ops::Range<usize>, state: &[f32]| {
        let rows = steps.start * COLUMNS..steps.end * COLUMNS;
        let memory = Memory { state, starts: &starts[rows.clone()] };
        let input = Input::new(ObsRef::F32(&obs[rows.start * 3..rows.end * 3]), rows.len()).with_memory(memory);
        let mut out = Outputs::default();
        network.forward(&params, &input, &mut out).unwrap();
        out
    };
    let whole = act(0..4, &state);
    let first = act(0..2, &state);
    let mut forgotten = first.state.clone();
    let second = act(2..4, &first.state);
    assert_near(&[first.logits, second.logits.clone()].concat(), &whole.logits);
    assert_near(&second.state, &whole.state);
    // What the column remembered makes no difference.
    forgotten[2 * WIDTH..4 * WIDTH].fill(f32::NAN);
    assert_eq!(act(2..4, &forgotten).logits, second.logits);
}

#[test]
fn a_model_on_several_devices_learns_as_on_one() {
    let (mut one, params) = (recurrent(), recurrent().first_params(1).unwrap());
    let replica = || Box::new(recurrent()) as Box<dyn Network>;
    let mut several = DataParallel::new(vec![replica(), replica()]).unwrap();
    assert_eq!(several.first_params(1).unwrap().values(), params.values());
    let mut rng = Rng::seed_from(6);
    let (obs, state) = (normals(&mut rng, 4 * COLUMNS * 3), normals(&mut rng, COLUMNS * 2 * WIDTH));
    let memory = Memory { state: &state, starts: &[false; 4 * COLUMNS] };
    let input = Input::new(ObsRef::F32(&obs), 4 * COLUMNS).with_memory(memory);
    let (want, want_grad) = differentiate(&mut one, &params, &input, &output_grads(4 * COLUMNS));
    let (got, got_grad) = differentiate(&mut several, &params, &input, &output_grads(4 * COLUMNS));
    assert_near(&got.logits, &want.logits);
    assert_near(&got.state, &want.state);
    assert_near(&got_grad, &want_grad);
}

#[track_caller]
fn assert_near(got: &[f32], want: &[f32]) {
    let want: Vec<f64> = want.iter().map(|&x| x.into()).collect();
    assert!(distance(got, &want) < ROUNDING, "got {got:?}, expected {want:?}");
}
