//! Env-steps per second of the `cartpole` example's run, and where its threads' time goes.
//!
//! ```text
//! cargo bench --bench end_to_end
//! ```
//!
//! The same run with and without threads alternates, so that their ratio holds on a shared machine.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::time::Duration;

use pronk::Run;
use pronk::envs::CartPole;
use pronk::prelude::*;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

fn run(workers: usize) -> Run {
    let trainer = Trainer::new(cartpole::config(workers, 32), |_: &EnvContext| CartPole::new()).unwrap();
    trainer.run(StopWhen { time: Some(ROUND), ..StopWhen::default() }).unwrap()
}

fn rate(run: &Run) -> f64 {
    run.steps.trained_once.env as f64 / run.time.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let workers = [0, 1, 2];
    let mut rates = workers.map(|_| Vec::new());
    let mut last = workers.map(|_| None);
    for _ in 0..ROUNDS {
        for (index, &workers) in workers.iter().enumerate() {
            let run = run(workers);
            rates[index].push(rate(&run));
            last[index] = Some(run);
        }
    }
    let without_threads = median(rates[0].clone());
    println!("env-steps trained per second, median of {ROUNDS} rounds of {} s", ROUND.as_secs());
    for (index, &workers) in workers.iter().enumerate() {
        let rate = median(rates[index].clone());
        println!("{workers} workers: {rate:>9.0}  ×{:.2} of no threads", rate / without_threads);
        for thread in last[index].iter().flat_map(|run| &run.thread_times) {
            let share = |secs: f64| 100.0 * secs / thread.wall_secs.max(f64::MIN_POSITIVE);
            let states = thread.states.iter().filter(|(_, secs)| share(*secs) >= 0.05);
            let states: Vec<_> = states.map(|(state, secs)| format!("{state} {:.1} %", share(*secs))).collect();
            println!("    {:<10} {}", thread.thread, states.join(", "));
        }
    }
}
