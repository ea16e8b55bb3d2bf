//! How runs grow: from one worker with one environment to 64 workers with 4,096 each, for environments that
//! compute for 1 µs, that compute for 100 µs, and that wait for 10 ms.
//!
//! ```text
//! cargo bench --bench scale                                # all cases, as a table
//! cargo bench --bench scale -- --case computes-100us 4 256 # one of them
//! ```
//!
//! Each case is a run in a process of its own, so that memory is that of the case. Memory per environment is
//! the growth of the process since it began, divided by its environments. A case is left out if two fragments
//! of every worker would take longer than [`LONGEST`].

#![allow(clippy::print_stdout)] // A bench prints its result.

use std::hint::spin_loop;
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pronk::bottleneck::Advice;
use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{AsyncEnv, AsyncEnvs, Gather, TrainResult};

/// Steps of a fragment's columns.
const STEPS: usize = 8;
/// A case is measured at least and at most for so long.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
const WORKERS: [usize; 4] = [1, 4, 16, 64];
const ENVS: [usize; 4] = [1, 16, 256, 4096];
const KINDS: [Kind; 3] = [
    Kind { name: "computes-1us", step: Duration::from_micros(1), waits: false },
    Kind { name: "computes-100us", step: Duration::from_micros(100), waits: false },
    Kind { name: "waits-10ms", step: Duration::from_millis(10), waits: true },
];

const HEADS: [&str; 11] = [
    "a step",
    "workers",
    "environments each",
    "env-steps/s",
    "lag",
    "threads",
    "memory, MiB",
    "per environment, KiB",
    "start, s",
    "stop, s",
    "limit, advice and its predicted effect",
];

/// What a step of an environment costs.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    step: Duration,
    /// As behind a network, instead of computing.
    waits: bool,
}

/// CartPole whose steps keep a processor busy for so long.
struct Computing(CartPole, Duration);

impl Env for Computing {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let began = Instant::now();
        let step = self.0.step(action, obs);
        while began.elapsed() < self.1 {
            spin_loop();
        }
        step
    }
}

/// CartPole whose steps wait for so long.
struct Waiting(CartPole, Duration);

impl AsyncEnv for Waiting {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        tokio::time::sleep(self.1).await;
        self.0.step(action, obs)
    }
}

impl Kind {
    fn trainer(self, workers: usize, envs: usize) -> Result<Trainer> {
        let mut config = TrainerConfig::default();
        config.workers.num_rollout_workers = workers;
        config.workers.num_envs_per_worker = envs;
        config.workers.rollout_fragment_length = STEPS;
        config.learner.train_batch_size = envs * STEPS;
        config.model.fcnet_hiddens = vec![32, 32];
        config.results.min_time_s_per_iteration = 0.25;
        let step = self.step;
        if self.waits {
            config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
            let make = move |_: EnvContext| std::future::ready(Waiting(CartPole::new(), step));
            return Ok(Trainer::new(config, AsyncEnvs::new(make))?);
        }
        Ok(Trainer::new(config, move |_: &EnvContext| Computing(CartPole::new(), step))?)
    }

    /// Two fragments of every worker, if nothing but the environments took time.
    fn two_rounds(self, workers: usize, envs: usize) -> Duration {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let alone = 2 * STEPS as u32 * self.step;
        if self.waits { alone } else { alone * (workers * envs) as u32 / cores.min(workers) as u32 }
    }
}

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--case") {
        let [Some(kind), Some(workers), Some(envs)] = [1, 2, 3].map(|i| args.get(at + i)) else {
            bail!("--case needs a kind of environment, workers, and environments of each");
        };
        let Some(kind) = KINDS.into_iter().find(|known| known.name == kind) else {
            bail!("there is no `{kind}`; there are {}", KINDS.map(|kind| kind.name).join(", "));
        };
        let number = |text: &str| text.parse::<u16>().with_context(|| format!("`{text}` must be a number below 65536"));
        println!("{}", measure(kind, number(workers)?.into(), number(envs)?.into())?);
        return Ok(());
    }
    // Under `cargo test --benches` one case suffices to show that it runs.
    let is_bench = args.iter().any(|arg| arg == "--bench");
    let (workers, envs) = if is_bench { (&WORKERS[..], &ENVS[..]) } else { (&WORKERS[1..2], &ENVS[1..2]) };
    println!("| {} |\n{}|", HEADS.join(" | "), "|---".repeat(HEADS.len()));
    for kind in KINDS {
        for &workers in workers {
            for &envs in envs {
                println!("| {} | {workers} | {envs} | {}", kind.name.replace('-', " "), case(kind, workers, envs)?);
            }
        }
    }
    Ok(())
}

/// A row, measured in a process of its own.
fn case(kind: Kind, workers: usize, envs: usize) -> Result<String> {
    let needed = kind.two_rounds(workers, envs);
    if needed > LONGEST {
        return Ok(format!("left out: two fragments of every worker need {:.0} s |", needed.as_secs_f64()));
    }
    let (workers, envs) = (workers.to_string(), envs.to_string());
    let run = Command::new(std::env::current_exe()?).args(["--case", kind.name, &workers, &envs]).output()?;
    if !run.status.success() {
        let error = String::from_utf8_lossy(&run.stderr);
        return Ok(format!("failed: {} |", error.lines().next().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&run.stdout).trim().to_owned())
}

fn measure(kind: Kind, workers: usize, envs: usize) -> Result<String> {
    let (before, began) = (status("VmRSS:"), Instant::now());
    let mut trainer = kind.trainer(workers, envs)?;
    let mut first = next(&mut trainer)?;
    while first.env_steps_trained_once == 0 {
        first = next(&mut trainer)?;
    }
    let started = began.elapsed();
    // Two fragments of every worker, since those of all of them may come at about the same time.
    let rounds = (2 * workers * envs * STEPS) as u64;
    let (measured, mut lag) = (Instant::now(), first.policy_lag);
    let trained = |result: &TrainResult| result.env_steps_trained_once - first.env_steps_trained_once;
    let last = loop {
        let result = next(&mut trainer)?;
        lag.add(result.policy_lag);
        let two_rounds = measured.elapsed() >= SHORTEST && trained(&result) >= rounds;
        if two_rounds || measured.elapsed() > LONGEST {
            break result;
        }
    };
    let steps = trained(&last);
    let rate = steps as f64 / (last.time_total - first.time_total).as_secs_f64();
    let memory = status("VmHWM:").unwrap_or(f64::NAN);
    let grown = before.map_or(f64::NAN, |before| memory - before) / (workers * envs) as f64;
    let (threads, stopped) = (status("Threads:").unwrap_or(f64::NAN), Instant::now());
    drop(trainer);
    let stopped = stopped.elapsed().as_secs_f64();
    let limit = match &last.bottleneck {
        None => "–".to_owned(),
        Some(found) => match found.advice {
            None => format!("{:?}", found.limit),
            Some(advice) => {
                let Advice { setting, from, to, speedup } = advice;
                format!("{:?}: `{setting}` {from} to {to} is ×{speedup:.1}", found.limit)
            }
        },
    };
    let lag = lag.mean().map_or("–".to_owned(), |mean| format!("{mean:.1}"));
    let (memory, started) = (memory / 1024.0, started.as_secs_f64());
    let memory = format!("{threads:.0} | {memory:.0} | {grown:.1}");
    Ok(format!("{rate:.0} | {lag} | {memory} | {started:.2} | {stopped:.2} | {limit} |"))
}

fn next(trainer: &mut Trainer) -> Result<TrainResult> {
    Ok(trainer.next().context("the run ended by itself")??)
}

/// A number of this process, sizes in KiB, if the system reports it.
fn status(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
