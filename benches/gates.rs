//! The throughput of the inqueue's two gates: workers that push while there is room, or workers and learner
//! in turn.
//!
//! ```text
//! cargo bench --bench gates
//! ```
//!
//! CartPole, and CartPole that spins in every step; few passes over a train batch, and many. The two gates
//! alternate, and each run is compared with its neighbour, so that the ratio holds on a shared machine.
//!
//! On two cores, `Bounded` trained as much or more in every setting. In turn, samples were fresher where the
//! learner is the limit and the queue is long, and staler where the environments are, because a worker that
//! waits for the gate holds old samples.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use pronk::Run;
use pronk::buffer::Gate;
use pronk::envs::CartPole;
use pronk::prelude::*;

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(1);
const GATES: [Gate; 2] = [Gate::Bounded, Gate::FillThenDrain];

/// CartPole whose every step takes at least this long.
struct Costly {
    inner: CartPole,
    step_takes: Duration,
}

impl Env for Costly {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let began = Instant::now();
        let step = self.inner.step(action, obs);
        while began.elapsed() < self.step_takes {
            spin_loop();
        }
        step
    }
}

#[derive(Clone, Copy)]
struct Setting {
    step_takes: Duration,
    num_sgd_iter: usize,
    /// Fragments; a train batch has two.
    learner_queue_size: usize,
}

fn run(setting: Setting, inqueue_gate: Gate, round: Duration) -> Run {
    let Setting { step_takes, num_sgd_iter, learner_queue_size } = setting;
    let mut config = cartpole::config(2, 16);
    config.learner.train_batch_size = 640;
    config.learner.num_sgd_iter = num_sgd_iter;
    config.learner.learner_queue_size = Some(learner_queue_size);
    config.learner.inqueue_gate = inqueue_gate;
    config.learner.lr = 0.0003;
    let make = move |_: &EnvContext| Costly { inner: CartPole::new(), step_takes };
    let trainer = Trainer::new(config, make).unwrap();
    trainer.run(StopWhen { time: Some(round), ..StopWhen::default() }).unwrap()
}

/// The figures of a run.
struct Figures {
    env_steps_per_s: f64,
    /// The share of time that the learner learns.
    busy: f64,
    /// Mean policy lag of the last iteration, in publications; `None` if it trained nothing.
    lag: Option<f64>,
}

fn figures(run: &Run) -> Figures {
    let learner = run.thread_times.iter().find(|thread| thread.thread == "learner").unwrap();
    let learning: f64 = learner.states.iter().filter(|(state, _)| *state == "learning").map(|(_, secs)| secs).sum();
    Figures {
        env_steps_per_s: run.steps.trained_once.env as f64 / run.time.as_secs_f64(),
        busy: learning / learner.wall_secs,
        lag: run.result.dict.number("policy_lag.mean"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    // Under `cargo test --benches` one round suffices to show that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (rounds, round) = if is_bench { (ROUNDS, ROUND) } else { (1, Duration::from_millis(50)) };

    println!("medians of {rounds} rounds of {round:?}; 2 workers, train batches of 2 fragments\n");
    println!("{:>9} {:>7} {:>6}   {:^27}   {:^27}   steps/s", "", "", "", "Bounded", "FillThenDrain");
    let columns = format!("{:>11} {:>7} {:>7}", "steps/s", "busy", "lag");
    println!("{:>9} {:>7} {:>6}   {columns}   {columns}   ratio", "step", "passes", "queue");
    for step_takes in [Duration::ZERO, Duration::from_micros(20)] {
        for num_sgd_iter in [1, 16] {
            for learner_queue_size in [2, 8] {
                let setting = Setting { step_takes, num_sgd_iter, learner_queue_size };
                let mut figures_of = GATES.map(|_| Vec::new());
                for _ in 0..rounds {
                    for (gate, told) in GATES.iter().zip(&mut figures_of) {
                        told.push(figures(&run(setting, *gate, round)));
                    }
                }
                show(setting, &figures_of);
            }
        }
    }
}

fn show(setting: Setting, figures_of: &[Vec<Figures>; 2]) {
    let columns = |gate: usize| {
        let figures = &figures_of[gate];
        let steps = median(figures.iter().map(|figures| figures.env_steps_per_s));
        let busy = 100.0 * median(figures.iter().map(|figures| figures.busy));
        let lag = median(figures.iter().filter_map(|figures| figures.lag));
        format!("{steps:>11.0} {busy:>5.0} % {lag:>7.2}")
    };
    let [bounded, by_turns] = figures_of;
    let ratios = bounded.iter().zip(by_turns).map(|(bounded, turns)| turns.env_steps_per_s / bounded.env_steps_per_s);
    let Setting { step_takes, num_sgd_iter, learner_queue_size } = setting;
    let step_takes = if step_takes.is_zero() { "as it is".to_owned() } else { format!("{step_takes:?}") };
    let (columns, ratio) = ([columns(0), columns(1)].join("   "), median(ratios));
    println!("{step_takes:>9} {num_sgd_iter:>7} {learner_queue_size:>6}   {columns}   ×{ratio:.2}");
}
