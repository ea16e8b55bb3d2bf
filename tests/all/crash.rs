//! Processes that are killed at any instant, also while they resume or save, and gone on until their run
//! ends. They are this test binary, called again for the same test.
//!
//! `PRONK_TEST_KILLS` says how many kills there are at least, over all kinds of runs: 20 by default.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pronk::config::{Admission, ObservationFilter};
use pronk::envs::{CartPole, Pendulum, TicTacToe};
use pronk::policy::{CandleNetwork, Encoder, NetworkSpec};
use pronk::prelude::*;
use pronk::trainer::TrainerBuilder;
use pronk::{
    Activation, AppoConfig, DeviceSpec, Gather, MultiAgentConfig, Network, PolicyError, PpoConfig, Resume, Rng,
};
use serde_json::Value;

use crate::deterministic::{deterministic, recurrent, without_times};
use crate::fixtures::with;
use crate::resume_exact::Forgetful;

/// Set in the process that is killed: its folder, and the kind of its run.
const FOLDER: &str = "PRONK_TEST_CRASH_FOLDER";
const KIND: &str = "PRONK_TEST_CRASH_KIND";

/// Iterations of a run.
const ALL: u64 = 40;

/// The kinds of runs; all but the last go on exactly.
const KINDS: [&str; 10] = [
    "two workers",
    "ring, passes",
    "lstm, groups in turn",
    "without threads, minibatches",
    "replay, stacks, broadcast_interval",
    "normalised",
    "several agents",
    "played again",
    "own network",
    FREE,
];
const FREE: &str = "free";

/// Starts or goes on with the run of a kind, in its folder.
fn start(kind: &str, folder: &Path) -> Trainer {
    fn build<A>(builder: TrainerBuilder<A>, folder: &Path) -> TrainerBuilder<A> {
        builder.checkpoints(folder.join("checkpoints")).resume(Resume::auto()).log_to(folder)
    }
    let of = |config| Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    let config = |workers, lag, change: fn(&mut TrainerConfig)| {
        with(deterministic(workers, lag), |config| {
            config.results.min_sample_timesteps_per_iteration = 200;
            change(config);
        })
    };
    let trainer = match kind {
        "two workers" => build(of(config(2, 1, |_| {})), folder).build(),
        "ring, passes" => build(
            of(config(3, 2, |config| {
                config.learner.minibatch_buffer_size = 2;
                config.learner.num_sgd_iter = 3;
            })),
            folder,
        )
        .build(),
        "lstm, groups in turn" => build(
            of(config(2, 2, |config| {
                config.algorithm = AppoConfig::default().into();
                config.workers.num_env_groups = 2;
                config.workers.gather = Gather::InTurn;
                recurrent(config);
            })),
            folder,
        )
        .build(),
        "without threads, minibatches" => build(
            of(config(0, 0, |config| {
                config.algorithm = PpoConfig::default().into();
                config.learner.num_sgd_iter = 2;
                config.learner.sgd_minibatch_size = std::num::NonZeroUsize::new(16);
            })),
            folder,
        )
        .build(),
        "replay, stacks, broadcast_interval" => build(
            of(config(2, 1, |config| {
                config.learner.num_multi_gpu_tower_stacks = 2;
                config.learner.broadcast_interval = 3;
                config.learner.replay_proportion = 0.6;
                config.learner.replay_buffer_num_slots = 20;
            })),
            folder,
        )
        .build(),
        "normalised" => {
            let config = config(2, 1, |config| {
                config.workers.observation_filter = ObservationFilter::MeanStdFilter;
                config.workers.normalize_rewards = true;
            });
            build(Trainer::builder(config).env(|_: &EnvContext| Pendulum::new()), folder).build()
        }
        "several agents" => {
            let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
            let builder = Trainer::builder(config(2, 1, |_| {}));
            build(builder.multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents), folder).build()
        }
        "played again" => {
            let config = config(2, 1, |config| config.workers.num_env_groups = 2);
            build(Trainer::builder(config).env(|_: &EnvContext| Forgetful::new()), folder).build()
        }
        "own network" => build(of(config(1, 1, |_| {})).network(own_network), folder).build(),
        _ => build(
            of(config(2, 1, |config| {
                config.learner.admission = Admission::Free;
                config.learner.minibatch_buffer_size = 2;
                config.learner.num_sgd_iter = 2;
                config.learner.replay_proportion = 0.6;
                config.learner.replay_buffer_num_slots = 20;
                config.results.min_time_s_per_iteration = 0.005;
            })),
            folder,
        )
        .build(),
    };
    trainer.unwrap()
}

pub(crate) fn own_network(env: &pronk::EnvSpec, device: DeviceSpec) -> Result<Box<dyn Network>, PolicyError> {
    let encoder = Encoder::Mlp { hidden: vec![8], activation: Activation::Relu };
    let spec = NetworkSpec { encoder, ..NetworkSpec::for_spaces(&env.observation, &env.action)? };
    Ok(Box::new(CandleNetwork::new(spec, device.open()?)?))
}

/// In the process that is killed: the run until its end.
fn is_child() -> bool {
    let (Some(folder), Ok(kind)) = (std::env::var_os(FOLDER), std::env::var(KIND)) else { return false };
    let trainer = start(&kind, Path::new(&folder));
    let run = trainer.run(StopWhen { iterations: Some(ALL), ..StopWhen::default() }).unwrap();
    assert!(run.ledger_closed() && run.checkpoint_failures.is_empty(), "{:?}", run.checkpoint_failures);
    println!("weights {}", run.weights_digest());
    true
}

/// Starts a process that plays a run.
fn spawn(kind: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been", "--nocapture"])
        .env(FOLDER, folder)
        .env(KIND, kind)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a process, and kills it after a time; `None` if it was killed, else the digest of the
/// weights.
fn wait(mut child: Child, kill_after: Option<Duration>) -> Option<String> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let (mut said, mut errors) = (String::new(), String::new());
            child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            assert!(status.success(), "{said}{errors}");
            return Some(said.lines().find_map(|line| line.split_once("weights ")).unwrap().1.to_owned());
        }
        if kill_after.is_some_and(|after| began.elapsed() >= after) {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::park_timeout(Duration::from_micros(500));
    }
}

/// The results that a run has logged, times and what resumes say aside.
fn results(folder: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(folder.join("results.jsonl")).unwrap();
    let result = |line: &str| {
        let mut result = without_times(serde_json::from_str(line).unwrap(), "");
        result.as_object_mut().unwrap().retain(|key, _| key != "checkpoint" && key != "resume");
        result
    };
    lines.lines().map(result).collect()
}

/// What the next process has to say of the run: how many env-steps are rewound. `None` without a checkpoint.
fn rewound(folder: &Path) -> Option<u64> {
    let dir = folder.join("checkpoints");
    // A kill during the first save may leave the second name only.
    let names = ["manifest.json", "manifest-000001.json"];
    let manifest = names.iter().find_map(|name| std::fs::read(dir.join(name)).ok())?;
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let saved = manifest["run"]["summary"]["env_steps"].as_u64().unwrap();
    let progress = std::fs::read_to_string(dir.join("PROGRESS")).unwrap_or_default();
    let come_to: u64 = progress.split_whitespace().nth(1).map_or(0, |steps| steps.parse().unwrap());
    Some(come_to.saturating_sub(saved))
}

/// The last line of the results of a free run, as it is.
fn last_result(folder: &Path) -> Value {
    let lines = std::fs::read_to_string(folder.join("results.jsonl")).unwrap();
    serde_json::from_str(lines.lines().last().unwrap()).unwrap()
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been() {
    if is_child() {
        return;
    }
    let n_kills: u64 = std::env::var("PRONK_TEST_KILLS").map_or(20, |text| text.parse().unwrap());
    let kills_of_a_run = n_kills.div_ceil(KINDS.len() as u64);
    let mut total = 0;
    for (number, kind) in (0..).zip(KINDS) {
        let mut rng = Rng::stream(0xC4A5, &[number]);
        let whole = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let weights = wait(spawn(kind, whole.path()), None).unwrap();
        let took = began.elapsed();

        let folder = tempfile::tempdir().unwrap();
        let (mut kills, mut tries) = (0, 0);
        let mut expected = None;
        let end = loop {
            // Half of them soon after the start, in the middle of resuming.
            let share = if rng.below(2) == 0 { 0.3 } else { 1.0 };
            let kill_after = took.mul_f64(share * rng.next_f64());
            tries += 1;
            expected = rewound(folder.path()).or(expected);
            match wait(spawn(kind, folder.path()), (kills < kills_of_a_run).then_some(kill_after)) {
                Some(weights) if kills >= kills_of_a_run => break weights,
                // It has ended before it was to be killed: once more from the beginning.
                Some(_) => {
                    std::fs::remove_dir_all(folder.path()).unwrap();
                    assert!(tries < 20 * n_kills, "{kind} is never killed");
                }
                None => kills += 1,
            }
        };
        total += kills;
        println!(
            "{kind}: {kills} kills in {tries} processes; a whole run takes {took:.1?}, these {:.1?}",
            began.elapsed() - took
        );
        let (one, other) = (results(whole.path()), results(folder.path()));
        let numbers: Vec<_> = other.iter().map(|result| result["training_iteration"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=ALL).collect::<Vec<_>>(), "{kind}: without gap or repeat");
        if kind == FREE {
            let steps: Vec<_> = other.iter().map(|result| result["num_env_steps_sampled"].as_u64().unwrap()).collect();
            assert!(steps.is_sorted(), "{steps:?}");
            let last = last_result(folder.path());
            assert_eq!(last["resume"]["rewound_env_steps"].as_u64(), expected, "{kind}");
            continue;
        }
        for (n, (one, other)) in one.iter().zip(&other).enumerate() {
            for (key, value) in one.as_object().unwrap() {
                assert_eq!(Some(value), other.get(key), "{kind}: `{key}` of result {} after {kills} kills", n + 1);
            }
        }
        assert_eq!((one.len(), weights), (other.len(), end), "{kind}");
    }
    println!("{total} kills over {} kinds of runs", KINDS.len());
}
