//! The stages of a run and what goes from one to the next.

use serde_json::{Value, json};

use crate::result::ResultDict;

/// Figures of one result.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipeline(Value);

impl Pipeline {
    pub(super) fn of(result: &ResultDict) -> Pipeline {
        let at = |path: &str| result.get(path).cloned().unwrap_or_default();
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
            "broadcasts": at("counters.num_weight_broadcasts"),
            "limit": at("bottleneck.limit"),
            "starved": at("bottleneck.starved"),
            "blocked": at("bottleneck.blocked"),
            "advice": at("bottleneck.advice"),
        }))
    }

    /// The figures, with what the settings say of the stages.
    pub(super) fn to_json(&self, settings: &Value) -> Value {
        let mut figures = self.0.clone();
        if let Some(figures) = figures.as_object_mut() {
            let capacity = figures.entry("queue_capacity").or_insert(Value::Null);
            if capacity.is_null() {
                *capacity = settings["learner"]["learner_queue_size"].clone();
            }
            figures.insert("num_sgd_iter".to_owned(), settings["learner"]["num_sgd_iter"].clone());
        }
        figures
    }
}
