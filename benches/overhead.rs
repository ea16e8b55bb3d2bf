//! The cost of observability: CartPole at full speed, without and with reporters, spans, a log, evaluations.
//!
//! ```text
//! cargo bench --bench overhead
//! ```
//!
//! Each round runs the same training in separate processes, in turn: `ledger` with only clocks and tickets,
//! which are always on; `sinks` with a run folder (JSON lines, CSV, TensorBoard, report) and an endpoint
//! for Prometheus; `spans` with timers and a timeline of every span; `all` with both; `log` with a file of
//! messages, as `pronk train` writes it; `evaluation` with 20 episodes every second, and `video` with a
//! video of each. Rates of one round are compared. There are ten results a second, ten to a hundred times
//! as many as usual.
//!
//! Evaluations work on a thread of their own, so where all cores are busy they take their share of them: it
//! is printed, as the working time of the thread `evaluator` in the ledger over that of all cores.
//!
//! The ledger's own cost is computed, because a few thousandths would drown in noise: the number of clock
//! switches of all threads, times the measured cost of a switch, as a share of the threads' working time.
//!
//! Measured on two shared cores, fifteen rounds, median and quartiles:
//!
//! ```text
//!      sinks to ledger alone: 0.96 [0.92, 1.13]
//!      spans to ledger alone: 1.00 [0.96, 1.06]
//!        all to ledger alone: 0.96 [0.90, 1.05]
//!        log to ledger alone: 1.02 [0.88, 1.14]
//! evaluation to ledger alone: 1.01 [0.92, 1.06]
//!      video to ledger alone: 0.76 [0.72, 0.84]
//! evaluation: the evaluator's share of the cores: 0.0015
//!      video: the evaluator's share of the cores: 0.22
//! switches of clocks, as a share of the threads' working time: 0.0032, at 67 ns each
//! ```
//!
//! So observability costs less than the noise between rounds, some percent, and the ledger a third of a
//! percent. Evaluations cost what their ledger says: a video of 500 frames every second takes a quarter of a
//! second of two busy cores, which is what training loses.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::fs::File;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::metrics::{StateClock, ThreadTime};
use pronk::prelude::*;
use pronk::trainer::TrainerState;
use pronk::{Every, Prometheus, Timeline, Timers};
use serde_json::{Value, json};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VARIANTS: [&str; 7] = ["ledger", "sinks", "spans", "all", "log", "evaluation", "video"];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(variant) = args.iter().position(|arg| arg == "--variant").and_then(|at| args.get(at + 1)) {
        println!("{}", run(variant, Duration::from_secs_f64(args.last().unwrap().parse().unwrap())));
        return;
    }
    // Under `cargo test --benches` one round suffices to show that it runs.
    let (rounds, secs) = if args.iter().any(|arg| arg == "--bench") { (15, "3") } else { (1, "0.3") };
    let mut ratios = vec![Vec::new(); VARIANTS.len()];
    let mut ledger = Vec::new();
    let mut evaluator = vec![Vec::new(); VARIANTS.len()];
    for _ in 0..rounds {
        let results: Vec<Value> = VARIANTS.iter().map(|variant| child(variant, secs)).collect();
        let rate = |result: &Value| result["env_steps_per_s"].as_f64().unwrap();
        for (ratios, result) in ratios.iter_mut().zip(&results) {
            ratios.push(rate(result) / rate(&results[0]));
        }
        ledger.push(results[0]["switches_share"].as_f64().unwrap());
        for (shares, result) in evaluator.iter_mut().zip(&results) {
            shares.push(result["evaluator_share"].as_f64().unwrap());
        }
    }
    println!("ratios of env-steps per second in one round, medians of {rounds} [first quartile, last quartile]\n");
    for (variant, mut ratios) in VARIANTS.into_iter().zip(ratios) {
        println!("{variant:>10} to ledger alone: {}", quartiles(&mut ratios));
    }
    println!();
    for (variant, mut shares) in VARIANTS.into_iter().zip(evaluator).filter(|(_, shares)| shares[0] > 0.0) {
        println!("{variant:>10}: the evaluator's share of the cores: {}", quartiles(&mut shares));
    }
    println!("\nswitches of clocks, as a share of the threads' working time: {}", quartiles(&mut ledger));
    println!("one switch takes {:.1} ns", switch_secs() * 1e9);
}

fn quartiles(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:.4} [{:.4}, {:.4}]", at(0.5), at(0.25), at(0.75))
}

fn child(variant: &str, secs: &str) -> Value {
    let output = Command::new(std::env::current_exe().unwrap()).args(["--variant", variant, secs]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Trains for that long after a second of warm-up, and returns the rate.
fn run(variant: &str, time: Duration) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (sinks, spans) = (["sinks", "all"].contains(&variant), ["spans", "all"].contains(&variant));
    let timers = Timers::new();
    let timeline = Timeline::create(folder.path().join("trace.json"), Timeline::DEFAULT_EVENTS).unwrap();
    if spans {
        tracing_subscriber::registry().with(timers.layer()).with(timeline.layer()).init();
    }
    if variant == "log" {
        let file = Mutex::new(File::create(folder.path().join("log.txt")).unwrap());
        let messages = filter_fn(|metadata| metadata.is_event() && *metadata.level() <= LevelFilter::INFO);
        let layer = fmt::layer().with_ansi(false).with_writer(file);
        tracing_subscriber::registry().with(layer.with_filter(messages)).init();
    }
    let mut config = cartpole::config(1, 64);
    if ["evaluation", "video"].contains(&variant) {
        config.evaluation.every = Some(Every::Time(Duration::from_secs(1)));
    }
    let mut builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    if variant == "video" {
        builder = builder.videos(folder.path());
    }
    let mut trainer = builder.build().unwrap();
    if spans {
        trainer.add_reporter(timers.file(folder.path().join("timers.json")));
        trainer.add_reporter(timeline);
    }
    if sinks {
        trainer.log_to(folder.path()).unwrap();
        trainer.add_reporter(Prometheus::bind("127.0.0.1:0").unwrap());
    }
    let mut at =
        |time: Duration| trainer.by_ref().map(Result::unwrap).find(|result| result.time_total >= time).unwrap();
    let before = at(Duration::from_secs(1).min(time));
    let after = at(before.time_total + time);
    let run = trainer.finish().unwrap();
    assert!(run.reporter_failures.is_empty(), "{:?}", run.reporter_failures);

    let secs = (after.time_total - before.time_total).as_secs_f64();
    let of_all = |figure: fn(&ThreadTime) -> f64| {
        let sum = |times: &[ThreadTime]| times.iter().map(figure).sum::<f64>();
        sum(&after.time) - sum(&before.time)
    };
    let evaluating = of_all(|time| if time.thread == "evaluator" { working_secs(time) } else { 0.0 });
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    json!({
        "env_steps_per_s": (after.env_steps_trained - before.env_steps_trained) as f64 / secs,
        "switches_share": of_all(|time| time.n_switches as f64) * switch_secs() / of_all(working_secs),
        "evaluator_share": evaluating / (secs * cores),
    })
}

fn working_secs(time: &ThreadTime) -> f64 {
    const WAITING: [&str; 7] = ["blocked", "idle", "starved", "listening", "away", "waiting", "watching"];
    time.states.iter().filter(|(state, _)| !WAITING.contains(state)).map(|(_, secs)| secs).sum()
}

/// The cost of switching a clock.
fn switch_secs() -> f64 {
    const SWITCHES: usize = 200_000;
    let mut clock = StateClock::new("bench", TrainerState::Caller);
    let began = Instant::now();
    for _ in 0..SWITCHES / 2 {
        clock.enter(TrainerState::Training);
        clock.enter(TrainerState::Caller);
    }
    began.elapsed().as_secs_f64() / SWITCHES as f64
}
