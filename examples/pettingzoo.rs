//! Trains a parallel PettingZoo environment, in other processes, with one policy for all agents.
//!
//! ```text
//! cargo run --release --features env-process --example pettingzoo -- --module mpe2.simple_spread_v3
//! cargo run --release --features env-process --example pettingzoo -- --module my_game --python venv/bin/python
//! ```
//!
//! It needs Python 3.9 or newer with `gymnasium` and the package of the environment: `pip install gymnasium
//! mpe2`. Any module with a function `parallel_env` works if its agents have the same spaces. The last line
//! on stdout is one JSON object.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pronk::env_process::{PettingZoo, ProcessEnvs};
use pronk::policy::Torso;
use pronk::prelude::*;
use pronk::{MultiAgentConfig, PpoConfig, Schedule};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains a parallel environment of PettingZoo.
#[derive(Parser)]
struct Args {
    /// The module with the function `parallel_env`
    #[arg(long, default_value = "mpe2.simple_spread_v3")]
    module: String,
    /// The interpreter
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Rollout threads
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Environments per rollout thread, each in its own process
    #[arg(long, default_value_t = 4)]
    envs: usize,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Mean return of 100 episodes, summed over the agents, at which to stop
    #[arg(long, allow_negative_numbers = true)]
    stop_return: Option<f64>,
    /// Env-steps after which the run is over
    #[arg(long, default_value_t = 500_000)]
    max_env_steps: u64,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let envs = ProcessEnvs::new(PettingZoo { python: args.python.clone(), ..PettingZoo::new(&args.module) });
    let builder = args.saving.builder(config(&args), "runs/pettingzoo");
    let mut trainer = builder.multi_agent_env(envs, MultiAgentConfig::shared("team")).build()?;
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let run = trainer.run(StopWhen {
        episode_return_mean: args.stop_return,
        env_steps: Some(args.max_env_steps),
        ..StopWhen::default()
    })?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}

fn config(args: &Args) -> TrainerConfig {
    let mut config = TrainerConfig {
        seed: args.seed,
        algorithm: PpoConfig {
            gamma: 0.95,
            lambda: 0.95,
            clip_param: 0.2,
            kl_coeff: 0.0,
            vf_clip_param: None,
            entropy_coeff: Schedule::Constant(0.01),
            ..PpoConfig::default()
        }
        .into(),
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = args.workers;
    config.workers.num_envs_per_worker = args.envs;
    config.workers.rollout_fragment_length = 100;
    config.learner.train_batch_size = 100 * args.envs * args.workers;
    config.learner.num_sgd_iter = 6;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(600);
    config.learner.lr = 0.001;
    config.learner.grad_clip = Some(0.5);
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.torso = Torso::Separate;
    config.results.min_time_s_per_iteration = 1.0;
    config
}
