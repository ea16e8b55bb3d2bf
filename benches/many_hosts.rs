//! CartPole learned by the workers of very many hosts, whose data is hundreds of updates old.
//!
//! ```text
//! cargo bench --bench many_hosts                 # 200 hosts, five seeds
//! cargo bench --bench many_hosts -- 1000 1 100   # 1,000 hosts whose workers take 100 ms a step, seed 1
//! ```
//!
//! All are in this process, each with a worker of its own, over a network of memory. The settings are those
//! of `configs/cartpole.toml`. A seed is learned if the mean return reaches 475 within 20 million env-steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // A bench prints its result and may stop at the first surprise.

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::thread;
use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::hosts::{MemoryNetwork, Terms};
use pronk::prelude::*;
use pronk::{ImpalaConfig, Schedule};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THRESHOLD: f64 = 475.0;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let is_bench = args.iter().any(|arg| arg == "--bench");
    let mut numbers = args.iter().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    // Under `cargo test --benches` a few hosts are enough to see that it runs.
    let n_hosts = numbers.next().unwrap_or(if is_bench { 200 } else { 2 });
    let seeds = numbers.next().unwrap_or(if is_bench { 5 } else { 1 });
    let wait = Duration::from_millis(numbers.next().unwrap_or(0));
    let env_steps = if is_bench { 20_000_000 } else { 20_000 };
    println!(
        "{:>4} {:>6} {:>10} {:>8} {:>8} {:>6} {:>8}",
        "seed", "return", "env-steps", "seconds", "lag", "ESS", "learned"
    );
    for seed in 1..=seeds {
        learn(n_hosts, seed, wait, env_steps);
    }
}

fn learn(n_hosts: u64, seed: u64, wait: Duration, env_steps: u64) {
    let network = MemoryNetwork::new();
    // One of a worker's environments waits for all.
    let slow = move |context: &EnvContext| Slow {
        env: CartPole::new(),
        wait: if context.index == 0 { wait } else { Duration::ZERO },
    };
    let builder = |config| Trainer::builder(config).env(slow);
    let terms = Terms { max_hosts: n_hosts as u32, ..Terms::default() };
    let mut trainer = builder(config(seed)).listen(network.listen(), terms).build().unwrap();
    let hosts: Vec<_> = (0..n_hosts)
        .map(|host| {
            let host = builder(TrainerConfig::default()).connect(network.dial(&format!("host-{host}"))).workers(1);
            thread::spawn(move || host.run())
        })
        .collect();
    let began = Instant::now();
    let (mut lags, mut sizes, mut learned) = (Vec::new(), Vec::new(), false);
    let last = loop {
        let result = trainer.by_ref().next().expect("a run without a limit").unwrap();
        lags.extend(result.policy_lag.mean());
        sizes.extend(result.effective_sample_size);
        learned |= result.enough_episodes && result.episode_return_mean.is_some_and(|mean| mean >= THRESHOLD);
        if learned || result.env_steps_sampled >= env_steps {
            break result;
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let run = trainer.finish().unwrap();
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
    println!(
        "{seed:>4} {:>6.1} {:>10} {seconds:>8.1} {:>8.1} {:>6.2} {learned:>8}",
        last.episode_return_mean.unwrap_or(f64::NAN),
        last.env_steps_sampled,
        mean(&lags),
        mean(&sizes),
    );
    for host in hosts {
        host.join().unwrap().unwrap();
    }
    assert!(run.ledger_closed(), "{:?}", run.steps);
}

fn config(seed: u64) -> TrainerConfig {
    let falling = |from, to| Schedule::piecewise_linear([(0.0, from), (5_000_000.0, to)]).unwrap();
    let mut config = TrainerConfig { seed, ..cartpole::config(0, 32) };
    config.learner.lr_schedule = Some(falling(0.001, 0.000_1));
    config.algorithm = ImpalaConfig { entropy_coeff: falling(0.01, 0.0), ..ImpalaConfig::default() }.into();
    config.learner.grad_clip = None;
    config
}

/// An environment that takes its time.
struct Slow {
    env: CartPole,
    wait: Duration,
}

impl Env for Slow {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    // A simulator elsewhere, which nothing can wake either.
    #[allow(clippy::disallowed_methods)]
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        if !self.wait.is_zero() {
            thread::sleep(self.wait);
        }
        self.env.step(action, obs)
    }
}
