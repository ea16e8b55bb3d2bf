#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Activation, CpuNetwork, Encoder, NetworkSpec, Rng, Space};

fn spec(lstm: Option<usize>) -> NetworkSpec {
    let (obs, action) = (Space::boxed(vec![-1.0; 3], vec![1.0; 3], vec![3]).unwrap(), Space::discrete(4).unwrap());
    let encoder = Encoder::Mlp { hidden: vec![16], activation: Activation::Tanh };
    NetworkSpec { encoder, lstm, ..NetworkSpec::for_spaces(&obs, &action).unwrap() }
}

fn replicas(spec: &NetworkSpec, n: usize) -> Vec<Box<dyn Network>> {
    (0..n).map(|_| Box::new(CpuNetwork::new(spec).unwrap()) as Box<dyn Network>).collect()
}

/// Outputs and gradient for a batch of so many steps and columns.
fn run(network: &mut dyn Network, spec: &NetworkSpec, steps: usize, columns: usize) -> (Outputs, Vec<f32>) {
    let mut rng = Rng::seed_from(7);
    let mut numbers = |n: usize| (0..n).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
    let rows = steps * columns;
    let (obs, state) = (numbers(rows * 3), numbers(columns * spec.state_len()));
    let grads = OutputGrads { logits: numbers(rows * 4), values: numbers(rows) };
    let starts: Vec<bool> = (0..rows).map(|_| rng.next_f64() < 0.2).collect();
    let mut input = Input::new(ObsRef::F32(&obs), rows);
    if spec.lstm.is_some() {
        input = input.with_memory(Memory { state: &state, starts: &starts });
    }
    let (params, mut out) = (spec.init_params(3).unwrap(), Outputs::default());
    let mut grad = vec![f32::NAN; params.values().len()];
    network.forward_for_learning(&params, &input, &mut out).unwrap();
    network.backward(&params, &grads, &mut grad).unwrap();
    (out, grad)
}

#[test]
fn any_number_of_devices_says_and_learns_what_one_does() {
    for lstm in [None, Some(6)] {
        let spec = spec(lstm);
        for (steps, columns) in [(1, 1), (4, 1), (5, 3), (3, 8), (2, 0)] {
            let (want, want_grad) = run(&mut CpuNetwork::new(&spec).unwrap(), &spec, steps, columns);
            let largest = want_grad.iter().fold(1e-3_f32, |most, x| most.max(x.abs()));
            for devices in [1, 2, 3, 5] {
                let mut network = DataParallel::new(replicas(&spec, devices)).unwrap();
                // Twice, the second time in storage that was used for a larger batch.
                run(&mut network, &spec, 6, 9);
                let (got, got_grad) = run(&mut network, &spec, steps, columns);
                let what = format!("{devices} devices, {steps} × {columns}, LSTM {lstm:?}");
                for (got, want) in [(&got.logits, &want.logits), (&got.values, &want.values), (&got.state, &want.state)]
                {
                    assert_eq!(got.len(), want.len(), "{what}");
                    let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-5;
                    assert!(got.iter().zip(want).all(near), "{what}: {got:?}, not {want:?}");
                }
                let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-5 * largest;
                assert!(got_grad.iter().zip(&want_grad).all(near), "{what}");
            }
        }
    }
}

#[test]
fn replicas_that_differ_or_are_none_are_refused() {
    let none = DataParallel::new(Vec::new()).map(drop).unwrap_err();
    assert!(none.to_string().contains("no device"), "{none}");
    let mut mixed = replicas(&spec(None), 1);
    mixed.extend(replicas(&spec(Some(6)), 1));
    assert!(matches!(DataParallel::new(mixed), Err(PolicyError::WrongParams { .. })));
}

/// Panics as soon as it is to learn.
struct Broken(CpuNetwork);

impl Network for Broken {
    fn shape(&self) -> &NetworkShape {
        self.0.shape()
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        self.0.layout()
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        self.0.forward(params, input, out)
    }

    fn forward_for_learning(&mut self, _: &Params, _: &Input<'_>, _: &mut Outputs) -> Result<(), PolicyError> {
        panic!("the cable came loose")
    }

    fn backward(&mut self, _: &Params, _: &OutputGrads, _: &mut [f32]) -> Result<(), PolicyError> {
        unreachable!("nothing was learned")
    }
}

#[test]
fn a_device_that_fails_is_an_error_and_nothing_hangs() {
    let spec = spec(None);
    let mut networks = replicas(&spec, 2);
    networks.push(Box::new(Broken(CpuNetwork::new(&spec).unwrap())));
    let mut network = DataParallel::new(networks).unwrap();
    let params = spec.init_params(0).unwrap();
    let mut learn = |rows: usize| {
        let obs = vec![0.5; rows * 3];
        network.forward_for_learning(&params, &Input::new(ObsRef::F32(&obs), rows), &mut Outputs::default())
    };
    let error = learn(6).unwrap_err();
    assert!(error.to_string().contains("the cable came loose"), "{error}");
    // The others are as good as before, and two rows do not reach the third.
    learn(2).unwrap();
}
