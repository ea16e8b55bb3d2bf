//! The result dict has RLlib's keys, and pronk's own beside them.

use std::time::Duration;

use pronk::config::InferencePlacement;
use pronk::envs::CartPole;
use pronk::hosts::{MemoryNetwork, Terms};
use pronk::prelude::*;
use pronk::wrappers::{Chaos, ChaosConfig};
use pronk::{
    Every, ImpalaConfig, JsonLines, PpoConfig, Recording, ReportError, Reporter, ResultDict, Resume, StopReason,
};
use serde_json::Value;

use crate::deterministic::deterministic;
use crate::fixtures::{iterations, small};

/// The table of all keys.
const TABLE: &str = include_str!("../../docs/results.md");

/// One key of the table.
struct Documented {
    /// `<…>` stands for any key.
    path: &'static str,
    kind: &'static str,
    /// Whether it may be missing, because nothing happened that it would tell of.
    is_occasional: bool,
}

fn table() -> Vec<Documented> {
    let rows = TABLE.lines().filter(|line| line.starts_with("| `"));
    let keys = rows.flat_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "key, type, unit, meaning, source: {line}");
        assert!(cells[1..6].iter().all(|cell| !cell.is_empty()), "{line}");
        let is_occasional = cells[4].contains("absent") || cells[1].contains('<') || cells[1].contains("advice");
        let paths = cells[1].split(", ").map(|path| path.trim_matches('`'));
        paths.map(move |path| Documented { path, kind: cells[2], is_occasional }).collect::<Vec<_>>()
    });
    keys.collect()
}

/// Whether a path is what the table means; an empty object is what would hold documented keys.
fn matches(documented: &str, path: &[&str]) -> bool {
    let keys: Vec<&str> = documented.split('.').collect();
    keys.len() == path.len() && keys.iter().zip(path).all(|(key, given)| key == given || key.starts_with('<'))
}

fn is_of(kind: &str, value: &Value) -> bool {
    kind.split(" or ").any(|kind| match kind {
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "text" => value.is_string(),
        "null" => value.is_null(),
        "object" => value.is_object(),
        "list of numbers" => value.as_array().is_some_and(|list| list.iter().all(Value::is_number)),
        "list of integers" => value.as_array().is_some_and(|list| list.iter().all(Value::is_u64)),
        "list of texts" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        other => panic!("the table has no such type as {other}"),
    })
}

/// Everything of a result that is no object with something in it.
fn leaves<'a>(value: &'a Value, path: Vec<&'a str>) -> Vec<(Vec<&'a str>, &'a Value)> {
    match value {
        Value::Object(object) if !object.is_empty() => {
            object.iter().flat_map(|(key, value)| leaves(value, [&path[..], &[key]].concat())).collect()
        }
        leaf => vec![(path, leaf)],
    }
}

/// Results of runs of several kinds, the last of each.
fn results() -> Vec<Value> {
    let last = |mut trainer: Trainer| {
        let dict = trainer.by_ref().take(2).map(Result::unwrap).last().unwrap().dict;
        Value::Object(dict.as_json().clone())
    };
    let of = |config| Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let mut loading = small(2);
    loading.learner.num_multi_gpu_tower_stacks = 2;
    loading.learner.max_lag = Some(0);
    let mut shared = small(1);
    shared.workers.inference = InferencePlacement::Shared;
    shared.workers.num_env_groups = 2;
    shared.workers.num_envs_per_worker = 2;
    let mut ppo = TrainerConfig { algorithm: PpoConfig::default().into(), ..small(0) };
    ppo.learner.num_sgd_iter = 2;
    ppo.results.weights_digest = true;
    let resumed = of_resumed();
    let others = [of(small(0)), of(small(2)), of(loading), of(shared), of(ppo)];
    others.map(last).into_iter().chain([of_failures(), of_starved(), of_hosts(), of_evaluated(), resumed]).collect()
}

/// A result of a run that has evaluated its policy.
fn of_evaluated() -> Value {
    let mut config = small(1);
    config.evaluation.every = Some(Every::Time(Duration::ZERO));
    config.evaluation.episodes = 2;
    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let has_figures = |dict: &ResultDict| dict.number("evaluation.episode_reward_mean").is_some();
    let dict = trainer.by_ref().map(|result| result.unwrap().dict).find(has_figures).unwrap();
    Value::Object(dict.as_json().clone())
}

/// A result of a run with a worker elsewhere.
fn of_hosts() -> Value {
    let network = MemoryNetwork::new();
    let run = |config| Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    let mut trainer = run(small(0)).listen(network.listen(), Terms::default()).build().unwrap();
    let host = run(TrainerConfig::default()).connect(network.dial("host-a")).workers(1);
    let host = std::thread::spawn(|| host.run());
    let has_reported = |dict: &ResultDict| {
        ["ledger.time.host-a/rollout", "bottleneck.limit"].iter().all(|key| dict.get(key).is_some())
    };
    let dict = trainer.by_ref().map(|result| result.unwrap().dict).find(has_reported).unwrap();
    trainer.finish().unwrap();
    host.join().unwrap().unwrap();
    Value::Object(dict.as_json().clone())
}

/// A result of a run whose slow environments are its bottleneck: the first with advice, if any has.
fn of_starved() -> Value {
    let slow = ChaosConfig { slow: 1.0, slow_for: Duration::from_micros(200), ..ChaosConfig::default() };
    let mut config = small(1);
    config.results.min_time_s_per_iteration = 0.02;
    let mut trainer = Trainer::new(config, move |_: &EnvContext| Chaos::new(CartPole::new(), slow)).unwrap();
    let mut dicts = trainer.by_ref().take(100).map(|result| result.unwrap().dict);
    let first = dicts.next().unwrap();
    let dict = dicts.find(|dict| dict.get("bottleneck.advice.setting").is_some()).unwrap_or(first);
    Value::Object(dict.as_json().clone())
}

/// A result of a run that was saved and gone on.
fn of_resumed() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let next = || {
        let builder = Trainer::builder(small(0)).env(|_: &EnvContext| CartPole::new());
        let mut trainer = builder.resume(Resume::auto()).checkpoints(folder.path()).build().unwrap();
        Value::Object(trainer.next().unwrap().unwrap().dict.as_json().clone())
    };
    next();
    next()
}

/// A result among whose environments some failed, shown to a reporter that failed, too, of a run that cannot
/// save.
fn of_failures() -> Value {
    let failing = ChaosConfig { error: 0.02, ..ChaosConfig::default() };
    let chaos = move |env: &EnvContext| Chaos::new(CartPole::new(), ChaosConfig { seed: env.seed, ..failing });
    let mut config = small(1);
    config.supervision.num_consecutive_worker_failures_tolerance = 1000;
    // A disk that is always full.
    let builder = Trainer::builder(config).env(chaos).record(Recording::to("/dev/full"));
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("checkpoints");
    let mut trainer = builder.checkpoints(&dir).build().unwrap();
    trainer.add_reporter(Refusing);
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::write(&dir, "in the way").unwrap();
    trainer.next().unwrap().unwrap();
    // Not every iteration has a failure.
    let has_failures = |dict: &ResultDict| {
        ["workers.newest_failures", "record_failed", "checkpoints_failed"].iter().all(|key| dict.get(key).is_some())
    };
    let dict = trainer.by_ref().take(10_000).map(|result| result.unwrap().dict).find(has_failures).unwrap();
    Value::Object(dict.as_json().clone())
}

/// A reporter that cannot show anything.
struct Refusing;

impl Reporter for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn report(&mut self, _: &ResultDict) -> Result<(), ReportError> {
        Err(ReportError::new("refusing", "no"))
    }
}

#[test]
fn the_table_of_results_has_every_key_with_its_type_and_no_other() {
    let table = table();
    for result in results() {
        let leaves = leaves(&result, Vec::new());
        for (path, value) in &leaves {
            let is_documented = table.iter().any(|row| matches(row.path, path) && is_of(row.kind, value));
            // What would hold keys that are there only sometimes.
            let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty) || value.is_null();
            let holds_documented = table.iter().any(|row| {
                let keys: Vec<&str> = row.path.split('.').collect();
                keys.len() > path.len() && matches(&keys[..path.len()].join("."), path)
            });
            assert!(
                is_documented || is_empty && holds_documented,
                "not in docs/results.md as it is: {path:?} = {value}"
            );
        }
        for row in table.iter().filter(|row| !row.is_occasional) {
            assert!(
                leaves.iter().any(|(path, _)| matches(row.path, path)),
                "{} is in docs/results.md and not in {result}",
                row.path
            );
        }
    }
}

#[test]
fn every_key_of_the_table_occurs() {
    let results = results();
    let all: Vec<_> = results.iter().flat_map(|result| leaves(result, Vec::new())).collect();
    // Kept for a run with several agents, a run that stops somewhere, a run that fails and one with
    // processes.
    let mut elsewhere = vec!["policy_reward_", "progress", "run_failed", "processor_secs"];
    if std::thread::available_parallelism().is_ok_and(|n| n.get() == 1) {
        // More threads would bring nothing there.
        elsewhere.push("bottleneck.advice");
    }
    for row in table().iter().filter(|row| !elsewhere.iter().any(|prefix| row.path.contains(prefix))) {
        assert!(all.iter().any(|(path, _)| matches(row.path, path)), "{} never occurs", row.path);
    }
}

#[test]
fn every_figure_of_the_learner_is_there_from_the_first_result_on() {
    for workers in [0, 2] {
        let mut trainer = Trainer::new(small(workers), |_: &EnvContext| CartPole::new()).unwrap();
        let dict = trainer.next().unwrap().unwrap().dict;
        let stats = [
            "total_loss",
            "policy_loss",
            "vf_loss",
            "entropy",
            "vf_explained_var",
            "cur_lr",
            "grad_gnorm",
            "var_gnorm",
        ];
        for stat in stats {
            assert!(dict.number(&format!("info.learner.default_policy.learner_stats.{stat}")).is_some(), "{stat}");
        }
        assert!(dict.number("policy_lag.mean").is_some() && dict.number("bottleneck.starved").is_some());
        let size = dict.number("policy_lag.effective_sample_size");
        assert!(size.is_some_and(|size| size > 0.0 && size <= 1.0 + 1e-9), "{size:?}");
    }
}

#[test]
fn the_bottleneck_names_old_data_where_there_is_some() {
    let mut config = deterministic(1, 16);
    // Far steps, and nothing that holds them.
    config.learner.lr = 0.1;
    config.algorithm = ImpalaConfig { behaviour_kl_coeff: 0.0, ..ImpalaConfig::default() }.into();
    let mut named = 0;
    for result in Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap().take(60).map(Result::unwrap) {
        let is_old = result.effective_sample_size.is_some_and(|size| size < 0.8)
            && result.policy_lag.mean().is_some_and(|lag| lag >= 1.0);
        let old_data = result.bottleneck.as_ref().and_then(|found| found.old_data);
        assert_eq!(old_data.is_some(), is_old, "{old_data:?}");
        named += usize::from(old_data.is_some());
        let sentence = result.dict.get("bottleneck.sentence").map_or(String::new(), Value::to_string);
        assert_eq!(sentence.contains("effective sample size"), is_old, "{sentence}");
    }
    assert!(named > 0, "no data came to be old");
}

#[test]
fn counters_count_passes_and_steps_as_rllib_does() {
    let mut config = small(0);
    config.learner.num_sgd_iter = 3;
    let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let last = trainer.by_ref().take(9).map(Result::unwrap).last().unwrap();
    let number = |key: &str| last.dict.number(key).unwrap();
    assert_eq!(number("num_env_steps_trained"), 9.0 * 16.0);
    assert_eq!(number("num_env_steps_trained_once"), 3.0 * 16.0);
    assert_eq!(number("num_env_steps_sampled"), 3.0 * 16.0);
    assert_eq!(number("info.learner.default_policy.num_grad_updates_lifetime"), 9.0);
    assert_eq!(number("counters.num_weight_broadcasts"), 9.0);
    assert_eq!(number("num_steps_trained_this_iter"), 16.0);
}

#[test]
fn nothing_falls_between_two_iterations() {
    for workers in [0, 2] {
        let mut trainer = Trainer::new(small(workers), |_: &EnvContext| CartPole::new()).unwrap();
        let (mut sampled, mut trained, mut secs) = (0.0, 0.0, 0.0);
        for _ in 0..5 {
            let result = trainer.next().unwrap().unwrap();
            sampled += result.dict.number("num_env_steps_sampled_this_iter").unwrap();
            trained += result.dict.number("num_env_steps_trained_this_iter").unwrap();
            secs += result.dict.number("time_this_iter_s").unwrap();
            assert_eq!(sampled, result.env_steps_sampled as f64);
            assert_eq!(trained, result.env_steps_trained as f64);
            assert!((secs - result.time_total.as_secs_f64()).abs() < 1e-6);
            // The run goes on while somebody works with the result.
            std::thread::yield_now();
            trainer.save(tempfile::TempDir::new().unwrap().path()).unwrap();
        }
    }
}

#[test]
fn a_return_is_reached_only_over_enough_episodes() {
    let trainer = |smoothing| {
        let mut config = small(0);
        config.results.metrics_num_episodes_for_smoothing = smoothing;
        Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap()
    };
    let stop = StopWhen { episode_return_mean: Some(1.0), iterations: Some(20), ..StopWhen::default() };
    let few = trainer(1_000).run(stop.clone()).unwrap();
    assert!(few.result.episode_return_mean.is_some_and(|mean| mean > 1.0), "{}", few.result);
    assert_eq!(few.reason, Some(StopReason::Iterations));
    assert_eq!(trainer(1).run(stop).unwrap().reason, Some(StopReason::ReturnReached));
}

#[test]
fn json_lines_hold_every_result() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("made/on/the/way/results.jsonl");
    let mut trainer = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap();
    trainer.add_reporter(JsonLines::create(&path).unwrap());
    let run = trainer.run(iterations(5)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4]["training_iteration"], 5);
    let last: ResultDict = run.result.dict.clone();
    assert_eq!(lines[4], serde_json::Value::Object(last.as_json().clone()));
}

#[test]
fn the_summary_is_one_json_object_with_its_thirteen_keys() {
    let run = Trainer::new(small(0), |_: &EnvContext| CartPole::new()).unwrap().run(iterations(2)).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&run.summary().to_string()).unwrap();
    let keys: Vec<_> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "env",
            "algorithm",
            "seed",
            "num_sgd_iter",
            "env_steps",
            "seconds",
            "env_steps_per_s",
            "env_steps_per_s_after_start_up",
            "episode_return_mean",
            "episodes",
            "reached",
            "ledger_closed",
            "weights_digest"
        ]
    );
    assert_eq!((summary["env"].as_str(), summary["reached"].as_bool()), (Some("CartPole-v1"), Some(false)));
}

#[test]
fn results_can_be_awaited_and_a_wait_given_up_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for workers in [0, 2] {
        let mut config = small(workers);
        config.results.min_time_s_per_iteration = 0.02;
        let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
        let run = runtime.block_on(async {
            for _ in 0..20 {
                let short = std::time::Duration::from_millis(1);
                if let Ok(result) = tokio::time::timeout(short, trainer.next_result()).await {
                    result.unwrap().unwrap();
                }
            }
            let result = trainer.next_result().await.unwrap().unwrap();
            assert!(result.ledger_closed());
            trainer.finish().unwrap()
        });
        // Every pass is in a result or was cut off by the end: none vanished with a future that was given up.
        assert!(run.ledger_closed());
        let updates = run.result.dict.number("info.learner.default_policy.num_grad_updates_lifetime");
        assert!(updates.is_some(), "{}", run.result);
    }
}

#[test]
fn a_wait_given_up_does_not_change_what_a_deterministic_run_makes_of_an_iteration() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let config = deterministic(2, 1);
    let results = |gives_up: bool| {
        let mut trainer = Trainer::new(config.clone(), |_: &EnvContext| CartPole::new()).unwrap();
        let results = runtime.block_on(async {
            let mut results = Vec::new();
            while results.len() < 20 {
                let limit = if gives_up { Duration::from_micros(200) } else { Duration::MAX };
                if let Ok(result) = tokio::time::timeout(limit, trainer.next_result()).await {
                    let result = result.unwrap().unwrap();
                    results.push((result.iteration, result.dict.get("digest_chain").unwrap().to_string()));
                }
                // The learner ends its round meanwhile.
                tokio::time::sleep(Duration::from_millis(u64::from(gives_up) * 3)).await;
            }
            results
        });
        trainer.finish().unwrap();
        results
    };
    assert_eq!(results(true), results(false));
}
