//! Time from Ctrl-C to the end of the process, in every mode of a run, with healthy environments and with one
//! that hangs.
//!
//! ```text
//! cargo bench --bench stop_latency      # a minute; on Unix
//! ```
//!
//! Each case is a process: this program, started again. It is interrupted once it trains, or once the
//! environment hangs, and timed until it has ended. The bench fails if a process ends with another status
//! than 0, or 130 if its only thread is in an environment that hangs.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::future::pending;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pronk::config::InferencePlacement;
use pronk::envs::{CartPole, Rendezvous};
use pronk::prelude::*;
use pronk::{AsyncEnv, AsyncEnvs, Gather, MultiAgentConfig, ReportError, Reporter, ResultDict, StopReason};

const MODE: &str = "PRONK_BENCH_MODE";
const READY: &str = "ready";
const ROUNDS: usize = 5;

const MODES: &[Mode] = &[
    Mode { name: "threads", kind: Kind::Threads, hangs: false },
    Mode { name: "threads, one hangs", kind: Kind::Threads, hangs: true },
    Mode { name: "groups", kind: Kind::Groups, hangs: false },
    Mode { name: "groups, one hangs", kind: Kind::Groups, hangs: true },
    Mode { name: "shared inference", kind: Kind::SharedInference, hangs: false },
    Mode { name: "shared inference, one hangs", kind: Kind::SharedInference, hangs: true },
    Mode { name: "stacks", kind: Kind::Stacks, hangs: false },
    Mode { name: "stacks, one hangs", kind: Kind::Stacks, hangs: true },
    Mode { name: "tasks", kind: Kind::Tasks, hangs: false },
    Mode { name: "tasks, one hangs", kind: Kind::Tasks, hangs: true },
    Mode { name: "tasks, one blocks", kind: Kind::BlockingTasks, hangs: true },
    Mode { name: "several agents", kind: Kind::Agents, hangs: false },
    Mode { name: "without threads", kind: Kind::Inline, hangs: false },
    Mode { name: "without threads, one hangs", kind: Kind::Inline, hangs: true },
    Mode { name: "groups without threads, one hangs", kind: Kind::InlineGroups, hangs: true },
    Mode { name: "tasks without threads, one hangs", kind: Kind::InlineTasks, hangs: true },
];

struct Mode {
    name: &'static str,
    kind: Kind,
    hangs: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Threads,
    Groups,
    SharedInference,
    Stacks,
    Tasks,
    BlockingTasks,
    Agents,
    Inline,
    InlineGroups,
    InlineTasks,
}

/// CartPole of which environment 1 of every worker hangs in its tenth step, if any does.
struct Hanging {
    inner: CartPole,
    hangs: bool,
    blocks: bool,
    steps: u32,
}

impl Hanging {
    fn new(context: &EnvContext, hangs: bool, blocks: bool) -> Self {
        Self { inner: CartPole::new(), hangs: hangs && context.index == 1, blocks, steps: 0 }
    }

    fn is_to_hang(&mut self) -> bool {
        self.steps += 1;
        if self.hangs && self.steps == 10 {
            println!("{READY}");
        }
        self.hangs && self.steps == 10
    }
}

#[allow(clippy::disallowed_methods)] // nothing is to end this
fn hang() {
    std::thread::sleep(Duration::from_secs(3600));
}

impl Env for Hanging {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        if self.is_to_hang() {
            hang();
        }
        self.inner.step(action, obs)
    }
}

impl AsyncEnv for Hanging {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        match (self.is_to_hang(), self.blocks) {
            (true, true) => hang(),
            (true, false) => pending().await,
            (false, _) => {}
        }
        self.inner.step(action, obs)
    }
}

/// Announces the first result.
struct Herald;

impl Reporter for Herald {
    fn name(&self) -> &str {
        "herald"
    }

    fn report(&mut self, _result: &ResultDict) -> Result<(), ReportError> {
        println!("{READY}");
        Ok(())
    }
}

fn main() {
    if let Ok(name) = std::env::var(MODE) {
        return play(MODES.iter().find(|mode| mode.name == name).unwrap());
    }
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    if !is_bench || !cfg!(unix) {
        return;
    }
    println!("from Ctrl-C to the end of the process, {ROUNDS} times each\n");
    println!("{:<36} {:>9} {:>9}", "", "median", "longest");
    for mode in MODES {
        let mut times: Vec<_> = (0..ROUNDS).map(|_| stop(mode)).collect();
        times.sort();
        let ms = |time: Duration| format!("{:.0} ms", 1e3 * time.as_secs_f64());
        println!("{:<36} {:>9} {:>9}", mode.name, ms(times[ROUNDS / 2]), ms(times[ROUNDS - 1]));
    }
}

/// Starts a process of that mode and interrupts it.
fn stop(mode: &Mode) -> Duration {
    let program = std::env::current_exe().unwrap();
    let mut run = Command::new(program).env(MODE, mode.name).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == READY), "{} never began", mode.name);
    if mode.hangs {
        // Wait until the others are blocked on it as well.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(Duration::from_millis(200));
    }
    let began = Instant::now();
    Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    let status = run.wait().unwrap();
    let took = began.elapsed();
    let expected = if mode.hangs && mode.kind == Kind::Inline { 130 } else { 0 };
    assert_eq!(status.code(), Some(expected), "{}", mode.name);
    took
}

/// A run that only Ctrl-C ends.
fn play(mode: &Mode) {
    let Mode { kind, hangs, .. } = *mode;
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 2;
    config.workers.num_envs_per_worker = 4;
    config.workers.rollout_fragment_length = 20;
    config.learner.train_batch_size = 160;
    config.supervision.env_hang_timeout = Some(Duration::from_secs(3600));
    config.model.fcnet_hiddens = vec![64, 64];
    // Only the report of the hang counts, not earlier results.
    config.results.min_time_s_per_iteration = if hangs { 3600.0 } else { 0.05 };
    if matches!(kind, Kind::Groups | Kind::InlineGroups) {
        config.workers.num_env_groups = 2;
    }
    match kind {
        Kind::SharedInference => config.workers.inference = InferencePlacement::Shared,
        Kind::Stacks => {
            config.learner.num_multi_gpu_tower_stacks = 2;
            config.learner.num_data_load_threads = 2;
        }
        Kind::Tasks => config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN),
        Kind::Inline | Kind::InlineTasks | Kind::InlineGroups => config.workers.num_rollout_workers = 0,
        Kind::Threads | Kind::Agents | Kind::Groups | Kind::BlockingTasks => {}
    }
    let blocks = kind == Kind::BlockingTasks;
    let tasks = AsyncEnvs::new(move |context: EnvContext| std::future::ready(Hanging::new(&context, hangs, blocks)));
    let threads = move |context: &EnvContext| Hanging::new(context, hangs, blocks);
    let mut trainer = match kind {
        Kind::Agents => Trainer::builder(config)
            .multi_agent_env(|_: &EnvContext| Rendezvous::new(), MultiAgentConfig::shared("all"))
            .build(),
        Kind::Tasks | Kind::BlockingTasks | Kind::InlineTasks => Trainer::new(config, tasks),
        _ => Trainer::new(config, threads),
    }
    .unwrap();
    if !hangs {
        trainer.add_reporter(Herald);
    }
    let run = trainer.run(StopWhen::default()).unwrap();
    assert!(run.reason == Some(StopReason::Interrupted) && run.ledger_closed(), "{}", run.summary());
}
