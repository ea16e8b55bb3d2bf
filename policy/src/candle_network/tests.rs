#![allow(clippy::unwrap_used, clippy::expect_used)]

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
        let grads =
            OutputGrads { logits: normals(&mut rng, rows * spec.dist_len), values: normals(&mut rng, rows) };
        Self { obs, grads, rows }
    }

    fn input(&self) -> Input<'_> {
        Input { obs: ObsRef::F32(&self.obs), rows: self.rows }
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
    let far = |far: f64, (&got, want): (&f32, &f64)| if got.is_nan() { f64::NAN } else { far.max((f64::from(got) - want).abs()) };
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
