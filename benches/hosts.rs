//! Workers on other machines beside as many workers of the learner's own process, in the same minutes.
//!
//! ```text
//! cargo bench --features hosts-zenoh,env-process --bench hosts                      # all of it, half an hour
//! cargo bench --features hosts-zenoh --bench hosts -- "10 ms" "as it is"             # some environments
//! ```
//!
//! Every host is a process of its own with one worker, over TCP on the loopback; both sides have the same
//! settings but for where their workers are. Rates are of env-steps that were trained on, medians over pairs
//! of runs that take turns; the ratio is the median of those of the pairs, with the least and the greatest.
//! *Starved* is the share of the learner's time that it waited for fragments, *lag* how many publications old
//! the weights were that a step was sampled with, *bytes* those of fragments for each env-step.
//!
//! Environments that sleep leave the processors to the learner and to what carries fragments, as workers on
//! other machines would: these rows say what the network costs a run. Environments that compute share the
//! processors with them, so that rows with more threads than processors say only how the system divides
//! these among threads. The system lets a sleep of 100 µs take about 160.
//!
//! Pong needs the feature `env-process` and an interpreter with ale-py, `PRONK_PYTHON` or
//! `target/python/bin/python`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // A bench prints its result and may stop at the first surprise.

#[path = "../examples/cartpole/config.rs"]
mod cartpole;

use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::hosts::Terms;
use pronk::hosts_zenoh::{ZenohDial, ZenohListen};
use pronk::prelude::*;
use pronk::trainer::{OneAgent, TrainerBuilder};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Far more than anything takes here.
const LONG: Duration = Duration::from_secs(90);

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    /// CartPole with a step that is longer by so much.
    CartPole(Work),
    Pong,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    Asleep(Duration),
    Spinning(Duration),
}

/// By the names that the command line has for them.
const WORLDS: [(&str, World); 5] = [
    ("CartPole as it is", World::CartPole(Work::None)),
    ("10 µs of computing", World::CartPole(Work::Spinning(Duration::from_micros(10)))),
    ("100 µs of waiting", World::CartPole(Work::Asleep(Duration::from_micros(100)))),
    ("10 ms of waiting", World::CartPole(Work::Asleep(Duration::from_millis(10)))),
    ("Pong", World::Pong),
];

/// How long is measured.
struct Effort {
    workers: &'static [usize],
    pairs: usize,
    /// How long a run goes before it is measured, and how long it is measured.
    times: fn(World) -> [Duration; 2],
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, act, name, address, host] = &args[..]
        && act == "act"
    {
        return self::act(name, address, host);
    }
    // Under `cargo test --benches` one run of each side is enough to see that it works.
    let effort = match args.iter().any(|arg| arg == "--bench") {
        true => Effort {
            workers: &[1, 2, 4, 8],
            pairs: 3,
            times: |world| [if world == World::Pong { 5 } else { 2 }, 6].map(Duration::from_secs),
        },
        false => Effort { workers: &[1], pairs: 1, times: |_| [Duration::ZERO, Duration::from_millis(1)] },
    };
    let wanted: Vec<_> = args.iter().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("medians of {} pairs of runs\n", effort.pairs);
    println!(
        "{:<20} {:>7} {:>10} {:>10} {:>6} {:>15} {:>8} {:>8} {:>6} {:>6} {:>7}",
        "", "workers", "local/s", "hosts/s", "ratio", "(least to most)", "starved", "with", "lag", "with", "bytes"
    );
    for (name, world) in WORLDS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            continue;
        }
        if let Some(why) = missing(world) {
            println!("{name:<20} NOT CHECKED: {why}");
            continue;
        }
        for &workers in effort.workers {
            compare(name, world, workers, &effort);
        }
    }
}

fn compare(name: &str, world: World, workers: usize, effort: &Effort) {
    let times = (effort.times)(world);
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for _ in 0..effort.pairs {
        local.push(measure(start(world, config(world, workers)).build().unwrap(), workers, &[], times));
        let builder = start(world, config(world, 0));
        let trainer = builder.listen(ZenohListen::at("tcp/127.0.0.1:0"), Terms::default()).build().unwrap();
        let address = trainer.listens_at().unwrap();
        let hosts: Vec<_> = (0..workers).map(|number| Host::start(name, &address, number)).collect();
        remote.push(measure(trainer, workers, &hosts, times));
        hosts.into_iter().for_each(Host::join);
    }
    let mut ratios: Vec<_> = local.iter().zip(&remote).map(|(local, remote)| remote.rate / local.rate).collect();
    ratios.sort_by(f64::total_cmp);
    let of = |runs: &[Figures], figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
    println!(
        "{name:<20} {workers:>7} {:>10.0} {:>10.0} {:>6.2} {:>15} {:>7.0}% {:>7.0}% {:>6.1} {:>6.1} {:>7.0}",
        of(&local, |run| run.rate),
        of(&remote, |run| run.rate),
        ratios[ratios.len() / 2],
        format!("{:.2} – {:.2}", ratios[0], ratios[ratios.len() - 1]),
        100.0 * of(&local, |run| run.starved),
        100.0 * of(&remote, |run| run.starved),
        of(&local, |run| run.lag),
        of(&remote, |run| run.lag),
        of(&remote, |run| run.bytes),
    );
}

/// What one run was like.
struct Figures {
    /// Env-steps that were trained on in a second.
    rate: f64,
    starved: f64,
    lag: f64,
    /// Of fragments, for each env-step.
    bytes: f64,
}

/// Lets a run go until all its workers are there and warm, and then measures it.
fn measure(mut trainer: Trainer, workers: usize, hosts: &[Host], [warm, time]: [Duration; 2]) -> Figures {
    let built = Instant::now();
    let (mut complete, mut first): (_, Option<(Instant, u64, [f64; 2])>) = (None, None);
    let (mut starved, mut lags) = (Vec::new(), Vec::new());
    let figures = loop {
        let result = trainer.by_ref().next().expect("a run without a limit").unwrap();
        let (now, dict, trained) = (Instant::now(), &result.dict, result.env_steps_trained_once);
        let of_host = |host: &Host, figure: &str| dict.number(&format!("hosts.by_name.{}.{figure}", host.name));
        if complete.is_none() {
            assert!(built.elapsed() < LONG, "not all of {workers} workers have sampled within {LONG:?}");
            let is_positive = |figure: Option<f64>| figure.is_some_and(|figure| figure > 0.0);
            let all_act = match hosts {
                [] => (1..=workers)
                    .all(|worker| is_positive(dict.number(&format!("ledger.time.rollout-{worker}.states.stepping")))),
                hosts => hosts.iter().all(|host| is_positive(of_host(host, "fragments"))),
            };
            complete = (trained > 0 && all_act).then_some(now);
        }
        if complete.is_none_or(|at| now - at < warm) {
            continue;
        }
        // Differences, since as many fragments wait for the inqueue at the start as at the end.
        let sent = ["bytes", "env_steps"].map(|figure| hosts.iter().filter_map(|host| of_host(host, figure)).sum());
        let Some((from, before, sent_before)) = first else {
            first = Some((now, trained, sent));
            continue;
        };
        starved.extend(dict.number("ledger.time_this_iter.learner.starved"));
        lags.extend(dict.number("policy_lag.mean"));
        if now - from >= time {
            break Figures {
                rate: (trained - before) as f64 / (now - from).as_secs_f64(),
                starved: mean(&starved),
                lag: mean(&lags),
                bytes: (sent[0] - sent_before[0]) / (sent[1] - sent_before[1]),
            };
        }
    };
    let run = trainer.finish().unwrap();
    assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
    figures
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A process that acts with one worker.
struct Host {
    name: String,
    process: Child,
}

impl Host {
    fn start(world: &str, address: &str, number: usize) -> Self {
        let name = format!("host-{number}");
        let mut start = Command::new(std::env::current_exe().unwrap());
        start.args(["act", world, address, &name]).stdin(Stdio::null()).stdout(Stdio::null());
        Self { name, process: start.spawn().unwrap() }
    }

    /// Waits until it has ended by itself, because its run has.
    fn join(mut self) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < LONG, "{} acts although its run has ended", self.name);
            std::thread::park_timeout(Duration::from_millis(5));
        };
        assert!(status.success(), "{} ended with {status}", self.name);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It has ended, unless the bench panics.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program of a host.
fn act(world: &str, address: &str, name: &str) {
    let (_, world) = WORLDS.into_iter().find(|(known, _)| *known == world).expect("a name that the bench gave");
    let host = start(world, TrainerConfig::default()).connect(ZenohDial::to(address).name(name));
    host.workers(1).patience(LONG).run().unwrap();
}

/// What both ends build.
fn start(world: World, config: TrainerConfig) -> TrainerBuilder<OneAgent> {
    match world {
        World::CartPole(work) => {
            Trainer::builder(config).env(move |_: &EnvContext| Slow { env: CartPole::new(), work })
        }
        #[cfg(feature = "env-process")]
        World::Pong => Trainer::builder(config).env(pong::envs()),
        #[cfg(not(feature = "env-process"))]
        World::Pong => unreachable!("`missing` says so"),
    }
}

/// Settings by which the environment would be trained.
fn config(world: World, workers: usize) -> TrainerConfig {
    let mut config = match world {
        World::CartPole(Work::None) => cartpole::config(workers, 32),
        World::CartPole(Work::Spinning(_)) => cartpole::config(workers, 16),
        // Environments of a worker wait one after the other: few, and short fragments where steps take long.
        World::CartPole(Work::Asleep(time)) => {
            let mut config = cartpole::config(workers, 4);
            if time > Duration::from_millis(1) {
                config.workers.num_envs_per_worker = 2;
                config.workers.rollout_fragment_length = 10;
            }
            config
        }
        World::Pong => {
            let mut config = cartpole::config(workers, 16);
            config.workers.rollout_fragment_length = 32;
            config.model = TrainerConfig::default().model;
            config.learner.lr = 0.000_25;
            config
        }
    };
    let fragment = config.workers.rollout_fragment_length * config.workers.num_envs_per_worker;
    config.learner.train_batch_size = fragment;
    // Both sides alike: with workers of its own, a learner would have fewer threads.
    config.learner.num_learner_threads = Some(NonZeroUsize::MIN);
    config.learner.learner_queue_timeout = Duration::from_secs(2);
    config.results.min_time_s_per_iteration = 1.0;
    config
}

/// An environment whose step takes longer.
struct Slow<E> {
    env: E,
    work: Work,
}

impl<E: Env> Env for Slow<E> {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        match self.work {
            Work::None => {}
            // A simulator elsewhere, which nothing can wake either.
            #[allow(clippy::disallowed_methods)]
            Work::Asleep(time) => std::thread::sleep(time),
            Work::Spinning(time) => {
                let began = Instant::now();
                while began.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
        }
        self.env.step(action, obs)
    }
}

/// Why an environment cannot be measured here.
fn missing(world: World) -> Option<String> {
    match world {
        World::CartPole(_) => None,
        #[cfg(feature = "env-process")]
        World::Pong => pong::missing(),
        #[cfg(not(feature = "env-process"))]
        World::Pong => Some("it needs the feature `env-process`".to_owned()),
    }
}

#[cfg(feature = "env-process")]
mod pong {
    use std::path::PathBuf;

    use pronk::env_process::{AtariVector, ChildOutput, ProcessEnvs};

    /// Preprocessed by ale-py's vectoriser, all environments of a worker in one process.
    pub(super) fn envs() -> ProcessEnvs {
        let program = AtariVector { python: python(), ..AtariVector::new("pong") };
        ProcessEnvs {
            envs_per_process: 16,
            clip_rewards: Some(1.0),
            output: ChildOutput::Hidden,
            ..ProcessEnvs::new(program)
        }
    }

    pub(super) fn missing() -> Option<String> {
        let python = python();
        (!python.exists()).then(|| format!("there is no `{}`: see `cargo xtask gymnasium`", python.display()))
    }

    fn python() -> PathBuf {
        let installed = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
        std::env::var_os("PRONK_PYTHON").map_or_else(installed, PathBuf::from)
    }
}
