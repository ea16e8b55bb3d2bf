//! A network of your own, trained: candle operations become a `Network`, gradients included.
//!
//! This one has what no `NetworkSpec` offers: its layer is normalised, and its output is added to what went in.
//!
//! ```text
//! cargo run --release --example own_network
//! ```
//!
//! The last line on stdout is one JSON object; the exit status is 0 only when the return was reached.

#![allow(clippy::print_stdout)] // a program prints; the library never does

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pronk::envs::CartPole;
use pronk::policy::candle_core::{Result, Tensor};
use pronk::policy::{CandleInput, CandleModel, CandleNetwork, CandleOutput, CandleWeights, NetworkShape, ParamLayout};
use pronk::prelude::*;
use pronk::{DeviceSpec, EnvSpec, Network, PolicyError, RunFolder};

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// x + tanh(norm(x · inner)), with one head for the logits and one for the value.
struct Residual {
    inputs: usize,
    width: usize,
    actions: usize,
}

impl CandleModel for Residual {
    // Matrices start as in every other network, the rest at zero; the heads are known by their names.
    fn layout(&self) -> ParamLayout {
        ParamLayout::new([
            ("outer.weight", vec![self.inputs, self.width]),
            ("inner.weight", vec![self.width, self.width]),
            ("norm.scale", vec![self.width]),
            ("norm.shift", vec![self.width]),
            ("policy.weight", vec![self.width, self.actions]),
            ("value.weight", vec![self.width, 1]),
        ])
    }

    fn forward(&self, weights: &CandleWeights, input: &CandleInput<'_>) -> Result<CandleOutput> {
        let x = input.obs.matmul(weights.get("outer.weight")?)?;
        let x = (&x + self.norm(weights, &x.matmul(weights.get("inner.weight")?)?)?.tanh()?)?;
        let logits = x.matmul(weights.get("policy.weight")?)?;
        let values = x.matmul(weights.get("value.weight")?)?.squeeze(1)?;
        Ok(CandleOutput { logits, values, state: None })
    }
}

impl Residual {
    /// Mean 0 and variance 1 in each row, then a scale around one and a shift.
    fn norm(&self, weights: &CandleWeights, x: &Tensor) -> Result<Tensor> {
        let x = x.broadcast_sub(&x.mean_keepdim(1)?)?;
        let x = x.broadcast_div(&(x.sqr()?.mean_keepdim(1)? + 1e-5)?.sqrt()?)?;
        let scale = (weights.get("norm.scale")? + 1.0)?;
        x.broadcast_mul(&scale)?.broadcast_add(weights.get("norm.shift")?)
    }
}

/// The network for an environment: the trainer asks for one to learn with, and one for each worker to act with.
fn network(env: &EnvSpec, device: DeviceSpec) -> std::result::Result<Box<dyn Network>, PolicyError> {
    let actions = env.action.dist_len();
    let shape = NetworkShape { obs: env.observation.clone(), dist_len: actions, state_len: 0 };
    let model = Residual { inputs: env.observation.obs_len(), width: 64, actions };
    Ok(Box::new(CandleNetwork::with_model(shape, Box::new(model), device.open()?)?))
}

/// Trains CartPole-v1 with a network of its own.
#[derive(Parser)]
struct Args {
    /// Seed of everything random in the run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for what is written down of the run, and the trained weights [default: runs/own_network/<UTC time>-s<seed>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print nothing but the last line
    #[arg(long)]
    quiet: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let config = TrainerConfig {
        seed: args.seed,
        num_rollout_workers: 1,
        num_envs_per_worker: 16,
        rollout_fragment_length: 20,
        train_batch_size: 320,
        learner_queue_size: 1,
        lr: 0.001,
        min_time_s_per_iteration: 0.1,
        ..TrainerConfig::default()
    };
    let mut trainer = Trainer::with_network(config, |_: &EnvContext| CartPole::new(), network)?;
    let out = match &args.out {
        Some(out) => RunFolder::at(out)?,
        None => RunFolder::create("runs/own_network", args.seed)?,
    };
    trainer.log_to(&out)?;
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let stop = StopWhen { episode_return_mean: Some(150.0), env_steps: Some(2_000_000), ..StopWhen::default() };
    let run = trainer.run(stop)?;
    // The weights are saved and this code is not: `Policy::with_network(network(…)?, …)` acts with them.
    run.save(&out)?;
    println!("{}", run.summary());
    Ok(if run.reached() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
