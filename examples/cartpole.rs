//! Trains CartPole-v1 with IMPALA until the mean return over 100 episodes is 475.
//!
//! ```text
//! cargo run --release --example cartpole
//! cargo run --release --example cartpole -- --seed 3 --workers 1 --envs 64 --out runs/mine --quiet
//! cargo run --release --example cartpole -- --frugal     # few env-steps, instead of many a second
//! cargo run --release --example cartpole -- --bench      # how many a second, and what is the limit
//! cargo run --release --example cartpole -- --workers 2 --deterministic 2 --max-env-steps 1000000   # the same run twice
//! cargo run --release --example cartpole -- --workers 4 --record run.rec   # then: --replay run.rec
//! cargo run --release --example cartpole -- --out runs/mine --checkpoint-every "1 s" --resume auto   # again after a kill
//! cargo run --release --features hosts-zenoh --example cartpole -- --workers 0 --listen tcp/127.0.0.1:7447
//! cargo run --release --features hosts-zenoh --example cartpole -- --connect tcp/127.0.0.1:7447   # also elsewhere
//! cargo run --release --example cartpole -- --trace run.json --prometheus 127.0.0.1:9464
//! ```
//!
//! Logs, a report and the trained policy are in `runs/cartpole/<UTC time>-s<seed>`, linked as
//! `runs/cartpole/latest`, or in `--out`. A trace opens in <https://ui.perfetto.dev>.
//!
//! The last line on stdout is one JSON object. The exit status is 0 only if the return was reached or
//! measured; 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP, which save the policy.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "cartpole/config.rs"]
mod config;
#[path = "cartpole/measure.rs"]
mod measure;

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/hosts.rs"]
mod hosts;
#[path = "flags/log.rs"]
mod log;
#[path = "flags/saving.rs"]
mod saving;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pronk::config::Admission;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{
    ImpalaConfig, Prometheus, RecordError, Recording, Replay, RunFolder, RunFolderError, Schedule, Timeline, Timers,
    Vectorised,
};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Keeps freed memory for the next update; the system's allocator gives large blocks back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains CartPole-v1 with IMPALA.
#[derive(Parser)]
struct Args {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Rollout threads; 0 runs everything on one thread
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Environments per rollout thread [default: 32; 64 with --bench]
    #[arg(long)]
    envs: Option<usize>,
    /// Optimise for few env-steps instead of throughput; on one thread, reproducible
    #[arg(long, conflicts_with_all = ["workers", "envs"])]
    frugal: bool,
    /// Warm up for 10 seconds, then measure throughput for 10
    #[arg(long)]
    bench: bool,
    /// Make the run repeatable: workers sample so many train batches ahead of the learner, in a fixed order
    #[arg(long, value_name = "LAG", conflicts_with = "frugal")]
    deterministic: Option<usize>,
    /// Record the run in a new file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record the fragments too, in FILE.fragments; with --replay, train on these instead of sampling again
    #[arg(long)]
    data: bool,
    /// Repeat a recorded run, with its settings, and end at the first difference
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "bench"])]
    replay: Option<PathBuf>,
    /// Replay up to this update only
    #[arg(long, value_name = "UPDATE", requires = "replay")]
    until: Option<u64>,
    /// Mean return over 100 episodes to stop at
    #[arg(long, default_value_t = 475.0, allow_negative_numbers = true)]
    stop_return: f64,
    /// Env-steps after which to give up
    #[arg(long, default_value_t = 20_000_000)]
    max_env_steps: u64,
    /// Folder for logs and the trained policy [default: runs/cartpole/<UTC time>-s<seed>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Overwrite the run in --out
    #[arg(long, requires = "out", conflicts_with = "resume")]
    overwrite: bool,
    /// File for a timeline of all threads
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Address to serve Prometheus metrics at
    #[arg(long)]
    prometheus: Option<String>,
    /// Print only the last line
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    saving: saving::Saving,
    #[command(flatten)]
    hosts: hosts::Hosts,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    let mut config = if args.frugal { frugal(&args)? } else { fast(&args)? };
    if args.bench {
        config.results.min_time_s_per_iteration = measure::ITERATION_SECS;
    }
    if let Some(lag) = args.deterministic {
        config.learner.admission = Admission::Deterministic { lag };
        // A result in about a tenth of a second.
        config.results.min_sample_timesteps_per_iteration = 100_000;
    }
    let replay = args.replay.as_ref().map(|path| replay(path, &args)).transpose()?;
    if let Some(replay) = &replay {
        config = replay.config().clone();
    }
    config.results.weights_digest = args.deterministic.is_some();
    let train_batch_size = config.learner.train_batch_size;
    // Before the threads begin, so that their first spans are seen as well.
    let timers = Timers::new();
    let timeline = args.trace.as_ref().map(|path| Timeline::create(path, Timeline::DEFAULT_EVENTS)).transpose()?;
    let log = args.hosts.are_used().then(log::lines);
    tracing_subscriber::registry().with(timers.layer()).with(timeline.as_ref().map(Timeline::layer)).with(log).init();

    // As `|_: &EnvContext| CartPole::new()`, but all environments of a worker step together.
    let env = Vectorised::<CartPole>::new();
    if let Some(status) = args.hosts.act(args.workers, |to| Trainer::builder(config.clone()).env(env).connect(to))? {
        return Ok(status);
    }
    let out = folder(&args)?;
    let mut builder = args.hosts.listen(args.saving.builder(config, &out).env(env))?;
    if let Some(path) = &args.record {
        let recording = Recording::to(path);
        builder = builder.record(if args.data { recording.with_fragments() } else { recording });
    }
    let is_replay = replay.is_some();
    if let Some(replay) = replay {
        builder = builder.replay(replay);
    }
    let mut trainer = builder.build()?;
    trainer.log_to(&out)?;
    trainer.add_reporter(timers.file(out.path().join("timers.json")));
    if let Some(timeline) = timeline {
        trainer.add_reporter(timeline);
    }
    if let Some(address) = &args.prometheus {
        trainer.add_reporter(Prometheus::bind(address)?);
    }
    if !args.quiet {
        trainer.add_reporter(Console::stderr());
    }
    if args.bench {
        println!("{}", measure::measure(trainer, train_batch_size)?.to_json_line());
        return Ok(ExitCode::SUCCESS);
    }

    // A replay ends with its record.
    let limits = StopWhen {
        episode_return_mean: Some(args.stop_return),
        env_steps: Some(args.max_env_steps),
        ..StopWhen::default()
    };
    let run = trainer.run(if is_replay { StopWhen::default() } else { limits })?;
    run.save(&out)?;

    if !args.quiet {
        println!("{}", run.result);
    }
    println!("{}", run.summary());
    Ok(run.exit_status().into())
}

/// The run to repeat.
fn replay(path: &Path, args: &Args) -> Result<Replay, RecordError> {
    let replay = Replay::open(path)?;
    let replay = if args.data { replay.from_fragments() } else { replay };
    Ok(match args.until {
        Some(update) => replay.until(update),
        None => replay,
    })
}

/// The folder of this run; none for a measurement, so that `latest` always has a trained policy.
fn folder(args: &Args) -> Result<RunFolder, RunFolderError> {
    let runs = if args.bench { "runs/cartpole-bench" } else { "runs/cartpole" };
    match &args.out {
        Some(out) if args.overwrite => RunFolder::overwrite(out),
        out => args.saving.folder(runs, out.as_deref(), args.seed),
    }
}

/// High throughput: sampling and training on separate threads, one pass over each large batch.
fn fast(args: &Args) -> anyhow::Result<TrainerConfig> {
    let envs = args.envs.unwrap_or(if args.bench { 64 } else { 32 });
    // So many updates, however large the batches are.
    let falls_for = 156_250.0 * envs as f64;
    let falling = |from, to| Schedule::piecewise_linear([(0.0, from), (falls_for, to)]);
    let mut config = TrainerConfig { seed: args.seed, ..config::config(args.workers, envs) };
    // Both fall as the policy gets good: at the full rate it would now and then throw a solved policy away,
    // and once there is nothing left to gain, a bonus for entropy would be all that it learns from. The rate
    // stays high enough for a run that got stuck to learn its way out.
    config.learner.lr_schedule = Some(falling(0.001, 0.000_1)?);
    config.algorithm = ImpalaConfig { entropy_coeff: falling(0.01, 0.0)?, ..ImpalaConfig::default() }.into();
    // The loss is a sum over the batch. Where a pole falls, its gradient has a norm of ten thousand, and else
    // one of ten: clipped to 40, the batches that say what went wrong would count no more than those that say
    // nothing.
    config.learner.grad_clip = None;
    Ok(config)
}

/// Few env-steps: small batches, several passes, no lag, and a shorter horizon.
fn frugal(args: &Args) -> anyhow::Result<TrainerConfig> {
    let mut config = TrainerConfig {
        seed: args.seed,
        algorithm: ImpalaConfig {
            entropy_coeff: Schedule::Constant(0.003),
            // Returns are large numbers: at full weight their errors would shape what the policy sees.
            vf_loss_coeff: 0.1,
            gamma: 0.98,
            ..ImpalaConfig::default()
        }
        .into(),
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 4;
    config.workers.rollout_fragment_length = 16;
    config.learner.train_batch_size = 64;
    config.learner.num_sgd_iter = 4;
    config.learner.lr_schedule = Some(Schedule::piecewise_linear([(0.0, 0.001), (100_000.0, 0.000_1)])?);
    config.model.fcnet_hiddens = vec![64, 64];
    // A look after each thousand env-steps, so that it stops soon after the return is reached.
    config.results.min_time_s_per_iteration = 0.0;
    config.results.min_sample_timesteps_per_iteration = 1_000;
    Ok(config)
}
