//! Models made of modules of `candle_nn` learn, are saved and go on like any other network.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use pronk::envs::{CartPole, Recall};
use pronk::policy::candle_core::{Result, bail};
use pronk::policy::candle_nn::{
    Conv2d, Conv2dConfig, LSTM, LSTMConfig, LayerNorm, Linear, Module, VarBuilder, conv2d, layer_norm,
    layer_norm_no_bias, linear, lstm,
};
use pronk::policy::{ActionsMut, CandleInput, CandleModel, CandleNetwork, CandleOutput, NetworkShape, ObsRef};
use pronk::prelude::*;
use pronk::{
    ActionSelection, Checkpoint, DeviceSpec, Network, Policy, PolicyError, PpoConfig, Rng, Run, Space, TrainError,
};
use tempfile::TempDir;

use crate::cartpole;
use crate::fixtures::{iterations, only, small, without_hanging};

struct Heads {
    policy: Linear,
    value: Linear,
}

impl Heads {
    fn new(inputs: usize, actions: usize, vb: &VarBuilder) -> Result<Self> {
        Ok(Self { policy: linear(inputs, actions, vb.pp("policy"))?, value: linear(inputs, 1, vb.pp("value"))? })
    }
}

/// An encoder, an LSTM where there is one, and heads.
struct Model {
    encoder: Encoder,
    core: Option<LSTM>,
    heads: Heads,
}

enum Encoder {
    Dense(Linear),
    Vision { conv: Conv2d, norm: LayerNorm },
}

impl CandleModel for Model {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        let mut x = match &self.encoder {
            Encoder::Dense(layer) => layer.forward(&input.obs)?.tanh()?,
            Encoder::Vision { conv, norm } => norm.forward(&conv.forward(&input.obs)?.flatten_from(1)?)?.tanh()?,
        };
        let mut state = None;
        if let Some(core) = &self.core {
            let Some(memory) = &input.memory else { bail!("no state") };
            let (outputs, after) = memory.run_lstm(core, &x, &memory.state)?;
            (x, state) = (outputs, Some(after));
        }
        let (logits, values) = (self.heads.policy.forward(&x)?, self.heads.value.forward(&x)?.squeeze(1)?);
        Ok(CandleOutput { logits, values, state })
    }
}

type Made = std::result::Result<Box<dyn Network>, PolicyError>;

fn made<M: CandleModel + 'static>(
    env: &EnvSpec,
    device: DeviceSpec,
    state_len: usize,
    build: impl Fn(VarBuilder<'static>) -> Result<M> + Send + 'static,
) -> Made {
    let shape = NetworkShape { obs: env.observation.clone(), dist_len: env.action.dist_len(), state_len };
    Ok(Box::new(CandleNetwork::with_model(shape, device.open()?, build)?))
}

fn mlp(env: &EnvSpec, device: DeviceSpec) -> Made {
    let (inputs, actions) = (env.observation.obs_len(), env.action.dist_len());
    made(env, device, 0, move |vb| {
        let encoder = Encoder::Dense(linear(inputs, 64, vb.pp("hidden"))?);
        Ok(Model { encoder, core: None, heads: Heads::new(64, actions, &vb)? })
    })
}

fn vision(env: &EnvSpec, device: DeviceSpec) -> Made {
    made(env, device, 0, |vb| {
        let conv = conv2d(1, 4, 2, Conv2dConfig { stride: 2, ..Conv2dConfig::default() }, vb.pp("conv"))?;
        let encoder = Encoder::Vision { conv, norm: layer_norm_no_bias(16, 1e-5, vb.pp("norm"))? };
        Ok(Model { encoder, core: None, heads: Heads::new(16, 2, &vb)? })
    })
}

const MEMORY: usize = 32;

fn recurrent(env: &EnvSpec, device: DeviceSpec) -> Made {
    let (inputs, actions) = (env.observation.obs_len(), env.action.dist_len());
    made(env, device, 2 * MEMORY, move |vb| {
        let encoder = Encoder::Dense(linear(inputs, 32, vb.pp("hidden"))?);
        let core = lstm(32, MEMORY, LSTMConfig::default(), vb.pp("core"))?;
        Ok(Model { encoder, core: Some(core), heads: Heads::new(MEMORY, actions, &vb)? })
    })
}

/// An image of 4 × 4 bytes whose left or right half is bright; pointing to that side earns a reward.
struct Sides {
    rng: Rng,
    side: u32,
    steps: u32,
}

impl Sides {
    fn new() -> Self {
        Self { rng: Rng::seed_from(0), side: 0, steps: 0 }
    }

    fn show(&mut self, obs: ObsMut<'_>) -> std::result::Result<(), EnvError> {
        self.side = self.rng.below(2) as u32;
        for (i, pixel) in obs.u8()?.iter_mut().enumerate() {
            *pixel = if (i % 4 / 2) as u32 == self.side { 200 } else { 50 } + self.rng.below(50) as u8;
        }
        Ok(())
    }
}

impl Env for Sides {
    fn spec(&self) -> EnvSpec {
        EnvSpec { observation: Space::bytes(vec![1, 4, 4]).unwrap(), ..CartPole::new().spec() }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> std::result::Result<(), EnvError> {
        (self.rng, self.steps) = (Rng::seed_from(seed), 0);
        self.show(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> std::result::Result<Step, EnvError> {
        let ActionRef::Discrete(&[action]) = action else { return Err(EnvError::new("one choice")) };
        let reward = if action == self.side { 1.0 } else { 0.0 };
        self.steps += 1;
        self.show(obs)?;
        Ok(Step { reward, end: if self.steps == 10 { End::Terminated } else { End::No } })
    }
}

fn bits(checkpoint: &Checkpoint) -> Vec<u32> {
    checkpoint.state.params.values().iter().map(|value| value.to_bits()).collect()
}

fn learning(workers: usize) -> TrainerConfig {
    let mut config = cartpole::config(workers, 16);
    config.learner.lr = 0.002;
    config
}

fn assert_learns(what: &'static str, goal: f64, run: impl FnOnce(StopWhen) -> Run + Send + 'static) {
    let stop = StopWhen { episode_return_mean: Some(goal), env_steps: Some(1_000_000), ..StopWhen::default() };
    let run = without_hanging(what, move || run(stop));
    println!("{what}: {}", run.summary());
    assert!(run.reached() && run.ledger_closed(), "{what}: {}", run.summary());
}

#[test]
fn linear_layers_of_candle_nn_learn_cartpole() {
    assert_learns("linear layers", 100.0, |stop| {
        Trainer::builder(learning(1))
            .env(|_: &EnvContext| CartPole::new())
            .network(mlp)
            .build()
            .unwrap()
            .run(stop)
            .unwrap()
    });
}

#[test]
fn a_convolution_and_a_layer_norm_learn_from_bytes_on_two_devices() {
    let mut config = learning(1);
    config.learner.devices = vec![DeviceSpec::Cpu; 2];
    assert_learns("vision", 9.0, |stop| {
        Trainer::builder(config).env(|_: &EnvContext| Sides::new()).network(vision).build().unwrap().run(stop).unwrap()
    });
}

#[test]
fn an_lstm_of_candle_nn_recalls_what_it_saw() {
    let ppo = PpoConfig { gamma: 0.98, clip_param: 0.2, vf_clip_param: None, kl_coeff: 0.0, ..PpoConfig::default() };
    let mut config = TrainerConfig { algorithm: ppo.into(), ..learning(0) };
    config.workers.rollout_fragment_length = 64;
    config.learner.train_batch_size = 1024;
    config.learner.num_sgd_iter = 4;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.lr = 0.003;
    config.learner.grad_clip = Some(0.5);
    // A network that forgets gets half its answers wrong, which is 0 on average.
    assert_learns("lstm", 0.9, |stop| {
        Trainer::builder(config)
            .env(|_: &EnvContext| Recall::new(3))
            .network(recurrent)
            .build()
            .unwrap()
            .run(stop)
            .unwrap()
    });
}

#[test]
fn the_first_weights_are_drawn_from_the_seed_of_the_run_as_the_modules_say() {
    let first = |seed, workers| {
        let config = TrainerConfig { seed, ..small(workers) };
        let trainer = Trainer::builder(config).env(|_: &EnvContext| CartPole::new()).network(mlp).build().unwrap();
        only(&trainer.finish().unwrap())
    };
    assert_eq!(bits(&first(1, 0)), bits(&first(1, 2)));
    assert_ne!(bits(&first(1, 0)), bits(&first(2, 0)));
    // candle_nn draws the biases of a layer with 4 inputs between -1/2 and 1/2; those of pronk's own networks
    // are zero.
    let params = first(1, 0).state.params;
    let biases = params.get("hidden.bias").unwrap();
    assert!(biases.iter().all(|bias| bias.abs() <= 0.5) && biases.iter().any(|bias| bias.abs() > 0.25), "{biases:?}");
}

/// What a run of three updates leaves behind goes on, acts, and comes out the same again.
fn assert_goes_on<E: Env + 'static>(
    env: fn(&EnvContext) -> E,
    network: fn(&EnvSpec, DeviceSpec) -> Made,
    obs: ObsRef<'_>,
) {
    let trained = || Trainer::builder(small(0)).env(env).network(network).build().unwrap().run(iterations(3)).unwrap();
    let (dir, run) = (TempDir::new().unwrap(), trained());
    assert_eq!(bits(&only(&run)), bits(&only(&trained())), "the same seed, other weights");
    run.save(dir.path()).unwrap();
    let checkpoint = Checkpoint::load(dir.path()).unwrap();
    assert_eq!(checkpoint.state.params.layout(), only(&run).state.params.layout());

    let resume = || Trainer::builder(small(0)).env(env).network(network).resume(&checkpoint).build().unwrap();
    assert_eq!(bits(&only(&resume().finish().unwrap())), bits(&only(&run)));
    let later = only(&resume().run(iterations(2)).unwrap());
    assert_eq!(later.state.updates, checkpoint.state.updates + 2);
    assert_ne!(bits(&later), bits(&checkpoint));

    let spec = EnvSpec { observation: checkpoint.observation.clone(), ..CartPole::new().spec() };
    let network = network(&EnvSpec { action: checkpoint.action.clone(), ..spec }, DeviceSpec::Cpu).unwrap();
    let mut policy = Policy::with_network(network, checkpoint.state.params.clone(), &checkpoint.action).unwrap();
    let mut actions = [u32::MAX; 2];
    policy.act(obs, 2, &mut ActionSelection::Mode, ActionsMut::Discrete(&mut actions)).unwrap();
    assert!(actions.iter().all(|&action| action < 2), "{actions:?}");
}

#[test]
fn every_kind_of_model_is_saved_and_loaded_and_gone_on_from() {
    assert_goes_on(|_| CartPole::new(), mlp, ObsRef::F32(&[0.1; 2 * 4]));
    assert_goes_on(|_| CartPole::new(), recurrent, ObsRef::F32(&[0.1; 2 * 4]));
    assert_goes_on(|_| Sides::new(), vision, ObsRef::U8(&[7; 2 * 16]));
}

#[test]
fn a_model_that_asks_in_another_order_the_next_time_starts_nothing() {
    let networks = AtomicUsize::new(0);
    let swapping = move |env: &EnvSpec, device| {
        let swapped = networks.fetch_add(1, Ordering::Relaxed) == 1;
        made(env, device, 0, move |vb| {
            let late = if swapped { Some(linear(64, 1, vb.pp("value"))?) } else { None };
            let encoder = Encoder::Dense(linear(4, 64, vb.pp("hidden"))?);
            let heads = Heads::new(64, 2, &vb)?;
            Ok(Model { encoder, core: None, heads: Heads { value: late.unwrap_or(heads.value), ..heads } })
        })
    };
    let started = Trainer::builder(small(2)).env(|_: &EnvContext| CartPole::new()).network(swapping).build();
    let Err(error @ TrainError::Network(_)) = started else { panic!("two layouts") };
    let said = error.to_string();
    let words = "expected `hidden.weight` of shape [64, 4], got `value.weight` of shape [1, 64]";
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_layer_that_candle_cannot_differentiate_starts_nothing() {
    let with_bias = |env: &EnvSpec, device| {
        made(env, device, 0, |vb| {
            let conv = conv2d(1, 4, 2, Conv2dConfig { stride: 2, ..Conv2dConfig::default() }, vb.pp("conv"))?;
            let encoder = Encoder::Vision { conv, norm: layer_norm(16, 1e-5, vb.pp("norm"))? };
            Ok(Model { encoder, core: None, heads: Heads::new(16, 2, &vb)? })
        })
    };
    let started = Trainer::builder(small(0)).env(|_: &EnvContext| Sides::new()).network(with_bias).build();
    let Err(error @ TrainError::Network(_)) = started else { panic!("its convolution would never learn") };
    let said = error.to_string();
    assert!(said.contains("`conv.weight` of shape [4, 1, 2, 2] has no gradient"), "{said}");
    assert!(said.contains("layer_norm_no_bias"), "{said}");
}
