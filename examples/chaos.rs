//! A run with fault injection: every hundredth step panics, errs, hangs, returns NaN or stalls.
//!
//! ```text
//! cargo run --release --example chaos                    # ten minutes
//! cargo run --release --example chaos -- --minutes 0.5
//! cargo run --release --example chaos -- --workers 4 --max-env-steps 2000000 --record run.rec
//! cargo run --release --example chaos -- --replay run.rec      # without waiting for hangs again
//! ```
//!
//! It prints losses by cause, replaced workers, and the memory and threads of the process. At the end the
//! policy plays a hundred episodes of CartPole-v1 without faults; the exit status is 0 if their mean return
//! is 475 and the ledger closes.

#![allow(clippy::print_stdout)] // a program prints; the library never does

#[path = "cartpole/config.rs"]
mod cartpole;

#[path = "flags/failure.rs"]
mod failure;
#[path = "flags/saving.rs"]
mod saving;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::wrappers::ChaosConfig;
use pronk::{ActionSelection, DEFAULT_POLICY, Recording, Replay, Schedule, TrainResult, evaluate};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains with fault injection.
#[derive(Parser)]
struct Args {
    /// Duration in minutes
    #[arg(long, default_value_t = 10.0, allow_negative_numbers = true)]
    minutes: f64,
    /// Rollout workers
    #[arg(long, default_value_t = 8)]
    workers: usize,
    /// Share of steps with a fault, of which one in a thousand hangs
    #[arg(long, default_value_t = 0.01, allow_negative_numbers = true)]
    faults: f64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Env-steps after which to end
    #[arg(long, default_value_t = u64::MAX)]
    max_env_steps: u64,
    /// Record the run in a new file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Repeat a recorded run of the same faults, and end at the first difference
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    saving: saving::Saving,
}

fn main() -> Result<ExitCode, failure::Failure> {
    let args = Args::parse();
    // Thousands of panics are planted: their messages come in the reports.
    std::panic::set_hook(Box::new(|_| {}));
    let (hang, other) = (args.faults / 1000.0, args.faults * 0.999 / 4.0);
    let chaos = ChaosConfig {
        seed: args.seed,
        panic: other,
        error: other,
        non_finite: other,
        slow: other,
        slow_for: Duration::from_millis(1),
        hang,
        // Long after it was abandoned, so that the process is not full of threads after a while.
        hang_for: Some(Duration::from_secs(5)),
    };
    let mut config = TrainerConfig { seed: args.seed, ..cartpole::config(args.workers, 2) };
    config.workers.rollout_fragment_length = 16;
    config.learner.train_batch_size = 640;
    // Two fragments in five fail: a hundred in a row never do.
    config.supervision.num_consecutive_worker_failures_tolerance = 100;
    config.supervision.max_num_worker_restarts = u32::MAX;
    config.supervision.worker_restart_backoff = Duration::from_micros(100);
    config.supervision.worker_restart_backoff_max = Duration::from_millis(10);
    config.supervision.env_hang_timeout = Some(Duration::from_millis(500));
    config.learner.lr_schedule = Some(Schedule::piecewise_linear([(0.0, 0.001), (3_000_000.0, 0.000_02)])?);
    config.results.min_time_s_per_iteration = 1.0;
    if let Some(path) = args.replay {
        let replay = Replay::open(path)?;
        let fragments = replay.fragments();
        let builder = Trainer::builder(replay.config().clone()).env(chaos.wrap(|_| CartPole::new()));
        let run = builder.replay(replay).build()?.run(StopWhen::default())?;
        println!("{fragments} fragments replayed to {}", run.weights_digest());
        return Ok(run.exit_status().into());
    }
    let mut builder = args.saving.builder(config, "runs/chaos").env(chaos.wrap(|_| CartPole::new()));
    if let Some(path) = args.record {
        builder = builder.record(Recording::to(path));
    }
    let mut trainer = builder.build()?;
    let (began, all) = (Instant::now(), Duration::try_from_secs_f64(60.0 * args.minutes)?);
    let mut said = Instant::now();
    for result in trainer.by_ref() {
        let result = result?;
        if said.elapsed() > all / 20 {
            said = Instant::now();
            say(&result);
        }
        if began.elapsed() > all || result.env_steps_sampled >= args.max_env_steps {
            say(&result);
            break;
        }
    }
    let run = trainer.finish()?;

    let checkpoint = run.checkpoints.get(DEFAULT_POLICY).ok_or_else(|| anyhow::anyhow!("nothing was trained"))?;
    let clean = |_: &EnvContext| CartPole::new();
    let judged = evaluate(&mut checkpoint.policy()?, &mut ActionSelection::Mode, &clean, 100, 1)?;
    let mean = judged.return_mean().unwrap_or(0.0);
    let lost: Vec<_> = run.steps.lost.iter().map(|(cause, steps)| format!("{cause} {}", steps.env)).collect();
    println!(
        "{} env-steps sampled, {} trained once, lost to: {}; {} threads abandoned, {} of them not ended; \
         ledger closed: {}; return among clean environments {mean:.1}; weights {}",
        run.steps.sampled.env,
        run.steps.trained_once.env,
        lost.join(", "),
        run.abandoned.count,
        run.not_joined.len(),
        run.ledger_closed(),
        run.weights_digest(),
    );
    Ok(if mean >= 475.0 && run.ledger_closed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(result: &TrainResult) {
    let lost: u64 = result.steps.lost.values().map(|steps| steps.env).sum();
    let number = |key: &str| result.dict.number(key).unwrap_or(0.0);
    println!(
        "{:>4.0} s: {:>9} env-steps, {lost:>8} lost, {:>7.0} restarts, {:.0} workers, return under chaos {:.1}, {}",
        result.time_total.as_secs_f64(),
        result.env_steps_sampled,
        number("workers.restarts"),
        number("num_healthy_workers"),
        result.episode_return_mean.unwrap_or(0.0),
        process(),
    );
}

/// Memory and threads of this process, if the system reports them.
fn process() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_told = |line: &&str| line.starts_with("VmRSS") || line.starts_with("Threads");
    let told = status.lines().filter(is_told).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    told.collect::<Vec<_>>().join(", ")
}
