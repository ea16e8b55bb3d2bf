//! Environments behind a network: hundreds of connections to a server on one thread.
//!
//! ```text
//! cargo run --release --example async_env
//! cargo run --release --example async_env -- --num-envs-per-worker 1000 --latency-ms 50
//! ```

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "async_env/remote.rs"]
mod remote;

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pronk::prelude::*;
use pronk::{AsyncEnvs, Gather};

use remote::{RemoteCartPole, serve};

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains a policy for CartPole on a server.
#[derive(Parser)]
struct Args {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Connections of the worker
    #[arg(long, default_value_t = 256)]
    num_envs_per_worker: usize,
    /// Latency of the server; one answer in a hundred takes ten times as long
    #[arg(long, default_value_t = 2)]
    latency_ms: u64,
    /// Mean return to reach
    #[arg(long, default_value_t = 475.0, allow_negative_numbers = true)]
    stop_reward: f64,
    /// Env-steps after which the run is over
    #[arg(long, default_value_t = 10_000_000)]
    stop_timesteps: u64,
    #[command(flatten)]
    saving: saving::Saving,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let latency = Duration::from_millis(args.latency_ms);
    let address = serve(move |_, request| Some(if request % 100 == 99 { 10 * latency } else { latency }))?;

    let mut config = TrainerConfig { seed: args.seed, ..TrainerConfig::default() };
    config.workers.num_rollout_workers = 1;
    config.workers.num_envs_per_worker = args.num_envs_per_worker;
    // The policy acts for the environments that have answered, without waiting for slow ones.
    config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
    // An environment whose server says nothing for so long is dropped and connects again.
    config.supervision.env_hang_timeout = Some(Duration::from_secs(10));
    config.workers.rollout_fragment_length = 16;
    config.learner.train_batch_size = 16 * args.num_envs_per_worker;
    config.learner.lr = 0.001;
    config.learner.num_sgd_iter = 4;
    config.model.fcnet_hiddens = vec![64, 64];
    config.results.min_time_s_per_iteration = 1.0;
    let envs = AsyncEnvs::new(move |_: EnvContext| RemoteCartPole::connect(address));
    let mut trainer = args.saving.builder(config, "runs/async_env").env(envs).build()?;
    trainer.add_reporter(Console::stderr());
    let run = trainer.run(StopWhen {
        episode_return_mean: Some(args.stop_reward),
        env_steps: Some(args.stop_timesteps),
        ..StopWhen::default()
    })?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}
