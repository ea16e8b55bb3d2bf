//! How many rows a second the candle network acts and learns on one core, beside the same network written the obvious way.
//!
//! `cargo bench -p pronk-policy`; with `RAYON_NUM_THREADS=1` before it, the obvious one is at its best. Samples of the two
//! are taken in turn, so a noisy machine disturbs both alike; the ratio of the medians is what to compare between machines.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::time::{Duration, Instant};

use candle_core::{Device, Tensor, Var};
use pronk_policy::{
    Activation, CandleNetwork, Encoder, Input, Network, NetworkSpec, ObsRef, OutputGrads, Outputs, Params, Rng, Space,
};

const SAMPLES: usize = 301;
/// Much shorter than the time slice of a busy machine, so that most samples are undisturbed, and long enough for the clock.
const SAMPLE: Duration = Duration::from_micros(200);

fn main() {
    println!("MLP 4-64-64-(2+1), one thread, medians of {SAMPLES} samples, million rows/s");
    println!("{:<10} {:<6} {:>6} {:>10} {:>10} {:>7}", "", "", "rows", "network", "obvious", "ratio");
    for activation in [Activation::Relu, Activation::Tanh] {
        for rows in [1, 16, 64, 256] {
            let mut case = Case::new(activation, rows);
            let obvious = Obvious::new(&case);
            let mut act = || case.network.forward(&case.params, &input(&case.obs, rows), &mut case.out).unwrap();
            report("forward", activation, rows, &mut act, &mut || drop(obvious.forward(&case.obs)));
        }
        for rows in [512, 1024] {
            let mut case = Case::new(activation, rows);
            let obvious = Obvious::new(&case);
            let mut learn = || {
                // A learner's weights change at every step.
                case.params.values_mut();
                let input = input(&case.obs, rows);
                case.network.forward_for_learning(&case.params, &input, &mut case.out).unwrap();
                case.network.backward(&case.params, &case.grads, &mut case.grad).unwrap();
            };
            report("learn", activation, rows, &mut learn, &mut || drop(obvious.learn(&case.obs, &case.grads)));
        }
    }
}

fn input(obs: &[f32], rows: usize) -> Input<'_> {
    Input::new(ObsRef::F32(obs), rows)
}

fn report(what: &str, activation: Activation, rows: usize, network: &mut dyn FnMut(), obvious: &mut dyn FnMut()) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        ours.push(seconds_per_call(network));
        theirs.push(seconds_per_call(obvious));
    }
    let [ours, theirs] = [ours, theirs].map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        rows as f64 / samples[SAMPLES / 2] / 1e6
    });
    let activation = format!("{activation:?}").to_lowercase();
    println!("{what:<10} {activation:<6} {rows:>6} {ours:>10.3} {theirs:>10.3} {:>7.2}", ours / theirs);
}

fn seconds_per_call(call: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < SAMPLE {
        call();
        calls += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}

struct Case {
    network: CandleNetwork,
    activation: Activation,
    params: Params,
    obs: Vec<f32>,
    grads: OutputGrads,
    out: Outputs,
    grad: Vec<f32>,
}

impl Case {
    fn new(activation: Activation, rows: usize) -> Self {
        let (observation, action) = (Space::boxed(vec![-9.0; 4], vec![9.0; 4], vec![4]), Space::discrete(2));
        let spec = NetworkSpec {
            encoder: Encoder::Mlp { hidden: vec![64, 64], activation },
            ..NetworkSpec::for_spaces(&observation.unwrap(), &action.unwrap()).unwrap()
        };
        let params = spec.init_params(1).unwrap();
        let mut rng = Rng::seed_from(2);
        let mut normals = |n| (0..n).map(|_| rng.normal() as f32).collect::<Vec<_>>();
        Self {
            network: CandleNetwork::cpu(spec).unwrap(),
            activation,
            obs: normals(rows * 4),
            grads: OutputGrads { logits: normals(rows * 2), values: normals(rows) },
            out: Outputs::default(),
            grad: vec![0.0; params.values().len()],
            params,
        }
    }
}

/// The same network from candle's operations, the whole batch at once.
struct Obvious {
    activation: Activation,
    vars: Vec<Var>,
}

impl Obvious {
    fn new(case: &Case) -> Self {
        let var = |name: &str| {
            let entry = case.params.layout().find(name).unwrap();
            Var::from_slice(&case.params.values()[entry.range()], entry.shape.as_slice(), &Device::Cpu).unwrap()
        };
        let names = ["torso.0.weight", "torso.0.bias", "torso.1.weight", "torso.1.bias"];
        let heads = ["policy.weight", "policy.bias", "value.weight", "value.bias"];
        Self { activation: case.activation, vars: names.into_iter().chain(heads).map(var).collect() }
    }

    fn heads(&self, obs: &[f32]) -> candle_core::Result<(Tensor, Tensor)> {
        let linear =
            |x: &Tensor, layer: usize| x.matmul(&self.vars[2 * layer])?.broadcast_add(&self.vars[2 * layer + 1]);
        let activate = |x: Tensor| match self.activation {
            Activation::Relu => x.relu(),
            Activation::Tanh => x.tanh(),
        };
        let x = Tensor::from_slice(obs, (obs.len() / 4, 4), &Device::Cpu)?;
        let x = activate(linear(&x, 0)?)?;
        let x = activate(linear(&x, 1)?)?;
        Ok((linear(&x, 2)?, linear(&x, 3)?))
    }

    fn forward(&self, obs: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (logits, values) = self.heads(obs).unwrap();
        (numbers(&logits), numbers(&values))
    }

    fn learn(&self, obs: &[f32], grads: &OutputGrads) -> Vec<Vec<f32>> {
        let (logits, values) = self.heads(obs).unwrap();
        let logit_grads = Tensor::from_slice(&grads.logits, logits.dims(), &Device::Cpu).unwrap();
        let value_grads = Tensor::from_slice(&grads.values, values.dims(), &Device::Cpu).unwrap();
        let loss = (logits * logit_grads).unwrap().sum_all().unwrap() + (values * value_grads).unwrap().sum_all();
        let found = loss.unwrap().backward().unwrap();
        self.vars.iter().map(|var| numbers(found.get(var).unwrap())).collect()
    }
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}
