//! The stages of a run and what goes from one to the next.

use serde_json::{Value, json};

use crate::result::ResultDict;

/// The limits of a run that the picture has a place for, or that are none.
const LIMITS: [&str; 9] = [
    "environments",
    "inference",
    "loading",
    "network",
    "learner",
    "processors",
    "one_thread",
    "admission_order",
    "balance",
];

/// Figures of one result: numbers, and a known limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipeline(Value);

impl Pipeline {
    pub(super) fn of(result: &ResultDict) -> Pipeline {
        // Results of other programs may have anything there.
        let at = |path: &str| number(result.get(path));
        let limit = result.get("bottleneck.limit").and_then(Value::as_str).filter(|limit| LIMITS.contains(limit));
        // What is not finite, as a rate of no time, becomes null.
        let per_s = |path: &str| Some(result.number(path)? / result.number("time_this_iter_s")?);
        Pipeline(json!({
            "workers": at("num_healthy_workers"),
            "hosts": at("hosts.connected"),
            "workers_of_hosts": at("hosts.workers"),
            "sampled_per_s": at("throughput.env_steps_per_s"),
            "trained_per_s": per_s("num_env_steps_trained_this_iter"),
            "updates_per_s": at("throughput.updates_per_s"),
            "queue_mean": at("info.learner_queue.size_mean"),
            "queue_capacity": at("info.learner_queue.capacity"),
            "lag_mean": at("policy_lag.mean"),
            "lag_max": at("policy_lag.max"),
            "effective_sample_size": at("policy_lag.effective_sample_size"),
            "broadcasts": at("counters.num_weight_broadcasts"),
            "limit": limit,
            "starved": at("bottleneck.starved"),
            "blocked": at("bottleneck.blocked"),
        }))
    }

    /// The figures, with what the settings say of the stages.
    pub(super) fn to_json(&self, settings: &Value) -> Value {
        let mut figures = self.0.clone();
        if let Some(figures) = figures.as_object_mut() {
            let learner = &settings["learner"];
            let capacity = figures.entry("queue_capacity").or_insert(Value::Null);
            if capacity.is_null() {
                *capacity = number(learner.get("learner_queue_size"));
            }
            figures.insert("num_sgd_iter".to_owned(), number(learner.get("num_sgd_iter")));
        }
        figures
    }
}

/// Null if it is no number.
fn number(value: Option<&Value>) -> Value {
    value.filter(|value| value.is_number()).cloned().unwrap_or_default()
}
