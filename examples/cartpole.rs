//! Trains CartPole-v1 with IMPALA until the mean return over 100 episodes is 475.
//!
//! ```text
//! cargo run --release --example cartpole
//! cargo run --release --example cartpole -- --seed 3 --workers 1 --envs 64 --out runs/mine --quiet
//! ```
//!
//! The last line on stdout is one JSON object; the exit status is 0 only when the return was reached.

#![allow(clippy::print_stdout)] // a program prints; the library never does

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{Activation, ModelConfig, Schedule};

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains CartPole-v1 with IMPALA.
#[derive(Parser)]
struct Args {
    /// Seed of everything random in the run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Rollout threads; 0 runs everything on one thread, bit for bit reproducible
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Environments of each worker
    #[arg(long, default_value_t = 32)]
    envs: usize,
    /// Mean return over 100 episodes at which to stop
    #[arg(long, default_value_t = 475.0)]
    stop_return: f64,
    /// Env-steps after which to give up
    #[arg(long, default_value_t = 20_000_000)]
    max_env_steps: u64,
    /// Folder for `results.jsonl` and the trained policy
    #[arg(long, default_value = "runs/cartpole")]
    out: PathBuf,
    /// Print nothing but the last line
    #[arg(long)]
    quiet: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let config = TrainerConfig {
        seed: args.seed,
        num_rollout_workers: args.workers,
        num_envs_per_worker: args.envs,
        rollout_fragment_length: 20,
        train_batch_size: 20 * args.envs,
        learner_queue_size: 1,
        // Falls as the policy gets good: at full speed it would now and then throw a solved policy away.
        lr_schedule: Some(Schedule::piecewise_linear([(0.0, 0.001), (5_000_000.0, 0.000_02)])?),
        entropy_coeff: 0.01,
        model: ModelConfig {
            fcnet_hiddens: vec![64, 64],
            fcnet_activation: Activation::Relu,
            ..ModelConfig::default()
        },
        min_time_s_per_iteration: 0.1,
        ..TrainerConfig::default()
    };

    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
    trainer.add_reporter(JsonLines::create(args.out.join("results.jsonl"))?);
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let run = trainer.run(StopWhen {
        episode_return_mean: Some(args.stop_return),
        env_steps: Some(args.max_env_steps),
        ..StopWhen::default()
    })?;
    run.save(&args.out)?;

    if !args.quiet {
        println!("{}", run.result);
    }
    println!("{}", run.summary());
    Ok(if run.reached() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
