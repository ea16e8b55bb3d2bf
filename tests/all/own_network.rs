//! A run with a network of the user's own is a run like any other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pronk::config::ObservationFilter;
use pronk::envs::{CartPole, Pendulum};
use pronk::policy::{
    ActionsMut, CpuNetwork, Encoder, Gaussian, GaussianConfig, Input, LogStdRange, NetworkShape, NetworkSpec, ObsRef,
    OutputGrads, Outputs, ParamLayout, Rng,
};
use pronk::prelude::*;
use pronk::{
    ActionSelection, Checkpoint, CheckpointError, DeviceSpec, Network, Params, Policy, PolicyError, Space, TrainError,
};
use tempfile::TempDir;

use crate::fixtures::{has_words, iterations, only, small, without_hanging};

/// Two logits and a value straight from four numbers, by hand.
struct Linear {
    shape: NetworkShape,
    layout: Arc<ParamLayout>,
    /// The observations that `backward` is to come for.
    kept: Vec<f32>,
    /// How many logits it puts out besides those that it should.
    surplus: usize,
}

const NAMES: [&str; 2] = ["policy.weight", "value.weight"];

impl Linear {
    fn new(shape: NetworkShape, names: [&str; 2]) -> Self {
        let layout = ParamLayout::new(names.into_iter().zip([vec![4, 2], vec![4, 1]]));
        Self { shape, layout: Arc::new(layout), kept: Vec::new(), surplus: 0 }
    }

    /// Where the weights of the `i`th number for the two logits and the value lie.
    fn places(i: usize) -> [usize; 3] {
        [2 * i, 2 * i + 1, 8 + i]
    }
}

impl Network for Linear {
    fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    fn forward(&mut self, params: &Params, input: &Input<'_>, out: &mut Outputs) -> Result<(), PolicyError> {
        input.check(&self.shape)?;
        let ObsRef::F32(obs) = input.obs else { unreachable!("checked above") };
        out.resize_for(input, &self.shape);
        for (row, obs) in obs.chunks(4).enumerate() {
            let output = |o: usize| obs.iter().enumerate().map(|(i, x)| x * params.values()[Self::places(i)[o]]).sum();
            (out.logits[2 * row], out.logits[2 * row + 1], out.values[row]) = (output(0), output(1), output(2));
        }
        out.logits.resize(out.logits.len() + self.surplus, 0.0);
        Ok(())
    }

    fn forward_for_learning(
        &mut self,
        params: &Params,
        input: &Input<'_>,
        out: &mut Outputs,
    ) -> Result<(), PolicyError> {
        self.forward(params, input, out)?;
        let ObsRef::F32(obs) = input.obs else { unreachable!("checked before") };
        self.kept = obs.to_vec();
        Ok(())
    }

    fn backward(&mut self, _: &Params, grads: &OutputGrads, grad: &mut [f32]) -> Result<(), PolicyError> {
        grad.fill(0.0);
        for (row, obs) in self.kept.chunks(4).enumerate() {
            let along = [grads.logits[2 * row], grads.logits[2 * row + 1], grads.values[row]];
            for (i, x) in obs.iter().enumerate() {
                Self::places(i).into_iter().zip(along).for_each(|(place, along)| grad[place] += x * along);
            }
        }
        Ok(())
    }
}

type Made = Result<Box<dyn Network>, PolicyError>;

fn shape() -> NetworkShape {
    NetworkShape { obs: CartPole::new().spec().observation, dist_len: 2, state_len: 0 }
}

fn linear(_: &EnvSpec, _: DeviceSpec) -> Made {
    Ok(Box::new(Linear::new(shape(), NAMES)))
}

fn cartpole(_: &EnvContext) -> CartPole {
    CartPole::new()
}

fn bits(checkpoint: &Checkpoint) -> Vec<u32> {
    checkpoint.state.params.values().iter().map(|value| value.to_bits()).collect()
}

/// What a run of three updates leaves behind.
fn trained() -> pronk::Run {
    Trainer::builder(small(0)).env(cartpole).network(linear).build().unwrap().run(iterations(3)).unwrap()
}

#[test]
fn it_learns_and_the_ledger_closes() {
    for workers in [0, 2] {
        let run = without_hanging("own network", move || {
            let trainer = Trainer::builder(small(workers)).env(cartpole).network(linear).build().unwrap();
            trainer.run(iterations(20)).unwrap()
        });
        assert!(run.ledger_closed(), "{workers} workers: {:?}", run.steps);
        assert!(only(&run).state.updates > 0 && only(&run).network.is_none());
        let first = Trainer::builder(small(0)).env(cartpole).network(linear).build().unwrap().finish().unwrap();
        assert_ne!(bits(&only(&run)), bits(&only(&first)), "{workers} workers: the weights are the first ones");
    }
    assert_eq!(bits(&only(&trained())), bits(&only(&trained())), "the same seed, other weights");
}

#[test]
fn the_learner_computes_on_the_device_of_the_config_and_workers_on_the_cpu() {
    let devices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&devices);
    let recording = move |env: &EnvSpec, device| {
        seen.lock().unwrap().push(device);
        linear(env, device)
    };
    let mut config = small(2);
    config.learner.devices = vec![DeviceSpec::Cuda(1)];
    Trainer::builder(config).env(cartpole).network(recording).build().unwrap().finish().unwrap();
    let cpu = DeviceSpec::Cpu;
    assert_eq!(*devices.lock().unwrap(), [cpu, DeviceSpec::Cuda(1), cpu, cpu]);
}

#[test]
fn its_weights_are_saved_and_loaded_and_gone_on_from() {
    let (dir, run) = (TempDir::new().unwrap(), trained());
    run.save(dir.path()).unwrap();
    let checkpoint = Checkpoint::load(dir.path()).unwrap();
    assert_eq!(bits(&checkpoint), bits(&only(&run)));
    assert_eq!(checkpoint.state.params.layout(), only(&run).state.params.layout());
    assert!(checkpoint.network.is_none());

    let resume = || Trainer::builder(small(0)).env(cartpole).network(linear).resume(&checkpoint).build().unwrap();
    assert_eq!(bits(&only(&resume().finish().unwrap())), bits(&checkpoint));
    let later = only(&resume().run(iterations(2)).unwrap());
    assert_eq!((later.state.updates, later.state.global_step), (5, 80));
    assert_ne!(bits(&later), bits(&checkpoint));

    let params = checkpoint.state.params.clone();
    let network = Box::new(Linear::new(shape(), NAMES));
    let mut policy = Policy::with_network(network, params, &checkpoint.action).unwrap();
    let mut actions = [u32::MAX; 3];
    let obs = ObsRef::F32(&[0.1; 12]);
    policy.act(obs, 3, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
    assert!(actions.iter().all(|&action| action < 2));
}

#[test]
fn its_policy_samples_with_the_deviations_and_the_normaliser_of_the_run() {
    let described = |env: &EnvSpec| NetworkSpec::for_spaces(&env.observation, &env.action);
    let network = move |env: &EnvSpec, _: DeviceSpec| -> Made { Ok(Box::new(CpuNetwork::new(&described(env)?)?)) };
    let mut config = small(0);
    // Deviations of 1 at first, by the network; the run has them at 7.4 at least.
    config.model.log_std_range = LogStdRange::new(2.0, 2.5).unwrap();
    config.model.gaussian = Gaussian::Squashed;
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    let trainer = Trainer::builder(config.clone()).env(|_: &EnvContext| Pendulum::new()).network(network).build();
    let checkpoint = only(&trainer.unwrap().run(iterations(2)).unwrap());

    let own = || network(&Pendulum::new().spec(), DeviceSpec::Cpu).unwrap();
    let samples = |mut policy: Policy| {
        let mut actions = [0.0; 200];
        let mut choice = ActionSelection::Sample(Rng::seed_from(1));
        policy.act(ObsRef::F32(&[0.5; 600]), 200, &mut choice, ActionsMut::Continuous(&mut actions)).unwrap();
        actions
    };
    let plain = || Policy::with_network(own(), checkpoint.state.params.clone(), &checkpoint.action).unwrap();
    let by_hand = |gaussian: GaussianConfig| {
        plain().with_gaussian(gaussian).unwrap().with_normalizer(checkpoint.obs_normalizer().unwrap()).unwrap()
    };
    let got = samples(checkpoint.policy_with(own()).unwrap());
    assert_eq!(got, samples(by_hand(config.model.gaussian())));
    assert_ne!(got, samples(by_hand(Gaussian::Squashed.into())));
    // Most of so wide a distribution lies at the bounds of ±2.
    assert!(got.iter().filter(|action| action.abs() > 1.9).count() > 100, "{got:?}");
}

#[test]
fn a_network_that_does_not_fit_the_environment_starts_nothing() {
    let boxed = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4]).unwrap();
    let cases: [(NetworkShape, [&str; 2], &[&str]); 5] = [
        (NetworkShape { obs: boxed, ..shape() }, NAMES, &["reads Box(-1..=1, [4], f32)", "CartPole-v1 shows Box("]),
        (NetworkShape { dist_len: 3, ..shape() }, NAMES, &["puts out 3 numbers", "Discrete(2)", "by 2"]),
        (NetworkShape { dist_len: 0, ..shape() }, NAMES, &["puts out 0 numbers"]),
        (shape(), ["weight", "weight"], &["two parameters have the name `weight`"]),
        (shape(), ["weight", "__metadata__"], &["`__metadata__`", "rename it"]),
    ];
    for (shape, names, words) in cases {
        for workers in [0, 2] {
            let shape = shape.clone();
            let make = move |_: &EnvSpec, _: DeviceSpec| -> Made { Ok(Box::new(Linear::new(shape.clone(), names))) };
            let Err(error) = Trainer::builder(small(workers)).env(cartpole).network(make).build() else {
                panic!("{words:?}")
            };
            assert!(matches!(error, TrainError::Network(_)), "{error:?}");
            has_words(&error.to_string(), words);
        }
    }
}

#[test]
fn a_function_that_makes_no_network_or_another_one_each_time_starts_nothing() {
    let refused = |make: fn(&EnvSpec, DeviceSpec) -> Made, words: &[&str]| {
        let Err(error) = Trainer::builder(small(2)).env(cartpole).network(make).build() else { panic!("{words:?}") };
        has_words(&error.to_string(), words);
    };
    refused(|_, _| panic!("no licence"), &["your own network", "panicked: no licence"]);
    refused(|_, _| "toaster".parse::<DeviceSpec>().map(|_| unreachable!()), &["your own network", "`toaster`"]);
    let nothing = |_: &EnvSpec, _: DeviceSpec| -> Made {
        Ok(Box::new(Linear { layout: Arc::default(), ..Linear::new(shape(), NAMES) }))
    };
    refused(nothing, &["no parameters"]);

    // The third one is a worker's: workers are made side by side, so either may ask first.
    for (other, words) in [(1, ["expected `policy.weight`", "got `other`"]), (2, ["rollout-", "got `other`"])] {
        let made = AtomicUsize::new(0);
        let make = move |env: &EnvSpec, device| -> Made {
            match made.fetch_add(1, Ordering::Relaxed) {
                n if n == other => Ok(Box::new(Linear::new(shape(), ["other", NAMES[1]]))),
                _ => linear(env, device),
            }
        };
        let Err(error) = Trainer::builder(small(2)).env(cartpole).network(make).build() else { panic!("{words:?}") };
        has_words(&error.to_string(), &words);
    }
}

#[test]
fn a_network_that_puts_out_something_else_than_it_says_ends_the_run_by_name() {
    for workers in [0, 2] {
        let error = without_hanging("wrong logits", move || {
            let make = |_: &EnvSpec, _: DeviceSpec| -> Made {
                Ok(Box::new(Linear { surplus: 1, ..Linear::new(shape(), NAMES) }))
            };
            let trainer = Trainer::builder(small(workers)).env(cartpole).network(make).build().unwrap();
            trainer.run(iterations(1_000_000)).expect_err("five logits are not four")
        });
        assert!(error.cause.thread().is_some_and(|thread| thread.starts_with("rollout-")), "{error:?}");
        has_words(&error.to_string(), &["returned 5 logits", "4"]);
    }
}

#[test]
fn a_checkpoint_of_it_says_what_it_is_needed_for() {
    let checkpoint = only(&trained());
    let error = checkpoint.policy().map(drop).unwrap_err().to_string();
    has_words(&error, &["Policy::with_network", "state.params"]);

    let Err(error) = Trainer::builder(small(0)).env(cartpole).resume(&checkpoint).build() else {
        panic!("the config has another")
    };
    has_words(&error.to_string(), &["a network of your own", "TrainerBuilder::network"]);
}

#[test]
fn a_checkpoint_of_other_parameters_is_refused_and_of_the_same_is_not() {
    let described = only(&Trainer::new(small(0), cartpole).unwrap().finish().unwrap());
    let resume = Trainer::builder(small(0)).env(cartpole).network(linear).resume(&described).build();
    let Err(TrainError::Checkpoint(error)) = resume else { panic!("it has a hidden layer") };
    assert!(matches!(*error, CheckpointError::OtherParams { .. }), "{error:?}");
    has_words(&error.to_string(), &["expected `policy.weight` of shape [4, 2]", "got `torso.0.weight`"]);

    // The same network in other hands.
    let make = |_: &EnvSpec, _: DeviceSpec| -> Made { Ok(Box::new(CpuNetwork::new(&spec_of_small())?)) };
    let resumed =
        Trainer::builder(small(0)).env(cartpole).network(make).resume(&described).build().unwrap().finish().unwrap();
    assert_eq!(bits(&only(&resumed)), bits(&described));
}

fn spec_of_small() -> NetworkSpec {
    let (spec, model) = (CartPole::new().spec(), small(0).model);
    let encoder = Encoder::Mlp { hidden: model.fcnet_hiddens, activation: model.fcnet_activation };
    NetworkSpec { encoder, ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap() }
}
