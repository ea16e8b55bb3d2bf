//! What deterministic admission costs: env-steps trained per second, as a share of a free run's in the same
//! minute.
//!
//! ```text
//! cargo bench --bench admission
//! ```
//!
//! For each lag and number of workers, free and deterministic runs alternate, and each deterministic run is
//! compared with its neighbour. CartPole, whose fragments take equally long; and CartPole that sleeps between
//! fragments, for times that vary by half, as slow environments do.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::time::Duration;

use pronk::config::Admission;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{Rng, Run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_000);

/// CartPole whose first environment sleeps before some steps.
struct Sleepy {
    inner: CartPole,
    rng: Rng,
    /// Steps until the next pause; `None` for none.
    left: Option<u32>,
}

impl Env for Sleepy {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                // A fragment: 2 ms, and half of it more or less.
                *left = 20;
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(Duration::from_micros(1_000 + self.rng.below(2_000)));
            }
        }
        self.inner.step(action, obs)
    }
}

#[derive(Clone, Copy)]
struct Setting {
    workers: usize,
    is_sleepy: bool,
}

fn run(setting: Setting, admission: Admission, round: Duration) -> Run {
    let Setting { workers, is_sleepy } = setting;
    let mut config = cartpole::config(workers, 64);
    // One fragment of every worker.
    config.learner.train_batch_size = workers * 20 * 64;
    config.learner.admission = admission;
    config.learner.lr = 0.0003;
    config.results.min_sample_timesteps_per_iteration = 500_000;
    let make = move |context: &EnvContext| Sleepy {
        inner: CartPole::new(),
        rng: Rng::seed_from(context.seed),
        left: (is_sleepy && context.index == 0).then_some(20),
    };
    let trainer = Trainer::new(config, make).unwrap();
    trainer.run(StopWhen { time: Some(round), ..StopWhen::default() }).unwrap()
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
    let (rounds, round) = if is_bench { (ROUNDS, ROUND) } else { (1, Duration::from_millis(50)) };
    println!("medians of {rounds} pairs of {round:?}; train batches of one fragment of every worker\n");
    println!(
        "{:<24} {:>7} {:>5} {:>12} {:>14} {:>6}",
        "environment", "workers", "lag", "free", "deterministic", "ratio"
    );
    for is_sleepy in [false, true] {
        for workers in [1, 2, 4] {
            for lag in [0, 1, 2, 4, 8] {
                let setting = Setting { workers, is_sleepy };
                let pair = |_| {
                    let free = rate(&run(setting, Admission::Free, round));
                    (free, rate(&run(setting, Admission::Deterministic { lag }, round)))
                };
                let pairs: Vec<_> = (0..rounds).map(pair).collect();
                let (free, turns): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
                let ratio = median(pairs.iter().map(|(free, turns)| turns / free).collect());
                let name = if is_sleepy { "CartPole, 1 to 3 ms more" } else { "CartPole" };
                println!(
                    "{name:<24} {workers:>7} {lag:>5} {:>12.0} {:>14.0} {ratio:>6.2}",
                    median(free),
                    median(turns)
                );
            }
        }
    }
}
