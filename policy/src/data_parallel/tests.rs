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
    run_on(network, spec, (steps, columns), &mut None)
}

/// The same; with a place to load observations into, by the network's own loader ahead of the pass.
fn run_on(
    network: &mut dyn Network,
    spec: &NetworkSpec,
    (steps, columns): (usize, usize),
    loaded: &mut Option<LoadedObs>,
) -> (Outputs, Vec<f32>) {
    let mut rng = Rng::seed_from(7);
    let mut numbers = |n: usize| (0..n).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
    let rows = steps * columns;
    let (obs, state) = (numbers(rows * 3), numbers(columns * spec.state_len()));
    let grads = OutputGrads { logits: numbers(rows * 4), values: numbers(rows) };
    let starts: Vec<bool> = (0..rows).map(|_| rng.next_f64() < 0.2).collect();
    let mut input = Input::new(ObsRef::F32(&obs), rows);
    if let Some(loaded) = loaded {
        network.obs_loader().unwrap().load(input.obs, columns, loaded).unwrap();
        input = input.with_loaded(loaded);
    }
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
fn no_rows_of_bytes_are_rows_of_bytes() {
    let obs = Space::Box { low: vec![0.0; 3], high: vec![255.0; 3], shape: vec![3], dtype: crate::ObsDtype::U8 };
    let spec = NetworkSpec::for_spaces(&obs, &Space::discrete(2).unwrap()).unwrap();
    let mut network = DataParallel::new(replicas(&spec, 2)).unwrap();
    let (params, mut out) = (spec.init_params(0).unwrap(), Outputs::default());
    for rows in [4, 0, 1] {
        let bytes = vec![7; rows * 3];
        network.forward_for_learning(&params, &Input::new(ObsRef::U8(&bytes), rows), &mut out).unwrap();
        assert_eq!(out.values.len(), rows);
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

#[test]
fn observations_that_were_loaded_ahead_are_learned_from_as_those_on_the_host() {
    for lstm in [None, Some(6)] {
        let spec = spec(lstm);
        let candle = || Box::new(crate::CandleNetwork::cpu(spec.clone()).unwrap()) as Box<dyn Network>;
        let networks: [(&str, Box<dyn Network>); 3] = [
            ("three CPUs", Box::new(DataParallel::new(replicas(&spec, 3)).unwrap())),
            ("two candle devices", Box::new(DataParallel::new(vec![candle(), candle()]).unwrap())),
            ("candle", candle()),
        ];
        for (name, mut network) in networks {
            for columns in [1, 5] {
                let (want, want_grad) = run(&mut CpuNetwork::new(&spec).unwrap(), &spec, 4, columns);
                // Twice, the second time over a batch of another size.
                let mut loaded = Some(LoadedObs::default());
                run_on(&mut *network, &spec, (2, columns + 1), &mut loaded);
                let (got, got_grad) = run_on(&mut *network, &spec, (4, columns), &mut loaded);
                let near = |got: &[f32], want: &[f32]| {
                    got.len() == want.len() && got.iter().zip(want).all(|(got, want)| (got - want).abs() <= 2e-5)
                };
                let what = format!("{name}, {columns} columns, LSTM {lstm:?}");
                assert!(near(&got.logits, &want.logits) && near(&got.values, &want.values), "{what}");
                assert!(near(&got.state, &want.state) && near(&got_grad, &want_grad), "{what}");
            }
        }
    }
}

#[test]
fn what_was_loaded_is_what_is_read_and_must_have_as_many_rows() {
    let spec = spec(None);
    let mut network = DataParallel::new(replicas(&spec, 2)).unwrap();
    let params = spec.init_params(0).unwrap();
    let (mut loaded, mut out) = (LoadedObs::default(), Outputs::default());
    network.obs_loader().unwrap().load(ObsRef::F32(&[0.5; 4 * 3]), 2, &mut loaded).unwrap();
    // The host has something else: nobody looks there.
    let zeros = [0.0; 5 * 3];
    network
        .forward_for_learning(&params, &Input::new(ObsRef::F32(&zeros[..12]), 4).with_loaded(&loaded), &mut out)
        .unwrap();
    let from_loaded = out.values.clone();
    // Acting looks there as well, and does not disturb what is to be learned from.
    network.forward(&params, &Input::new(ObsRef::F32(&zeros[..12]), 4).with_loaded(&loaded), &mut out).unwrap();
    assert_eq!(from_loaded, out.values);
    network.forward_for_learning(&params, &Input::new(ObsRef::F32(&[0.5; 12]), 4), &mut out).unwrap();
    assert_eq!(from_loaded, out.values);
    let error =
        network.forward_for_learning(&params, &Input::new(ObsRef::F32(&zeros), 5).with_loaded(&loaded), &mut out);
    assert!(error.unwrap_err().to_string().contains("loaded observations"));
    let odd = network.obs_loader().unwrap().load(ObsRef::F32(&[0.5; 4 * 3]), 3, &mut loaded).unwrap_err();
    assert!(odd.to_string().contains("observations"), "{odd}");
}
