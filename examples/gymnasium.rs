//! Trains any Gymnasium environment, in other processes, with PPO or APPO.
//!
//! ```text
//! cargo run --release --features env-process --example gymnasium -- --env CartPole-v1 --stop-return 475
//! cargo run --release --features env-process --example gymnasium -- --env LunarLander-v3 --gamma 0.999 --stop-return 200
//! cargo run --release --features env-process --example gymnasium -- --env InvertedPendulum-v5 --stop-return 950
//! cargo run --release --features env-process --example gymnasium -- --env Hopper-v5 --stop-return 1500 --algorithm appo
//! cargo run --release --features env-process --example gymnasium -- --env my_envs:Gripper-v0 --python venv/bin/python
//! cargo run --release --features env-process --example gymnasium -- --env my_envs:Gripper-v0 --check --twice
//! ```
//!
//! It needs Python 3.9 or newer with `gymnasium`, and for some environments more: `pip install
//! "gymnasium[box2d,mujoco]"`. Your own modules are found in the current folder. The last line on stdout is
//! one JSON object; the exit status is 0 only when the return was reached.
//!
//! With `--check` it trains nothing and says whether the environment keeps the rules.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pronk::config::ObservationFilter;
use pronk::env_process::{Gymnasium, ProcessEnvs};
use pronk::policy::{LogStdRange, Torso};
use pronk::prelude::*;
use pronk::{AlgorithmConfig, AppoConfig, PpoConfig, Schedule};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains an environment of Gymnasium.
#[derive(Parser)]
struct Args {
    /// Id of the environment; `module:id` for one that a module registers
    #[arg(long, default_value = "CartPole-v1")]
    env: String,
    /// The algorithm: ppo trains while environments wait, appo while they step
    #[arg(long, value_enum, default_value_t = AlgorithmName::Ppo)]
    algorithm: AlgorithmName,
    /// The interpreter
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Processes, one core each
    #[arg(long, default_value_t = 2)]
    processes: usize,
    /// Environments in each process
    #[arg(long, default_value_t = 8)]
    envs_per_process: usize,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Discount
    #[arg(long, default_value_t = 0.99, allow_negative_numbers = true)]
    gamma: f64,
    /// Mean return over 100 episodes to stop at
    #[arg(long, allow_negative_numbers = true)]
    stop_return: Option<f64>,
    /// Env-steps after which to give up
    #[arg(long, default_value_t = 2_000_000)]
    max_env_steps: u64,
    /// Only check that the environment keeps the rules of a run
    #[arg(long)]
    check: bool,
    /// Check also that episodes in a fresh process are those in one that has played others before
    #[arg(long, requires = "check")]
    twice: bool,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AlgorithmName {
    Ppo,
    Appo,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let envs = ProcessEnvs {
        envs_per_process: args.envs_per_process,
        ..ProcessEnvs::new(Gymnasium { python: args.python.clone(), ..Gymnasium::new(&args.env) })
    };
    if args.check {
        return Ok(check(&args, &envs)?);
    }
    let mut trainer = args.saving.builder(config(&args)?, "runs/gymnasium").env(envs).build()?;
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

/// Checks the environment; what is wrong with it is the error.
fn check(args: &Args, envs: &ProcessEnvs) -> anyhow::Result<ExitCode> {
    pronk::check_env(envs.env()?, args.seed)?;
    println!("{} keeps the rules", args.env);
    if args.twice {
        pronk::check_env_twice(|_: &EnvContext| envs.env().map_err(EnvError::new), args.seed)?;
        println!("{} plays the same in a fresh process as after other episodes", args.env);
    }
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Args) -> anyhow::Result<TrainerConfig> {
    let n_envs = args.processes * args.envs_per_process;
    let (num_rollout_workers, num_envs_per_worker, rollout_fragment_length) = match args.algorithm {
        // While the environments step in their processes, this thread waits; while it learns, they do.
        AlgorithmName::Ppo => (0, n_envs, 64),
        // A worker for each process, so that no process waits for another; fragments half as long, because a
        // fragment is as old as its first step and V-trace forgets over old data: decision 0020.
        AlgorithmName::Appo => (args.processes, args.envs_per_process, 32),
    };
    let mut config = TrainerConfig { seed: args.seed, algorithm: algorithm(args), ..TrainerConfig::default() };
    config.workers.num_rollout_workers = num_rollout_workers;
    config.workers.num_envs_per_worker = num_envs_per_worker;
    config.workers.rollout_fragment_length = rollout_fragment_length;
    config.learner.train_batch_size = 64 * n_envs;
    config.learner.num_sgd_iter = 10;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.lr_schedule =
        Some(Schedule::piecewise_linear([(0.0, 0.0005), (args.max_env_steps as f64, 0.000_05)])?);
    config.learner.grad_clip = Some(0.5);
    // Environments of any scale.
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    config.workers.normalize_rewards = true;
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.torso = Torso::Separate;
    // With smaller deviations some runs of Hopper settle for the first gait that stands: decision 0020.
    config.model.log_std_range = LogStdRange::new(-0.5, 2.0)?;
    config.results.min_time_s_per_iteration = 0.5;
    Ok(config)
}

/// The same horizon, clipping and weights for both.
fn algorithm(args: &Args) -> AlgorithmConfig {
    let (gamma, entropy_coeff) = (args.gamma, Schedule::Constant(0.002));
    match args.algorithm {
        AlgorithmName::Ppo => PpoConfig {
            gamma,
            lambda: 0.95,
            clip_param: 0.2,
            vf_loss_coeff: 0.5,
            vf_clip_param: None,
            kl_coeff: 0.0,
            entropy_coeff,
            ..PpoConfig::default()
        }
        .into(),
        AlgorithmName::Appo => AppoConfig {
            gamma,
            vtrace_lambda: 0.95,
            clip_param: 0.2,
            // APPO's value loss is half the squared error and PPO's the whole, so 1.0 here is 0.5 there.
            vf_loss_coeff: 1.0,
            standardize_advantages: true,
            entropy_coeff,
            ..AppoConfig::default()
        }
        .into(),
    }
}
