//! The page as a browser meets it: what it serves of runs that train and of folders, and to whom.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod files;
mod folders;
mod http;
mod large;
mod live;
mod sweeps;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::prelude::*;
use serde_json::{Value, json};

/// A trainer that has a result about every hundredth of a second.
fn trainer() -> Trainer {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 1;
    config.workers.num_envs_per_worker = 4;
    config.workers.rollout_fragment_length = 20;
    config.learner.train_batch_size = 80;
    config.learner.num_learner_threads = Some(std::num::NonZeroUsize::MIN);
    config.model.fcnet_hiddens = vec![8];
    config.results.min_time_s_per_iteration = 0.01;
    Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap()
}

fn iterations(n: u64) -> StopWhen {
    StopWhen { iterations: Some(n), ..StopWhen::default() }
}

/// A result as a trainer has it, in few words.
fn result(iteration: u64) -> String {
    json!({
        "training_iteration": iteration,
        "num_env_steps_sampled": 1000 * iteration,
        "time_total_s": 0.5 * iteration as f64,
        "episode_return_mean": (iteration as f64).sqrt(),
        "evaluation": {"made": 1, "at_env_steps": 1000, "episode_reward_mean": 7.0, "best": {"episode_reward_mean": 7.5}},
    })
    .to_string()
        + "\n"
}

fn results(iterations: impl IntoIterator<Item = u64>) -> String {
    iterations.into_iter().map(result).collect()
}

/// Makes the folder of a run that has ended, with so many results.
fn make_run(folder: &Path, seed: u64, n: u64) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let config = format!(
        "env = \"CartPole-v1\"\nseed = {seed}\n[algorithm.impala]\n[learner]\nlr = 0.001\ngrad_clip = \"none\"\n"
    );
    fs::write(folder.join("config.toml"), config).unwrap();
    fs::write(folder.join("results.jsonl"), results(1..=n)).unwrap();
    let info = json!({"began": 1_700_000_000 + seed, "seed": seed, "outcome": {"reason": "EnvSteps", "failure": null}});
    fs::write(folder.join("run.json"), info.to_string()).unwrap();
    folder.canonicalize().unwrap()
}

/// Asks until there is an answer.
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + http::PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The list, once it has so many runs.
fn list_of(addr: std::net::SocketAddr, n: usize) -> Value {
    wait_for(&format!("{n} runs"), || {
        let list = http::json(addr, "/api/runs");
        (list["runs"].as_array().unwrap().len() == n).then_some(list)
    })
}

/// The run of the list with this name.
fn named(list: &Value, name: &str) -> Value {
    let runs = list["runs"].as_array().unwrap();
    runs.iter().find(|run| run["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}")).clone()
}

fn id(list: &Value, name: &str) -> String {
    named(list, name)["id"].as_str().unwrap().to_owned()
}
