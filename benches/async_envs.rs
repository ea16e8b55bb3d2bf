//! Ten thousand asynchronous environments in one process: steps per second against the bound of their
//! latency, and memory per environment.
//!
//! ```text
//! cargo bench --bench async_envs
//! ```
//!
//! Every step only waits for 50 ms, like a request to a server, so `n` environments make at most `20 n` steps
//! a second. One worker acts for all of them with an MLP 4-64-64 and stores every step. The first figure is
//! for as many bare tokio tasks that only sleep 50 ms repeatedly (timers fire a little late), the second for
//! the worker alone, the third for a run of the trainer that learns from the steps.
//!
//! Memory per environment is the growth of the process from before the worker is built to after its last
//! fragment, divided by their number. It includes the fragment's steps.
//!
//! Ten thousand on two cores, four runs in a quiet hour; on a busy machine, worker and run fall to 86 %:
//!
//! ```text
//! sleeping tasks     96.0  96.5  96.6  96.3 %
//! worker alone       94.3  93.8  95.5  94.9 %
//! run                92.8  95.1  95.2  95.4 %
//! memory each         4.3   4.3   4.2   4.5 KiB
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pronk::buffer::{Pool, Versioned, shutdown};
use pronk::envs::CartPole;
use pronk::metrics::{ByPolicy, StateClock, StepLedger, default_policy};
use pronk::policy::{Activation, CpuNetwork, Encoder, GaussianConfig, NetworkSpec};
use pronk::prelude::*;
use pronk::rollout::{
    GatheringWorkerConfig, NormalizerConfig, RestartPolicy, RolloutWorker, WorkerConfig, WorkerLinks, WorkerState,
};
use pronk::{AsyncEnv, AsyncEnvs, Gather};

const LATENCY: Duration = Duration::from_millis(50);
/// Steps of a fragment's columns.
const STEPS: usize = 8;

/// CartPole on a slow server.
struct Remote(CartPole);

impl AsyncEnv for Remote {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        tokio::time::sleep(LATENCY).await;
        self.0.step(action, obs)
    }
}

fn remote() -> AsyncEnvs<impl Fn(EnvContext) -> std::future::Ready<Remote> + Send + Sync + 'static> {
    AsyncEnvs::new(|_: EnvContext| std::future::ready(Remote(CartPole::new())))
}

fn main() {
    // Under `cargo test --benches` one round suffices to show that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (numbers, time) = match is_bench {
        true => (&[1_000, 10_000][..], Duration::from_secs(10)),
        false => (&[100][..], Duration::from_millis(300)),
    };
    println!("{LATENCY:?} a step, for {time:?} each\n");
    println!(
        "{:>12} {:>8}{:>18}{:>18}{:>18}{:>14}",
        "environments", "ideal", "sleeping tasks", "worker alone", "run", "memory each"
    );
    for &n_envs in numbers {
        let ideal = n_envs as f64 / LATENCY.as_secs_f64();
        let bare = sleep(n_envs, time);
        let (alone, bytes) = sample(n_envs, time);
        let run = run(n_envs, time);
        let share = |rate: f64| format!("{rate:.0} ({:.1} %)", 100.0 * rate / ideal);
        let memory = bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} KiB", bytes / 1024.0 / n_envs as f64));
        println!("{n_envs:>12} {ideal:>8.0}{:>18}{:>18}{:>18}{memory:>14}", share(bare), share(alone), share(run));
    }
}

/// Sleeps per second of tasks that do nothing else.
fn sleep(n_tasks: usize, time: Duration) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sleeps = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    runtime.block_on(async {
        for _ in 0..n_tasks {
            let sleeps = Arc::clone(&sleeps);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(LATENCY).await;
                    sleeps.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        tokio::time::sleep(time).await;
    });
    sleeps.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Steps per second of a worker alone, and the growth of the process in bytes.
fn sample(n_envs: usize, time: Duration) -> (f64, Option<f64>) {
    let before = resident_bytes();
    let spec = CartPole::new().spec();
    let network = NetworkSpec {
        encoder: Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Tanh },
        ..NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap()
    };
    let weights = ByPolicy::from([(default_policy(), network.init_params(1).unwrap())]);
    let weights = Versioned::new(0, weights);
    let (_guard, token) = shutdown();
    let config = GatheringWorkerConfig {
        worker: WorkerConfig {
            worker: 1,
            incarnation: 0,
            seed: 1,
            num_envs_per_worker: NonZeroUsize::new(n_envs).unwrap(),
            rollout_fragment_length: NonZeroUsize::new(STEPS).unwrap(),
            gaussian: GaussianConfig::default(),
            normalize: NormalizerConfig::default(),
        },
        num_env_groups: NonZeroUsize::MIN,
        gather: Gather::AtLeast(NonZeroUsize::MIN),
        env_hang_timeout: Some(Duration::from_secs(120)),
        restart: RestartPolicy::default(),
        waits_for_restarts: false,
    };
    let links = WorkerLinks::new(Pool::new(2), StepLedger::new(), token);
    let network = Box::new(CpuNetwork::new(&network).unwrap());
    let mut worker = RolloutWorker::gathering(config, Arc::new(remote()), network, links).unwrap();
    let mut clock = StateClock::new("rollout-1", WorkerState::Starting);
    // The first fragment includes the start of all environments.
    drop(worker.sample(&weights, &mut clock).unwrap());
    let (began, mut steps) = (Instant::now(), 0);
    while began.elapsed() < time {
        steps += worker.sample(&weights, &mut clock).unwrap().env_steps();
    }
    let rate = steps as f64 / began.elapsed().as_secs_f64();
    (rate, before.zip(resident_bytes()).map(|(before, after)| after - before))
}

/// Steps per second of a run that learns.
fn run(n_envs: usize, time: Duration) -> f64 {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 1;
    config.workers.num_envs_per_worker = n_envs;
    config.workers.rollout_fragment_length = STEPS;
    config.learner.train_batch_size = n_envs * STEPS;
    config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
    config.model.fcnet_hiddens = vec![64, 64];
    config.results.min_time_s_per_iteration = 0.1;
    let mut trainer = Trainer::new(config, remote()).unwrap();
    // The first result includes the start of all environments.
    let first = trainer.next().unwrap().unwrap();
    let (began, before) = (Instant::now(), first.env_steps_sampled);
    let last = trainer.by_ref().map(Result::unwrap).find(|_| began.elapsed() >= time).unwrap();
    (last.env_steps_sampled - before) as f64 / began.elapsed().as_secs_f64()
}

/// Memory of the process, if the system reports it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0)
}
