//! Trains an Atari game with APPO and the network of Mnih et al. (2015), the games in processes of their own.
//!
//! ```text
//! cargo run --release --features env-process --example atari -- --game Pong --out runs/pong
//! cargo run --release --features env-process --example atari -- --game Breakout --python venv/bin/python
//! ```
//!
//! It needs Python 3.9 or newer with `pip install gymnasium ale-py opencv-python-headless`. An env-step is
//! four frames. Results and the policy are in `runs/atari/latest`, or in `--out`. The last line on stdout is
//! one JSON object. The first of the commands took Pong on two cores from -20.2 to -16.5 in half an hour,
//! 816,000 env-steps.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/hosts.rs"]
mod hosts;
#[path = "flags/log.rs"]
mod log;
#[path = "flags/saving.rs"]
mod saving;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pronk::config::Admission;
use pronk::env_process::{AtariVector, Gymnasium, ProcessEnvs, Program};
use pronk::prelude::*;
use pronk::{AppoConfig, RunFolder, RunFolderError, Schedule};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains an Atari game.
#[derive(Parser)]
struct Args {
    /// Name of the game, such as MsPacman
    #[arg(long, default_value = "Pong")]
    game: String,
    /// Preprocessing: Gymnasium's wrappers, or ale-py's own vectoriser
    #[arg(long, value_enum, default_value_t = Frames::AlePy)]
    frames: Frames,
    /// Width and height of frames; 84 in the literature, and with 64 an update takes less than half the time
    #[arg(long, default_value_t = 84)]
    size: u32,
    /// The interpreter
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Rollout threads, each with its own processes
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Environments per rollout thread
    #[arg(long, default_value_t = 16)]
    envs: usize,
    /// Environments per process [default: all of a rollout thread]
    #[arg(long)]
    envs_per_process: Option<usize>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Training time
    #[arg(long, default_value_t = 30.0, allow_negative_numbers = true)]
    minutes: f64,
    /// Mean return over 100 episodes to stop at
    #[arg(long, allow_negative_numbers = true)]
    stop_return: Option<f64>,
    /// Passes over each train batch
    #[arg(long, default_value_t = 4)]
    num_sgd_iter: usize,
    /// Steps of each environment in a fragment; a train batch is two fragments
    #[arg(long, default_value_t = 32)]
    fragment: usize,
    /// Env-steps of a minibatch
    #[arg(long, default_value_t = NonZeroUsize::MIN.saturating_add(255))]
    minibatch: NonZeroUsize,
    /// Folder for logs and the trained policy [default: runs/atari/<UTC time>-s<seed>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Overwrite the run in --out
    #[arg(long, requires = "out", conflicts_with = "resume")]
    overwrite: bool,
    /// Make the run repeatable: workers sample so many train batches ahead of the learner, in a fixed order
    #[arg(long, value_name = "LAG")]
    deterministic: Option<usize>,
    /// Env-steps after which to end
    #[arg(long)]
    max_env_steps: Option<u64>,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
    #[command(flatten)]
    hosts: hosts::Hosts,
}

#[derive(Clone, Copy, ValueEnum)]
enum Frames {
    Gymnasium,
    AlePy,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let python = args.python.clone();
    let program: Program = match args.frames {
        Frames::Gymnasium => {
            let mut game = Gymnasium { python, ..Gymnasium::atari(&args.game) };
            game.wrappers[0].kwargs.insert("screen_size".to_owned(), args.size.into());
            game.into()
        }
        Frames::AlePy => {
            let mut game = AtariVector { python, ..AtariVector::new(&args.game) };
            for side in ["img_height", "img_width"] {
                game.kwargs.insert(side.to_owned(), args.size.into());
            }
            game.into()
        }
    };
    let envs = ProcessEnvs {
        envs_per_process: args.envs_per_process.unwrap_or(args.envs),
        clip_rewards: Some(1.0),
        ..ProcessEnvs::new(program)
    };
    if args.hosts.are_used() {
        tracing_subscriber::registry().with(log::lines()).init();
    }
    let host = |to| Trainer::builder(config(&args)).env(envs.clone()).connect(to);
    if let Some(status) = args.hosts.act(args.workers, host)? {
        return Ok(status);
    }
    let out = folder(&args)?;
    let mut trainer = args.hosts.listen(args.saving.builder(config(&args), &out).env(envs))?.build()?;
    trainer.log_to(&out)?;
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    let run = trainer.run(StopWhen {
        episode_return_mean: args.stop_return,
        env_steps: args.max_env_steps,
        time: Some(Duration::try_from_secs_f64(60.0 * args.minutes)?),
        ..StopWhen::default()
    })?;
    run.save(&out)?;
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}

/// The folder of this run.
fn folder(args: &Args) -> Result<RunFolder, RunFolderError> {
    match &args.out {
        Some(out) if args.overwrite => RunFolder::overwrite(out),
        out => args.saving.folder("runs/atari", out.as_deref(), args.seed),
    }
}

fn config(args: &Args) -> TrainerConfig {
    let mut config = TrainerConfig {
        seed: args.seed,
        algorithm: AppoConfig {
            gamma: 0.99,
            // At this lag V-trace learned no faster and took a quarter of the speed: docs/guide/atari.md.
            vtrace: false,
            lambda: 0.95,
            behaviour_kl_coeff: 0.0,
            // Rewards are rare: advantages brought to one scale outweigh the entropy bonus from the
            // beginning.
            standardize_advantages: true,
            clip_param: 0.1,
            vf_loss_coeff: 0.5,
            entropy_coeff: Schedule::Constant(0.01),
            ..AppoConfig::default()
        }
        .into(),
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = args.workers;
    config.workers.num_envs_per_worker = args.envs;
    // By default shorter than a rally of many games: a minibatch should not hold one scene only.
    config.workers.rollout_fragment_length = args.fragment;
    config.learner.train_batch_size = 2 * args.fragment * args.envs;
    config.learner.num_sgd_iter = args.num_sgd_iter;
    config.learner.sgd_minibatch_size = Some(args.minibatch);
    config.learner.lr = 0.00025;
    config.learner.grad_clip = Some(0.5);
    config.results.min_time_s_per_iteration = 10.0;
    if let Some(lag) = args.deterministic {
        config.learner.admission = Admission::Deterministic { lag };
        config.results.min_sample_timesteps_per_iteration = 20_000;
        config.results.weights_digest = true;
    }
    config
}
