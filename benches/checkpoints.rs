//! What checkpoints cost: the learner's pauses, the first and the last, the time to write, the bytes, and
//! env-steps trained per second as a share of those of a run without checkpoints in the same minute.
//!
//! ```text
//! cargo bench --bench checkpoints
//! ```
//!
//! CartPole with networks of about 20 k, 1 M and 20 M parameters, whose states with Adam's moments are three
//! times as large. A checkpoint every 4 s costs fifteen times what one every 60 s does.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::time::Duration;

use pronk::config::Admission;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{ResultDict, Run, reporter_fn};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(13);
const EVERY: Duration = Duration::from_secs(4);

/// A run, and its first pause for a checkpoint, in milliseconds.
fn run(width: usize, admission: Admission, (round, every): (Duration, Option<Duration>)) -> (Run, f64) {
    let mut config = cartpole::config(2, 16);
    config.model.fcnet_hiddens = vec![width, width];
    config.learner.admission = admission;
    config.learner.train_batch_size = 2 * 20 * 16;
    config.results.min_time_s_per_iteration = 0.5;
    if let Admission::Deterministic { .. } = admission {
        // About half a second on two cores.
        config.results.min_sample_timesteps_per_iteration = (4_000_000_000 / (width * width + 20_000)) as u64;
    }
    config.checkpoint.every = every.unwrap_or_default().into();
    let folder = tempfile::tempdir().unwrap();
    let mut builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    if every.is_some() {
        builder = builder.checkpoints(folder.path());
    }
    let (pauses, seen) = std::sync::mpsc::channel();
    let builder = builder.reporter(reporter_fn("pauses", move |result: &ResultDict| {
        let _ = pauses.send(result.number("checkpoint.pause_ms").unwrap_or(f64::NAN));
        Ok(())
    }));
    let run = builder.build().unwrap().run(StopWhen { time: Some(round), ..StopWhen::default() }).unwrap();
    (run, seen.try_iter().find(|pause| *pause > 0.0).unwrap_or(f64::NAN))
}

fn rate(run: &Run) -> f64 {
    run.steps.trained_once.env as f64 / run.time.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    // Under `cargo test --benches` one round suffices to show that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (rounds, round, every) =
        if is_bench { (ROUNDS, ROUND, EVERY) } else { (1, Duration::from_millis(300), Duration::ZERO) };
    println!("medians of {rounds} pairs of {round:?}, without and with a checkpoint every {every:?}\n");
    println!(
        "{:<14} {:>10} {:>7} {:>9} {:>8} {:>8} {:>10} {:>12} {:>12} {:>6}",
        "admission", "parameters", "saved", "MB", "first ms", "last ms", "write s", "without", "with", "ratio"
    );
    for (name, admission) in [("free", Admission::Free), ("deterministic", Admission::Deterministic { lag: 1 })] {
        for width in [138, 996, 4_468] {
            let (mut pairs, mut saves, mut parameters) = (Vec::new(), Vec::new(), 0);
            for _ in 0..rounds {
                let without = rate(&run(width, admission, (round, None)).0);
                let (with, first) = run(width, admission, (round, Some(every)));
                parameters = with.checkpoints.values().map(|policy| policy.state.params.values().len()).sum();
                pairs.push((without, rate(&with)));
                let of = |key: &str| with.result.dict.number(&format!("checkpoint.{key}")).unwrap_or(f64::NAN);
                saves.push([of("saved"), of("bytes") / 1e6, first, of("pause_ms"), of("write_s")]);
            }
            let [saved, megabytes, first, last, write] =
                [0, 1, 2, 3, 4].map(|i| median(saves.iter().map(|s| s[i]).collect()));
            let (without, with): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let ratio = median(pairs.iter().map(|(without, with)| with / without).collect());
            println!(
                "{name:<14} {parameters:>10} {saved:>7} {megabytes:>9.1} {first:>8.2} {last:>8.2} {write:>10.3} {:>12.0} {:>12.0} {ratio:>6.3}",
                median(without),
                median(with)
            );
        }
    }
}
