//! The result dict has RLlib's keys, and pronk's own beside them.

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{JsonLines, ResultDict, StopReason};

use crate::fixtures::{iterations, small};

const KEYS: &[&str] = &[
    "training_iteration",
    "time_this_iter_s",
    "time_total_s",
    "episode_reward_min",
    "episode_reward_mean",
    "episode_reward_max",
    "episode_return_mean",
    "episode_len_mean",
    "episodes_this_iter",
    "sampler_results.episode_reward_min",
    "sampler_results.episode_reward_mean",
    "sampler_results.episode_reward_max",
    "sampler_results.episode_len_mean",
    "sampler_results.episodes_this_iter",
    "hist_stats.episode_reward",
    "hist_stats.episode_lengths",
    "sampler_results.hist_stats.episode_reward",
    "workers.abandoned",
    "workers.gave_up",
    "num_env_steps_sampled",
    "num_env_steps_trained",
    "num_env_steps_trained_once",
    "num_agent_steps_sampled",
    "num_agent_steps_trained",
    "num_agent_steps_trained_once",
    "num_env_steps_sampled_this_iter",
    "num_env_steps_trained_this_iter",
    "num_steps_trained_this_iter",
    "timesteps_total",
    "agent_timesteps_total",
    "num_healthy_workers",
    "num_in_flight_async_reqs",
    "num_remote_worker_restarts",
    "counters.num_env_steps_sampled",
    "counters.num_env_steps_trained",
    "counters.num_agent_steps_sampled",
    "counters.num_agent_steps_trained",
    "counters.num_samples_added_to_queue",
    "counters.num_weight_broadcasts",
    "info.num_env_steps_sampled",
    "info.num_env_steps_trained",
    "info.num_agent_steps_sampled",
    "info.num_agent_steps_trained",
    "info.learner.default_policy.learner_stats.total_loss",
    "info.learner.default_policy.learner_stats.policy_loss",
    "info.learner.default_policy.learner_stats.vf_loss",
    "info.learner.default_policy.learner_stats.entropy",
    "info.learner.default_policy.learner_stats.entropy_coeff",
    "info.learner.default_policy.learner_stats.vf_explained_var",
    "info.learner.default_policy.learner_stats.cur_lr",
    "info.learner.default_policy.learner_stats.grad_gnorm",
    "info.learner.default_policy.learner_stats.var_gnorm",
    "info.learner.default_policy.num_agent_steps_trained",
    "info.learner.default_policy.num_grad_updates_lifetime",
    "info.learner.default_policy.diff_num_grad_updates_vs_sampler_policy",
    "info.learner_queue.size_count",
    "info.learner_queue.size_mean",
    "info.learner_queue.size_std",
    "info.learner_queue.size_quantiles",
    "info.timing_breakdown.learner_grad_time_ms",
    "info.timing_breakdown.learner_load_time_ms",
    "info.timing_breakdown.learner_load_wait_time_ms",
    "info.timing_breakdown.learner_dequeue_time_ms",
    "timers.training_iteration_time_ms",
    "timers.training_iteration_throughput",
    "throughput.env_steps_per_s",
    "policy_lag.min",
    "policy_lag.mean",
    "policy_lag.max",
    "ledger.steps.sampled.env",
    "ledger.steps.trained_once.env",
    "ledger.steps.in_flight.env",
    "ledger.steps.dropped",
    "ledger.steps.lost",
    "ledger.time.learner.wall_secs",
    "ledger.time.learner.states.starved",
    "ledger.time_this_iter.learner.learning",
    "custom_metrics",
    "episode_media",
];

#[test]
fn every_key_is_there_from_the_first_result_on() {
    for workers in [0, 2] {
        let mut trainer = Trainer::new(small(workers), |_: &EnvContext| CartPole::new()).unwrap();
        let dict = trainer.next().unwrap().unwrap().dict;
        for key in KEYS {
            let numeric = key.starts_with("policy_lag") || key.starts_with("info.learner.");
            assert!(
                dict.get(key).is_some_and(|value| value.is_number() || !numeric),
                "{workers} workers: {key} is missing in {}",
                dict.to_json_line()
            );
        }
    }
}

#[test]
fn counters_count_passes_and_steps_as_rllib_does() {
    let config = TrainerConfig { num_sgd_iter: 3, ..small(0) };
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
        let config = TrainerConfig { metrics_num_episodes_for_smoothing: smoothing, ..small(0) };
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
fn the_summary_is_one_json_object_with_its_nine_keys() {
    let run = Trainer::new(small(0), |_: &EnvContext| CartPole::new()).unwrap().run(iterations(2)).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&run.summary().to_string()).unwrap();
    let keys: Vec<_> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "env",
            "algorithm",
            "seed",
            "env_steps",
            "seconds",
            "env_steps_per_s",
            "episode_return_mean",
            "reached",
            "ledger_closed"
        ]
    );
    assert_eq!((summary["env"].as_str(), summary["reached"].as_bool()), (Some("CartPole-v1"), Some(false)));
}

#[test]
fn results_can_be_awaited_and_a_wait_given_up_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for workers in [0, 2] {
        let config = TrainerConfig { min_time_s_per_iteration: 0.02, ..small(workers) };
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
