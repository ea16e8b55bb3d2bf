//! Tags of leaves in TensorBoard, and leaves that repeat another.

use indexmap::IndexMap;
use serde_json::Value;

/// The tag of the leaf at `path` of `leaves`; `None` if it repeats another one.
pub(super) fn tag_of(path: &str, leaves: &IndexMap<String, &Value>) -> Option<String> {
    // A repeat is left out only if the result has the leaf it repeats.
    let is_repeat = path.starts_with("ledger/time/")
        || NOT_SHOWN.contains(&path)
        || repeated(path).is_some_and(|original| leaves.contains_key(&original));
    if is_repeat {
        return None;
    }
    let known = TAGS.iter().find(|(known, _)| *known == path).map(|(_, tag)| (*tag).to_owned());
    Some(known.or_else(|| learner_tag(path)).unwrap_or_else(|| path.to_owned()))
}

/// Leaves with customary names.
const TAGS: &[(&str, &str)] = &[
    ("episode_reward_min", "rollout/ep_rew_min"),
    ("episode_reward_mean", "rollout/ep_rew_mean"),
    ("episode_reward_max", "rollout/ep_rew_max"),
    ("episode_len_mean", "rollout/ep_len_mean"),
    ("episodes_this_iter", "rollout/episodes_this_iter"),
    ("hist_stats/episode_reward", "rollout/ep_rew"),
    ("hist_stats/episode_lengths", "rollout/ep_len"),
    ("training_iteration", "time/iterations"),
    ("time_this_iter_s", "time/time_this_iter"),
    ("time_total_s", "time/time_elapsed"),
    ("num_env_steps_sampled", "time/total_timesteps"),
    ("progress", "time/progress"),
    ("throughput/env_steps_per_s", "time/fps"),
    ("throughput/env_steps_per_s_since_start", "time/fps_since_start"),
    ("throughput/updates_per_s", "time/updates_per_s"),
];

/// Five quantiles are no histogram.
const NOT_SHOWN: &[&str] = &["info/learner_queue/size_quantiles"];

/// The leaf that `path` repeats.
fn repeated(path: &str) -> Option<String> {
    const REPEATS: &[(&str, &str)] = &[
        ("episode_return_mean", "episode_reward_mean"),
        ("timesteps_total", "num_env_steps_sampled"),
        ("agent_timesteps_total", "num_agent_steps_sampled"),
        ("num_steps_trained_this_iter", "num_env_steps_trained_this_iter"),
        ("num_healthy_workers", "workers/healthy"),
        ("num_in_flight_async_reqs", "workers/healthy"),
        ("num_remote_worker_restarts", "workers/restarts"),
        ("counters/num_batches_quarantined", "learner_health/batches_quarantined"),
        ("info/num_batches_quarantined", "learner_health/batches_quarantined"),
        ("ledger/steps/sampled/env", "num_env_steps_sampled"),
        ("ledger/steps/sampled/agent", "num_agent_steps_sampled"),
        ("ledger/steps/trained_once/env", "num_env_steps_trained_once"),
        ("ledger/steps/trained_once/agent", "num_agent_steps_trained_once"),
        ("ledger/steps/trained_passes/env", "num_env_steps_trained"),
        ("ledger/steps/trained_passes/agent", "num_agent_steps_trained"),
    ];
    const STEPS: &[&str] = &[
        "num_env_steps_sampled",
        "num_env_steps_trained",
        "num_env_steps_trained_once",
        "num_agent_steps_sampled",
        "num_agent_steps_trained",
        "num_agent_steps_trained_once",
    ];
    if let Some((_, original)) = REPEATS.iter().find(|(repeat, _)| *repeat == path) {
        return Some((*original).to_owned());
    }
    if let Some(original) = path.strip_prefix("sampler_results/") {
        return Some(original.to_owned());
    }
    // Steps are at the top level, under `counters` and in `info`; other counters only in the last two.
    let in_info = path.strip_prefix("info/").filter(|name| name.starts_with("num_"));
    match (path.strip_prefix("counters/"), in_info) {
        (Some(name), _) | (_, Some(name)) if STEPS.contains(&name) => Some(name.to_owned()),
        (_, Some(name)) => Some(format!("counters/{name}")),
        _ => None,
    }
}

/// `train/<stat>` for the default policy, `train/<policy>/<stat>` for others.
fn learner_tag(path: &str) -> Option<String> {
    let (policy, stat) = path.strip_prefix("info/learner/")?.split_once("/learner_stats/")?;
    Some(if policy == crate::DEFAULT_POLICY { format!("train/{stat}") } else { format!("train/{policy}/{stat}") })
}
