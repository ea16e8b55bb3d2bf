//! A run with a network of the user's own is a run like any other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pronk::envs::CartPole;
use pronk::policy::candle_core::{Device, Result as Candle};
use pronk::policy::{
    ActionsMut, CandleInput, CandleModel, CandleNetwork, CandleOutput, CandleWeights, NetworkShape, NetworkSpec,
    ObsRef, ParamLayout,
};
use pronk::prelude::*;
use pronk::{
    Checkpoint, CheckpointError, Choice, DeviceSpec, EnvSpec, Network, Policy, PolicyError, Space, TrainError,
};
use tempfile::TempDir;

use crate::fixtures::{iterations, small, without_hanging};

/// Logits and value straight from the numbers it sees.
#[derive(Clone, Copy)]
struct Linear {
    inputs: usize,
    /// How many logits it puts out, whatever its network says.
    logits: usize,
    names: [&'static str; 2],
}

const LINEAR: Linear = Linear { inputs: 4, logits: 2, names: ["policy.weight", "value.weight"] };

impl CandleModel for Linear {
    fn layout(&self) -> ParamLayout {
        ParamLayout::new([(self.names[0], vec![self.inputs, self.logits]), (self.names[1], vec![self.inputs, 1])])
    }

    fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Candle<CandleOutput> {
        let logits = input.obs.matmul(weights.get(self.names[0])?)?;
        let values = input.obs.matmul(weights.get(self.names[1])?)?.squeeze(1)?;
        Ok(CandleOutput { logits, values, state: None })
    }
}

type Made = Result<Box<dyn Network>, PolicyError>;

fn shape() -> NetworkShape {
    NetworkShape { obs: CartPole::new().spec().observation, dist_len: 2, state_len: 0 }
}

fn network(shape: NetworkShape, model: Linear) -> Made {
    Ok(Box::new(CandleNetwork::with_model(shape, Box::new(model), Device::Cpu)?))
}

fn linear(_: &EnvSpec, _: DeviceSpec) -> Made {
    network(shape(), LINEAR)
}

fn cartpole(_: &EnvContext) -> CartPole {
    CartPole::new()
}

fn bits(checkpoint: &Checkpoint) -> Vec<u32> {
    checkpoint.state.params.values().iter().map(|value| value.to_bits()).collect()
}

/// What a run of three updates leaves behind.
fn trained() -> pronk::Run {
    Trainer::with_network(small(0), cartpole, linear).unwrap().run(iterations(3)).unwrap()
}

fn has_words(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
}

#[test]
fn it_learns_and_the_ledger_closes() {
    for workers in [0, 2] {
        let run = without_hanging("own network", move || {
            let trainer = Trainer::with_network(small(workers), cartpole, linear).unwrap();
            trainer.run(iterations(20)).unwrap()
        });
        assert!(run.ledger_closed(), "{workers} workers: {:?}", run.steps);
        assert!(run.checkpoint.state.updates > 0 && run.checkpoint.network.is_none());
        let first = Trainer::with_network(small(0), cartpole, linear).unwrap().finish().unwrap();
        assert_ne!(bits(&run.checkpoint), bits(&first.checkpoint), "{workers} workers: the weights are the first ones");
    }
    assert_eq!(bits(&trained().checkpoint), bits(&trained().checkpoint), "the same seed, other weights");
}

#[test]
fn the_learner_computes_on_the_device_of_the_config_and_workers_on_the_cpu() {
    let devices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&devices);
    let recording = move |env: &EnvSpec, device| {
        seen.lock().unwrap().push(device);
        linear(env, device)
    };
    let config = TrainerConfig { device: DeviceSpec::Cuda(1), ..small(2) };
    Trainer::with_network(config, cartpole, recording).unwrap().finish().unwrap();
    let cpu = DeviceSpec::Cpu;
    assert_eq!(*devices.lock().unwrap(), [cpu, DeviceSpec::Cuda(1), cpu, cpu]);
}

#[test]
fn its_weights_are_saved_and_loaded_and_gone_on_from() {
    let (dir, run) = (TempDir::new().unwrap(), trained());
    run.save(dir.path()).unwrap();
    let checkpoint = Checkpoint::load(dir.path()).unwrap();
    assert_eq!(bits(&checkpoint), bits(&run.checkpoint));
    assert_eq!(checkpoint.state.params.layout(), run.checkpoint.state.params.layout());
    assert!(checkpoint.network.is_none());

    let resume = || Trainer::resume_with_network(small(0), cartpole, linear, &checkpoint).unwrap();
    assert_eq!(bits(&resume().finish().unwrap().checkpoint), bits(&checkpoint));
    let later = resume().run(iterations(2)).unwrap().checkpoint;
    assert_eq!((later.state.updates, later.state.global_step), (5, 80));
    assert_ne!(bits(&later), bits(&checkpoint));

    let params = checkpoint.state.params.clone();
    let mut policy = Policy::with_network(network(shape(), LINEAR).unwrap(), params, &checkpoint.action).unwrap();
    let mut actions = [u32::MAX; 3];
    let obs = ObsRef::F32(&[0.1; 12]);
    policy.act(obs, 3, &mut Choice::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
    assert!(actions.iter().all(|&action| action < 2));
}

#[test]
fn a_network_that_does_not_fit_the_environment_starts_nothing() {
    let boxed = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    let same_name = Linear { names: ["weight", "weight"], ..LINEAR };
    let reserved = Linear { names: ["weight", "__metadata__"], ..LINEAR };
    let silent = Linear { logits: 0, ..LINEAR };
    let empty = Linear { inputs: 0, ..LINEAR };
    let cases: [(NetworkShape, Linear, &[&str]); 7] = [
        (NetworkShape { obs: boxed, ..shape() }, LINEAR, &["reads Box(-1..=1, [4], f32)", "CartPole-v1 shows Box("]),
        (NetworkShape { dist_len: 3, ..shape() }, LINEAR, &["puts out 3 numbers", "Discrete(2)", "by 2"]),
        (NetworkShape { state_len: 8, ..shape() }, LINEAR, &["remembers 8 numbers"]),
        (NetworkShape { dist_len: 0, ..shape() }, silent, &["dist_len is 0"]),
        (shape(), empty, &["no parameters"]),
        (shape(), same_name, &["two parameters have the name `weight`"]),
        (shape(), reserved, &["`__metadata__`", "rename it"]),
    ];
    for (shape, model, words) in cases {
        for workers in [0, 2] {
            let shape = shape.clone();
            let make = move |_: &EnvSpec, _: DeviceSpec| network(shape.clone(), model);
            let Err(error) = Trainer::with_network(small(workers), cartpole, make) else { panic!("{words:?}") };
            assert!(matches!(error, TrainError::Network(_)), "{error:?}");
            has_words(&error.to_string(), words);
        }
    }
}

#[test]
fn a_function_that_makes_no_network_or_another_one_each_time_starts_nothing() {
    let refused = |make: fn(&EnvSpec, DeviceSpec) -> Made, words: &[&str]| {
        let Err(error) = Trainer::with_network(small(2), cartpole, make) else { panic!("{words:?}") };
        has_words(&error.to_string(), words);
    };
    refused(|_, _| panic!("no licence"), &["network of your own", "panicked: no licence"]);
    refused(|_, _| "toaster".parse::<DeviceSpec>().map(|_| unreachable!()), &["network of your own", "`toaster`"]);

    // The third one is the first worker's.
    for (other, words) in [(1, ["expected `policy.weight`", "got `other`"]), (2, ["rollout-1", "got `other`"])] {
        let made = AtomicUsize::new(0);
        let make = move |env: &EnvSpec, device| match made.fetch_add(1, Ordering::Relaxed) {
            n if n == other => network(shape(), Linear { names: ["other", "value.weight"], ..LINEAR }),
            _ => linear(env, device),
        };
        let Err(error) = Trainer::with_network(small(2), cartpole, make) else { panic!("{words:?}") };
        has_words(&error.to_string(), &words);
    }
}

#[test]
fn a_model_that_puts_out_something_else_than_it_says_ends_the_run_by_name() {
    for workers in [0, 2] {
        let error = without_hanging("wrong logits", move || {
            let make = |_: &EnvSpec, _: DeviceSpec| network(shape(), Linear { logits: 3, ..LINEAR });
            let trainer = Trainer::with_network(small(workers), cartpole, make).unwrap();
            trainer.run(iterations(1_000_000)).expect_err("three logits are not two")
        });
        let text = format!("{:#}", anyhow::Error::from(error));
        has_words(&text, &["the model's logits", "shape [2, 2]", "shape [2, 3]"]);
    }
}

#[test]
fn a_checkpoint_of_it_says_what_it_is_needed_for() {
    let checkpoint = trained().checkpoint;
    let error = checkpoint.policy().map(drop).unwrap_err().to_string();
    has_words(&error, &["Policy::with_network", "state.params"]);

    let Err(error) = Trainer::resume(small(0), cartpole, &checkpoint) else { panic!("the config has another") };
    has_words(&error.to_string(), &["a network of your own", "resume_with_network"]);
}

#[test]
fn a_checkpoint_of_other_parameters_is_refused_and_of_the_same_is_not() {
    let described = Trainer::new(small(0), cartpole).unwrap().finish().unwrap().checkpoint;
    let resume = Trainer::resume_with_network(small(0), cartpole, linear, &described);
    let Err(TrainError::Checkpoint(error)) = resume else { panic!("it has a hidden layer") };
    assert!(matches!(*error, CheckpointError::OtherParams { .. }), "{error:?}");
    has_words(&error.to_string(), &["expected `policy.weight` of shape [4, 2]", "got `torso.0.weight`"]);

    // The same network in other hands.
    let make = |_: &EnvSpec, _: DeviceSpec| -> Made { Ok(Box::new(CandleNetwork::cpu(spec_of_small())?)) };
    let resumed = Trainer::resume_with_network(small(0), cartpole, make, &described).unwrap().finish().unwrap();
    assert_eq!(bits(&resumed.checkpoint), bits(&described));
}

fn spec_of_small() -> NetworkSpec {
    let (spec, model) = (CartPole::new().spec(), small(0).model);
    let encoder = pronk::policy::Encoder::Mlp { hidden: model.fcnet_hiddens, activation: model.fcnet_activation };
    NetworkSpec { encoder, ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap() }
}
