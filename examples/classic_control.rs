//! Trains classic-control environments with any of the algorithms: CartPole-v1, Acrobot-v1, Pendulum-v1,
//! MountainCarContinuous-v0.
//!
//! ```text
//! cargo run --release --example classic_control -- --env Pendulum-v1 --algorithm ppo
//! cargo run --release --example classic_control -- --env Acrobot-v1 --algorithm appo --seed 3 --quiet
//! cargo run --release --example classic_control -- --env MountainCarContinuous-v0 --max-env-steps 500000
//! ```
//!
//! The last line on stdout is one JSON object; the exit status is 0 only when the return was reached.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pronk::config::ObservationFilter;
use pronk::envs::{Acrobot, CartPole, MountainCarContinuous, Pendulum};
use pronk::policy::Torso;
use pronk::prelude::*;
use pronk::{AlgorithmConfig, AppoConfig, DeviceSpec, ImpalaConfig, PpoConfig, Schedule};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains a classic-control environment.
#[derive(Parser)]
struct Args {
    /// The environment
    #[arg(long, value_enum, default_value_t = EnvName::CartPole)]
    env: EnvName,
    /// The algorithm
    #[arg(long, value_enum, default_value_t = AlgorithmName::Ppo)]
    algorithm: AlgorithmName,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Rollout threads; 0 runs everything on one thread, bit-reproducible [default: 0 for ppo, else 1]
    #[arg(long)]
    workers: Option<usize>,
    /// CPU devices that share an update
    #[arg(long, default_value_t = 1)]
    devices: usize,
    /// Stacks to load batches into ahead of the learner, with --workers 1 or more; 0 for none
    #[arg(long, default_value_t = 0)]
    stacks: usize,
    /// Mean return over 100 episodes to stop at [default: what solves the environment]
    #[arg(long, allow_negative_numbers = true)]
    stop_return: Option<f64>,
    /// Env-steps after which to give up
    #[arg(long, default_value_t = 5_000_000)]
    max_env_steps: u64,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EnvName {
    #[value(name = "CartPole-v1")]
    CartPole,
    #[value(name = "Acrobot-v1")]
    Acrobot,
    #[value(name = "Pendulum-v1")]
    Pendulum,
    #[value(name = "MountainCarContinuous-v0")]
    MountainCarContinuous,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AlgorithmName {
    Impala,
    Appo,
    Ppo,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let config = config(&args);
    let mut trainer = match args.env {
        EnvName::CartPole => start(&args, config, |_: &EnvContext| CartPole::new())?,
        EnvName::Acrobot => start(&args, config, |_: &EnvContext| Acrobot::new())?,
        EnvName::Pendulum => start(&args, config, |_: &EnvContext| Pendulum::new())?,
        EnvName::MountainCarContinuous => start(&args, config, |_: &EnvContext| MountainCarContinuous::new())?,
    };
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let solved = match args.env {
        EnvName::CartPole => 475.0,
        EnvName::Acrobot => -100.0,
        EnvName::Pendulum => -250.0,
        EnvName::MountainCarContinuous => 90.0,
    };
    let run = trainer.run(StopWhen {
        episode_return_mean: Some(args.stop_return.unwrap_or(solved)),
        env_steps: Some(args.max_env_steps),
        ..StopWhen::default()
    })?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}

fn start(args: &Args, config: TrainerConfig, env: impl pronk::EnvFactory + 'static) -> anyhow::Result<Trainer> {
    Ok(args.saving.builder(config, "runs/classic_control").env(env).build()?)
}

/// Common settings, and those of each environment.
fn config(args: &Args) -> TrainerConfig {
    let (ppo, impala) = (args.algorithm == AlgorithmName::Ppo, args.algorithm == AlgorithmName::Impala);
    let (gamma, continuous) = match args.env {
        EnvName::CartPole => (0.98, false),
        EnvName::Acrobot => (0.99, false),
        // Rewards are large, so a near horizon keeps values learnable.
        EnvName::Pendulum => (0.95, true),
        // The goal is hundreds of steps away. IMPALA, which has no lambda, needs a nearer horizon.
        EnvName::MountainCarContinuous => (if impala { 0.99 } else { 0.999 }, true),
    };
    // A velocity is a tenth of a position at most, and the goal is worth a thousand steps: without scales the
    // network hardly sees the one, and the values see little but the other.
    let normalize = args.env == EnvName::MountainCarContinuous;
    let many_passes = match args.algorithm {
        AlgorithmName::Ppo => true,
        AlgorithmName::Appo => continuous,
        // Its loss does not bound how far the passes over one batch may go, and MountainCarContinuous shows
        // its goal too rarely to recover.
        AlgorithmName::Impala => continuous && args.env != EnvName::MountainCarContinuous,
    };
    {
        let mut config = TrainerConfig {
            seed: args.seed,
            algorithm: algorithm(args, gamma, continuous),
            ..TrainerConfig::default()
        };
        config.workers.num_rollout_workers = args.workers.unwrap_or(if ppo { 0 } else { 1 });
        config.workers.num_envs_per_worker = 16;
        config.workers.observation_filter =
            if normalize { ObservationFilter::MeanStdFilter } else { ObservationFilter::NoFilter };
        config.workers.normalize_rewards = normalize;
        config.workers.rollout_fragment_length = 64;
        config.learner.train_batch_size = 1024;
        config.learner.num_sgd_iter = if many_passes { 10 } else { 1 };
        config.learner.sgd_minibatch_size = if many_passes { NonZeroUsize::new(256) } else { None };
        config.learner.devices = vec![DeviceSpec::Cpu; args.devices];
        config.learner.num_multi_gpu_tower_stacks = args.stacks;
        config.learner.lr = 0.001;
        config.learner.grad_clip = Some(if many_passes { 0.5 } else { 40.0 });
        config.model.fcnet_hiddens = vec![64, 64];
        config.model.torso = Torso::Separate;
        config.results.min_time_s_per_iteration = 0.1;
        config
    }
}

/// The algorithm, with settings for continuous actions.
fn algorithm(args: &Args, gamma: f64, continuous: bool) -> AlgorithmConfig {
    let entropy_coeff = Schedule::Constant(0.0);
    match args.algorithm {
        AlgorithmName::Impala => ImpalaConfig { gamma, entropy_coeff, ..ImpalaConfig::default() }.into(),
        AlgorithmName::Appo => AppoConfig {
            gamma,
            entropy_coeff,
            // Returns of any size, and several passes, want what PPO has.
            vtrace_lambda: if continuous { 0.95 } else { 1.0 },
            standardize_advantages: continuous,
            clip_param: if continuous { 0.2 } else { 0.4 },
            ..AppoConfig::default()
        }
        .into(),
        AlgorithmName::Ppo => PpoConfig {
            gamma,
            entropy_coeff,
            lambda: 0.95,
            clip_param: 0.2,
            vf_loss_coeff: 0.5,
            vf_clip_param: None,
            kl_coeff: 0.0,
            ..PpoConfig::default()
        }
        .into(),
    }
}
