//! A network of your own, trained: a model written with candle's modules becomes a `Network`, gradients
//! included.
//!
//! It has what no `NetworkSpec` offers: a normalised layer with a residual connection.
//!
//! ```text
//! cargo run --release --example own_network
//! ```
//!
//! The last line on stdout is one JSON object; the exit status is 0 only when the return was reached.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "cartpole/config.rs"]
mod cartpole;

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pronk::envs::CartPole;
use pronk::policy::candle_core::Result;
use pronk::policy::candle_nn::{
    Init, LayerNorm, Linear, Module, VarBuilder, layer_norm_no_bias, linear, linear_no_bias,
};
use pronk::policy::{CandleInput, CandleModel, CandleNetwork, CandleOutput, NetworkShape};
use pronk::prelude::*;
use pronk::{DeviceSpec, Network, PolicyError};

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// x + tanh(norm(x · inner)), with one head for the logits and one for the value.
struct Residual {
    outer: Linear,
    inner: Linear,
    norm: LayerNorm,
    policy: Linear,
    value: Linear,
}

impl Residual {
    /// Its parameters, with their names, shapes and initial values, are those that it takes from `vb`.
    fn new(inputs: usize, actions: usize, vb: VarBuilder) -> Result<Self> {
        const WIDTH: usize = 64;
        // Small, so that the first policy takes every action about as often.
        let small = Init::Randn { mean: 0.0, stdev: 0.01 };
        Ok(Self {
            outer: linear(inputs, WIDTH, vb.pp("outer"))?,
            inner: linear_no_bias(WIDTH, WIDTH, vb.pp("inner"))?,
            norm: layer_norm_no_bias(WIDTH, 1e-5, vb.pp("norm"))?,
            policy: Linear::new(vb.get_with_hints((actions, WIDTH), "policy.weight", small)?, None),
            value: linear(WIDTH, 1, vb.pp("value"))?,
        })
    }
}

impl CandleModel for Residual {
    fn forward(&self, input: &CandleInput) -> Result<CandleOutput> {
        let x = self.outer.forward(&input.obs)?;
        let x = (&x + self.norm.forward(&self.inner.forward(&x)?)?.tanh()?)?;
        let (logits, values) = (self.policy.forward(&x)?, self.value.forward(&x)?.squeeze(1)?);
        Ok(CandleOutput { logits, values, state: None })
    }
}

/// The network for an environment: the trainer makes one for the learner and one per worker.
fn network(env: &EnvSpec, device: DeviceSpec) -> std::result::Result<Box<dyn Network>, PolicyError> {
    let (inputs, actions) = (env.observation.obs_len(), env.action.dist_len());
    let shape = NetworkShape { obs: env.observation.clone(), dist_len: actions, state_len: 0 };
    let build = move |vb: VarBuilder| Residual::new(inputs, actions, vb);
    Ok(Box::new(CandleNetwork::with_model(shape, device.open()?, build)?))
}

/// Trains CartPole-v1 with a network of its own.
#[derive(Parser)]
struct Args {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for logs and the trained weights [default: runs/own_network/<UTC time>-s<seed>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
}

fn main() -> std::result::Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let config = TrainerConfig { seed: args.seed, ..cartpole::config(1, 16) };
    let out = args.saving.folder("runs/own_network", args.out.as_deref(), args.seed)?;
    let builder = args.saving.builder(config, &out).env(|_: &EnvContext| CartPole::new());
    let mut trainer = builder.network(network).build()?;
    trainer.log_to(&out)?;
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let stop = StopWhen { episode_return_mean: Some(150.0), env_steps: Some(2_000_000), ..StopWhen::default() };
    let run = trainer.run(stop)?;
    // The weights are saved and this code is not: `Checkpoint::policy_with(network(…)?)` acts with them.
    run.save(&out)?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}
