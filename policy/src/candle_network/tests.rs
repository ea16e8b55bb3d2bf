#![allow(clippy::unwrap_used, clippy::expect_used)]

mod images;
mod memory;
mod models;
mod modules;
mod reference;

use std::sync::Arc;

use candle_core::Device;

use self::reference::reference;
use super::CandleNetwork;
use crate::{
    Activation, Encoder, Init, Input, Network, NetworkSpec, ObsRef, OutputGrads, Outputs, Params, PolicyError, Rng,
    Space, Torso,
};

fn spec(obs_len: usize, hidden: &[usize], activation: Activation, torso: Torso) -> NetworkSpec {
    NetworkSpec {
        obs: Space::boxed(vec![-9.0; obs_len], vec![9.0; obs_len], vec![obs_len]).unwrap(),
        dist_len: 3,
        encoder: Encoder::Mlp { hidden: hidden.to_vec(), activation },
        lstm: None,
        torso,
        init: Init::Orthogonal,
    }
}

fn small(activation: Activation, torso: Torso) -> NetworkSpec {
    spec(4, &[7, 5], activation, torso)
}

fn normals(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.normal() as f32).collect()
}

/// Parameters of the size that training leaves, biases included: no product is zero, no unit always off.
fn trained_params(spec: &NetworkSpec, seed: u64) -> Params {
    let mut params = spec.init_params(seed).unwrap();
    let noise = normals(&mut Rng::stream(seed, &[99]), params.values().len());
    params.values_mut().iter_mut().zip(noise).for_each(|(value, noise)| *value += 0.3 * noise);
    params
}

struct Batch {
    obs: Vec<f32>,
    grads: OutputGrads,
    rows: usize,
}

impl Batch {
    fn new(spec: &NetworkSpec, rows: usize, seed: u64) -> Self {
        let mut rng = Rng::stream(seed, &[rows as u64]);
        let obs = normals(&mut rng, rows * spec.obs.obs_len());
        let grads = OutputGrads { logits: normals(&mut rng, rows * spec.dist_len), values: normals(&mut rng, rows) };
        Self { obs, grads, rows }
    }

    fn input(&self) -> Input<'_> {
        Input::new(ObsRef::F32(&self.obs), self.rows)
    }
}

fn learn(network: &mut CandleNetwork, params: &Params, batch: &Batch) -> (Outputs, Vec<f32>) {
    let (mut out, mut grad) = (Outputs::default(), vec![f32::NAN; params.layout().len()]);
    network.forward_for_learning(params, &batch.input(), &mut out).unwrap();
    network.backward(params, &batch.grads, &mut grad).unwrap();
    (out, grad)
}

fn act(network: &mut CandleNetwork, params: &Params, batch: &Batch) -> Outputs {
    let mut out = Outputs::default();
    network.forward(params, &batch.input(), &mut out).unwrap();
    out
}

/// The largest difference relative to the size of the whole vector: single entries may cancel to nearly nothing.
fn distance(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let size = want.iter().fold(1e-3, |size: f64, want| size.max(want.abs()));
    let far = |far: f64, (&got, want): (&f32, &f64)| {
        if got.is_nan() { f64::NAN } else { far.max((f64::from(got) - want).abs()) }
    };
    got.iter().zip(want).fold(0.0, far) / size
}

fn kinds() -> impl Iterator<Item = (Activation, Torso)> {
    let torsos = [Torso::Shared, Torso::Separate];
    [Activation::Tanh, Activation::Relu].into_iter().flat_map(move |activation| torsos.map(|torso| (activation, torso)))
}

/// f32 carries 7 digits and a gradient sums some hundred products of both signs: 1e-5 of the largest entry is rounding,
/// more is a mistake. (A wrong index or factor is off by about 1.)
const ROUNDING: f64 = 1e-5;

#[test]
fn outputs_and_every_gradient_agree_with_double_precision() {
    for (activation, torso) in kinds() {
        let spec = small(activation, torso);
        let params = trained_params(&spec, 1);
        let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
        for rows in [1, 2, 3, 17, 64] {
            let batch = Batch::new(&spec, rows, 2);
            let (out, grad) = learn(&mut network, &params, &batch);
            let want = reference(&spec, &params, &batch.obs, &batch.grads);
            let what = format!("{activation:?} {torso:?} {rows} rows");
            assert!(distance(&out.logits, &want.logits) < ROUNDING, "logits, {what}");
            assert!(distance(&out.values, &want.values) < ROUNDING, "values, {what}");
            for entry in params.layout().entries() {
                let at = entry.range();
                let off = distance(&grad[at.clone()], &want.grad[at]);
                assert!(off < ROUNDING, "gradient of {}, {what}: off by {off}", entry.name);
            }
        }
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    // The reference shares the chain rule with the network; this does not. Tanh only: relu has kinks to step across. Steps
    // of 1e-2 in f32: rounding of the loss (1e-6) over the step gives 1e-4, curvature times the step squared as much.
    let spec = small(Activation::Tanh, Torso::Shared);
    let batch = Batch::new(&spec, 3, 4);
    let mut params = trained_params(&spec, 3);
    let mut network = CandleNetwork::cpu(spec).unwrap();
    let (_, grad) = learn(&mut network, &params, &batch);
    let values = params.values().to_vec();
    let mut loss_at = |i: usize, value: f32| {
        params.values_mut()[i] = value;
        let out = act(&mut network, &params, &batch);
        let terms = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        terms(&out.logits, &batch.grads.logits) + terms(&out.values, &batch.grads.values)
    };
    for (i, &value) in values.iter().enumerate() {
        let slope = (loss_at(i, value + 1e-2) - loss_at(i, value - 1e-2)) / 2e-2;
        loss_at(i, value);
        assert!((slope - f64::from(grad[i])).abs() < 2e-3, "parameter {i}: got {}, slope {slope}", grad[i]);
    }
}

#[test]
fn layers_of_every_depth_work() {
    for hidden in [&[][..], &[1], &[6], &[3, 9, 2, 4]] {
        let spec = spec(2, hidden, Activation::Relu, Torso::Separate);
        let params = trained_params(&spec, 5);
        let batch = Batch::new(&spec, 5, 6);
        let (out, grad) = learn(&mut CandleNetwork::cpu(spec.clone()).unwrap(), &params, &batch);
        let want = reference(&spec, &params, &batch.obs, &batch.grads);
        assert!(distance(&out.logits, &want.logits) < ROUNDING, "{hidden:?}");
        assert!(distance(&grad, &want.grad) < ROUNDING, "{hidden:?}");
    }
}

#[test]
fn acting_and_learning_see_the_same_outputs_and_repeat_bit_for_bit() {
    let spec = small(Activation::Tanh, Torso::Separate);
    let params = trained_params(&spec, 1);
    let batch = Batch::new(&spec, 41, 2);
    let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
    let (out, grad) = learn(&mut network, &params, &batch);
    let acted = act(&mut network, &params, &batch);
    assert_eq!((acted.logits, acted.values), (out.logits.clone(), out.values.clone()));
    let mut fresh = CandleNetwork::cpu(spec).unwrap();
    for network in [&mut network, &mut fresh] {
        let (again, grad_again) = learn(network, &params, &batch);
        assert_eq!((again.logits, again.values, grad_again), (out.logits.clone(), out.values.clone(), grad.clone()));
    }
}

#[test]
fn changed_parameters_are_seen_at_once() {
    let spec = small(Activation::Relu, Torso::Shared);
    let batch = Batch::new(&spec, 6, 2);
    let (one, other) = (trained_params(&spec, 1), trained_params(&spec, 7));
    let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
    let mut changing = one.clone();
    let first = act(&mut network, &changing, &batch).logits;
    changing.copy_from(&other);
    let second = act(&mut network, &changing, &batch).logits;
    assert_ne!(first, second);
    assert_eq!(second, act(&mut CandleNetwork::cpu(spec.clone()).unwrap(), &other, &batch).logits);
    assert_eq!(first, act(&mut network, &one, &batch).logits, "and so is the way back");
    changing.values_mut().copy_from_slice(one.values());
    let (learned, grad) = learn(&mut network, &changing, &batch);
    assert_eq!(learned.logits, first);
    assert_eq!(grad, learn(&mut CandleNetwork::cpu(spec).unwrap(), &one, &batch).1);
}

#[test]
fn acting_between_forward_and_backward_does_no_harm() {
    let spec = small(Activation::Tanh, Torso::Shared);
    let (params, batch, other) = (trained_params(&spec, 1), Batch::new(&spec, 9, 2), Batch::new(&spec, 4, 8));
    let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
    let (_, want) = learn(&mut network, &params, &batch);
    let (mut out, mut grad) = (Outputs::default(), vec![0.0; want.len()]);
    network.forward_for_learning(&params, &batch.input(), &mut out).unwrap();
    act(&mut network, &trained_params(&spec, 3), &other);
    network.backward(&params, &batch.grads, &mut grad).unwrap();
    assert_eq!(grad, want);
}

#[test]
fn nan_in_one_row_is_nan_in_that_row_and_in_the_gradient() {
    for (activation, torso) in kinds() {
        let spec = small(activation, torso);
        let params = trained_params(&spec, 1);
        let mut batch = Batch::new(&spec, 3, 2);
        batch.obs[5] = f32::NAN;
        let (out, grad) = learn(&mut CandleNetwork::cpu(spec).unwrap(), &params, &batch);
        let nan: Vec<_> = out.values.iter().chain(&out.logits).map(|x| x.is_nan()).collect();
        let t = true;
        assert_eq!(nan, [!t, t, !t, !t, !t, !t, t, t, t, !t, !t, !t], "{activation:?} {torso:?}");
        assert!(grad.iter().any(|g| g.is_nan()));
    }
}

#[test]
fn no_rows_give_no_outputs_and_no_gradient() {
    let spec = small(Activation::Relu, Torso::Shared);
    let (params, batch) = (trained_params(&spec, 1), Batch::new(&spec, 0, 2));
    let (out, grad) = learn(&mut CandleNetwork::cpu(spec).unwrap(), &params, &batch);
    assert!(out.logits.is_empty() && out.values.is_empty() && grad.iter().all(|&g| g == 0.0));
}

#[test]
fn what_does_not_fit_is_named() {
    let spec = small(Activation::Relu, Torso::Shared);
    let (params, batch) = (trained_params(&spec, 1), Batch::new(&spec, 2, 2));
    let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
    let mut out = Outputs::default();
    let mut refusal = |params: &Params, obs, rows| {
        let input = Input::new(obs, rows);
        let errors =
            [network.forward(params, &input, &mut out), network.forward_for_learning(params, &input, &mut out)];
        let [acting, learning] = errors.map(|result| result.unwrap_err().to_string());
        assert_eq!(acting, learning);
        acting
    };
    let (eight, bytes) = (ObsRef::F32(&[0.0; 8]), ObsRef::U8(&[0; 8]));
    assert_eq!(refusal(&params, eight, 3), "observations: expected 12 numbers, got 8");
    assert_eq!(refusal(&params, eight, usize::MAX), format!("observations: expected {} numbers, got 8", usize::MAX));
    assert_eq!(refusal(&params, bytes, 2), "observations: expected f32 numbers, got u8");
    let wider = trained_params(&self::spec(4, &[8, 5], Activation::Relu, Torso::Shared), 1);
    assert_eq!(
        refusal(&wider, eight, 2),
        "parameters do not fit the network: expected `torso.0.weight` of shape [4, 7], got `torso.0.weight` of shape [4, 8]"
    );
    let deeper = Params::zeros(Arc::new(crate::ParamLayout::default()));
    assert!(refusal(&deeper, eight, 2).contains("expected 8 tensors, got 0"));

    let mut grad = vec![0.0; params.values().len()];
    let len = grad.len();
    network.forward_for_learning(&params, &batch.input(), &mut out).unwrap();
    let error = network.backward(&params, &batch.grads, &mut grad[1..]).unwrap_err().to_string();
    assert_eq!(error, format!("parameter gradient: expected {len} numbers, got {}", len - 1));
    let grads = OutputGrads { logits: vec![0.0; 5], values: vec![0.0; 2] };
    let error = network.backward(&params, &grads, &mut grad).unwrap_err().to_string();
    assert_eq!(error, "gradient of the logits: expected 6 numbers, got 5");
}

#[test]
fn backward_needs_its_own_forward() {
    let spec = small(Activation::Relu, Torso::Shared);
    let (params, batch) = (trained_params(&spec, 1), Batch::new(&spec, 2, 2));
    let (mut out, mut grad) = (Outputs::default(), vec![0.0; params.values().len()]);
    let mut network = CandleNetwork::cpu(spec.clone()).unwrap();
    let reason = |result: Result<(), PolicyError>| match result {
        Err(PolicyError::NothingToDifferentiate { reason }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(network.backward(&params, &batch.grads, &mut grad)).contains("there was none"));

    network.forward_for_learning(&params, &batch.input(), &mut out).unwrap();
    network.backward(&params, &batch.grads, &mut grad).unwrap();
    assert!(reason(network.backward(&params, &batch.grads, &mut grad)).contains("used up"));

    network.forward_for_learning(&params, &batch.input(), &mut out).unwrap();
    let mut changed = params.clone();
    changed.values_mut();
    assert!(reason(network.backward(&changed, &batch.grads, &mut grad)).contains("have changed"));

    network.forward_for_learning(&params, &batch.input(), &mut out).unwrap();
    let three = Batch::new(&spec, 3, 2).grads;
    assert_eq!(reason(network.backward(&params, &three, &mut grad)), "it saw 2 rows, the gradient has 3");
}

#[test]
fn every_thread_can_have_its_own() {
    fn is_send<T: Send>(_: &T) {}
    let spec = small(Activation::Tanh, Torso::Shared);
    let (params, batch) = (trained_params(&spec, 1), Batch::new(&spec, 20, 2));
    let mut network = CandleNetwork::new(spec.clone(), Device::Cpu).unwrap();
    is_send(&network);
    let want = act(&mut network, &params, &batch).logits;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let run =
                || (0..20).all(|_| act(&mut CandleNetwork::cpu(spec.clone()).unwrap(), &params, &batch).logits == want);
            scope.spawn(move || assert!(run()));
        }
    });
}
