//! Environments in processes against the vector environments of Gymnasium and of ale-py, alternating in one
//! run.
//!
//! ```text
//! cargo bench --features env-process --bench processes                       # all of it, about four minutes
//! PRONK_PYTHON=venv/bin/python cargo bench --features env-process --bench processes -- Pong
//! ```
//!
//! The interpreter is `PRONK_PYTHON`, or `target/python/bin/python`, which `cargo xtask gymnasium` fills.
//! Every row has environment steps per second (medians of one-second turns) and their ratio. Both sides make
//! environments in the same way, without Gymnasium's checker, and take random actions. `Pong` is the raw
//! game, a frame to a step; `Pong 84×84×4` is preprocessed, four frames to a step, and so is `Pong by
//! ale-py`, by its vectoriser in our processes. Processes are of one worker, which waits for all of them in
//! every step, or of one each.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // A bench prints its result and may stop at the first surprise.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pronk::buffer::{FinalObs, ObsColumn, ObsKind};
use pronk::env_process::{AtariVector, ChildOutput, Gymnasium, ProcessEnvs, Program};
use pronk::policy::{ObsDtype, Rng};
use pronk::rollout::{CallMonitor, VectorContext, VectorEnv, VectorStep};
use pronk::{ActionRef, End, EnvFactory, Space};
use serde_json::json;

const TURN: Duration = Duration::from_secs(1);
const TURNS: usize = 7;

/// One comparison: name, our environments, and theirs with arguments.
struct Row {
    name: &'static str,
    ours: ProcessEnvs,
    n_workers: usize,
    /// Of each worker.
    n_envs: usize,
    theirs: [&'static str; 4],
}

fn main() {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("environment steps per second, medians of {TURNS} turns of {} s each\n", TURN.as_secs());
    println!("{:<15} {:<22} {:>9}   {:<22} {:>9} {:>7}", "", "processes", "", "theirs", "", "ratio");
    for Row { name, ours, n_workers, n_envs, theirs } in rows() {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            continue;
        }
        let alone = if n_workers == 1 { "" } else { ", a worker each" };
        let spread = format!("{} × {}{alone}", n_workers * n_envs / ours.envs_per_process, ours.envs_per_process);
        let mut workers: Vec<_> = (0..n_workers).map(|_| Ours::new(&ours, n_envs)).collect();
        let mut peer = Peer::start(theirs);
        let mut speeds = [Vec::new(), Vec::new()];
        for turn in 0..=TURNS {
            let speed = [together(&mut workers), peer.steps_per_second()];
            // The first is a warm-up.
            if turn > 0 {
                speeds.iter_mut().zip(speed).for_each(|(speeds, speed)| speeds.push(speed));
            }
        }
        let [ours, peer] = speeds.map(median);
        let [kind, _, n, _] = theirs;
        println!(
            "{name:<15} {spread:<22} {ours:>9.0}   {:<22} {peer:>9.0} {:>7.2}",
            format!("{kind} {n}"),
            ours / peer
        );
    }
}

fn rows() -> Vec<Row> {
    let row = |name, program: Program, processes, each, theirs| Row {
        name,
        ours: ProcessEnvs { envs_per_process: each, output: ChildOutput::Hidden, ..ProcessEnvs::new(program) },
        n_workers: 1,
        n_envs: processes * each,
        theirs,
    };
    // No process waits for another.
    let apart =
        |row: Row| Row { n_workers: row.n_envs / row.ours.envs_per_process, n_envs: row.ours.envs_per_process, ..row };
    let cartpole = || Gymnasium { python: python(), ..Gymnasium::new("CartPole-v1") }.into();
    let raw = || {
        let kwargs = [("frameskip".to_owned(), json!(1)), ("repeat_action_probability".to_owned(), json!(0.0))];
        Gymnasium { python: python(), kwargs: kwargs.into_iter().collect(), ..Gymnasium::new("ALE/Pong-v5") }.into()
    };
    let pong = || Gymnasium { python: python(), ..Gymnasium::atari("Pong") }.into();
    let vectoriser = || AtariVector { python: python(), ..AtariVector::new("pong") }.into();
    vec![
        row("CartPole-v1", cartpole(), 2, 8, ["async", "CartPole-v1", "8", ""]),
        apart(row("CartPole-v1", cartpole(), 2, 8, ["async", "CartPole-v1", "8", ""])),
        row("CartPole-v1", cartpole(), 2, 8, ["async", "CartPole-v1", "16", ""]),
        row("CartPole-v1", cartpole(), 2, 4, ["async", "CartPole-v1", "8", ""]),
        row("CartPole-v1", cartpole(), 1, 8, ["sync", "CartPole-v1", "8", ""]),
        row("Pong", raw(), 2, 1, ["async", "ALE/Pong-v5", "2", ""]),
        row("Pong", raw(), 2, 8, ["async", "ALE/Pong-v5", "16", ""]),
        row("Pong 84×84×4", pong(), 2, 1, ["async", "ALE/Pong-v5", "2", "preprocessed"]),
        row("Pong 84×84×4", pong(), 2, 8, ["async", "ALE/Pong-v5", "16", "preprocessed"]),
        apart(row("Pong 84×84×4", pong(), 2, 8, ["async", "ALE/Pong-v5", "16", "preprocessed"])),
        row("Pong 84×84×4", pong(), 2, 8, ["ale", "pong", "16", ""]),
        row("Pong by ale-py", vectoriser(), 2, 8, ["ale", "pong", "16", ""]),
        apart(row("Pong by ale-py", vectoriser(), 2, 8, ["ale", "pong", "16", ""])),
    ]
}

fn python() -> PathBuf {
    let installed = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    std::env::var_os("PRONK_PYTHON").map_or_else(installed, PathBuf::from)
}

fn median(mut speeds: Vec<f64>) -> f64 {
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

/// Steps per second of all workers, each on its own thread.
fn together(workers: &mut [Ours]) -> f64 {
    thread::scope(|scope| {
        let started = workers.iter_mut().map(|worker| {
            thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, || worker.steps_per_second()).unwrap()
        });
        started.collect::<Vec<_>>().into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

/// Environments of pronk, with buffers for their steps.
struct Ours {
    envs: Box<dyn VectorEnv>,
    obs: ObsColumn,
    rewards: Vec<f32>,
    ends: Vec<End>,
    final_obs: FinalObs,
    actions: Vec<Vec<u32>>,
}

impl Ours {
    fn new(factory: &ProcessEnvs, n_envs: usize) -> Self {
        let context = VectorContext { worker: 1, ..VectorContext::default() };
        let mut envs = factory.make_vector(&context, n_envs, &CallMonitor::new()).unwrap();
        let Space::Discrete { n } = envs.spec().action else { panic!("actions are numbers") };
        let obs_len = envs.spec().observation.obs_len();
        let (mut obs, kind) = match envs.spec().observation.obs_dtype() {
            ObsDtype::F32 => (ObsColumn::F32(vec![0.0; n_envs * obs_len]), ObsKind::F32),
            ObsDtype::U8 => (ObsColumn::U8(vec![0; n_envs * obs_len]), ObsKind::U8),
        };
        envs.reset_all(obs.view_mut().into()).unwrap();
        let mut rng = Rng::seed_from(0);
        let actions = (0..64).map(|_| (0..n_envs).map(|_| rng.below(n as u64) as u32).collect()).collect();
        let (rewards, ends) = (vec![0.0; n_envs], vec![End::No; n_envs]);
        Self { envs, obs, rewards, ends, final_obs: FinalObs::new(kind, obs_len), actions }
    }

    fn steps_per_second(&mut self) -> f64 {
        let Self { envs, obs, rewards, ends, final_obs, actions } = self;
        let (began, mut rounds) = (Instant::now(), 0);
        while began.elapsed() < TURN {
            let step = VectorStep { t: 0, obs: obs.view_mut().into(), rewards, ends, final_obs };
            envs.step(ActionRef::Discrete(&actions[rounds % actions.len()]), step).unwrap();
            final_obs.clear();
            rounds += 1;
        }
        (rounds * rewards.len()) as f64 / began.elapsed().as_secs_f64()
    }
}

/// Their vector environment, in a process that steps it for a requested time.
struct Peer {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(arguments: [&str; 4]) -> Self {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/peers/vector_envs.py");
        let mut start = Command::new(python());
        start.arg(script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = start.spawn().unwrap();
        let orders = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, orders, answers }
    }

    fn steps_per_second(&mut self) -> f64 {
        writeln!(self.orders.as_mut().unwrap(), "{}", TURN.as_secs_f64()).unwrap();
        // A simulator may print a banner first.
        let numbers = std::iter::repeat_with(|| {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the peer has ended");
            line.trim().parse().ok()
        });
        numbers.flatten().next().unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.orders = None;
        self.process.wait().unwrap();
    }
}
