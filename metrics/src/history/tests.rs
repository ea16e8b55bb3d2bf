#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

#[test]
fn an_evaluation_is_on_the_curve_once_and_where_it_began() {
    let mut history = RunHistory::default();
    for (env_steps, made, at, mean) in
        [(10, 0, None, None), (20, 1, Some(15), Some(2.0)), (30, 1, Some(15), Some(2.0)), (90, 2, Some(80), Some(4.0))]
    {
        let mut result = ResultDict::new();
        result.set("num_env_steps_sampled", env_steps);
        result.set(
            "evaluation",
            json!({"made": made, "at_env_steps": at, "episode_reward_mean": mean, "episode_reward_max": 5.0}),
        );
        history.take(&result);
    }
    let curve = &history.curves()["evaluation"];
    assert_eq!((&curve["x"], &curve["mean"]), (&json!([15.0, 80.0]), &json!([2.0, 4.0])));
    assert_eq!((&curve["min"], &curve["max"]), (&json!([2.0, 4.0]), &json!([5.0, 5.0])));
    assert_eq!(&history.to_json(&Value::Null)["evaluation"], curve);
}

#[test]
fn evaluations_that_share_a_point_count_the_same_however_long_they_stood() {
    let mut history = RunHistory::default();
    // 1023 is beyond the first 512 intervals, so 0 and 1 merge.
    for (made, at, mean) in std::iter::repeat_n((1, 0, 2.0), 9).chain([(2, 1, 4.0), (3, 1023, 6.0)]) {
        let mut result = ResultDict::new();
        result.set("evaluation", json!({"made": made, "at_env_steps": at, "episode_reward_mean": mean}));
        history.take(&result);
    }
    assert_eq!(history.curves()["evaluation"]["mean"], json!([3.0, 6.0]));
}

#[test]
fn the_clock_leads_from_env_steps_to_seconds() {
    let mut history = RunHistory::default();
    for n in 1..=3 {
        let mut result = ResultDict::new();
        result.set("num_env_steps_sampled", 100 * n);
        result.set("time_total_s", 0.5 * f64::from(n));
        history.take(&result);
    }
    assert_eq!(history.curves()["clock"], json!({"x": [100.0, 200.0, 300.0], "mean": [0.5, 1.0, 1.5]}));
}

#[test]
fn the_pipeline_is_that_of_the_newest_result_and_the_settings() {
    let mut result = ResultDict::new();
    result.set("time_this_iter_s", 0.5);
    result.set("num_env_steps_trained_this_iter", 300);
    result.set("num_healthy_workers", 2);
    result.set("bottleneck.limit", "learner");
    let mut history = RunHistory::default();
    history.take(&result);
    let shown = &history.to_json(&json!({"learner": {"learner_queue_size": 4, "num_sgd_iter": 3}}))["pipeline"];
    for (key, value) in [
        ("workers", json!(2)),
        ("trained_per_s", json!(600.0)),
        ("limit", json!("learner")),
        ("queue_capacity", json!(4)),
        ("num_sgd_iter", json!(3)),
        ("hosts", Value::Null),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    result.set("time_this_iter_s", 0.0);
    history.take(&result);
    assert_eq!(history.to_json(&Value::Null)["pipeline"]["trained_per_s"], Value::Null, "no rate of no time");
}

#[test]
fn of_the_pipeline_only_numbers_and_known_limits_are_kept() {
    let mut history = RunHistory::default();
    let mut result = ResultDict::new();
    for key in ["num_healthy_workers", "policy_lag.mean", "info.learner_queue.capacity", "bottleneck.starved"] {
        result.set(key, "<b>1</b>");
    }
    result.set("hosts.workers", json!([1]));
    result.set("bottleneck.limit", "constructor");
    history.take(&result);
    let settings = json!({"learner": {"learner_queue_size": {"a": 1}, "num_sgd_iter": "7"}});
    let shown = history.to_json(&settings)["pipeline"].clone();
    assert!(shown.as_object().is_some_and(|shown| shown.len() == 16 && shown.values().all(Value::is_null)), "{shown}");
}

#[test]
fn the_capacity_of_the_inqueue_is_what_the_result_says_or_else_the_settings() {
    let settings = json!({"learner": {"learner_queue_size": 4}});
    for (said, capacity) in [(json!(7), 7), (Value::Null, 4)] {
        let mut history = RunHistory::default();
        let mut result = ResultDict::new();
        result.set("info.learner_queue.capacity", said);
        history.take(&result);
        assert_eq!(history.to_json(&settings)["pipeline"]["queue_capacity"], capacity);
    }
}
