//! The first difference between two configs.

use serde_json::Value;

/// Settings that change no weights, so that a replay or a resumed run may have others.
const FREE_SETTINGS: [&str; 7] = [
    "results",
    "supervision",
    "checkpoint",
    "evaluation",
    "learner.num_learner_threads",
    "learner.learner_queue_timeout",
    "learner.on_starved",
];

/// The first setting that differs and matters between a saved config and a run's own: its path and both
/// values.
pub(crate) fn first_difference(saved: &Value, own: &Value) -> Option<(String, String, String)> {
    difference(saved, own, String::new())
}

fn difference(recorded: &Value, own: &Value, path: String) -> Option<(String, String, String)> {
    if recorded == own || FREE_SETTINGS.contains(&path.as_str()) {
        return None;
    }
    let (Value::Object(ours), Value::Object(theirs)) = (own, recorded) else {
        return Some((path, recorded.to_string(), own.to_string()));
    };
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let missing = Value::Null;
    let mut keys: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .find_map(|key| difference(theirs.get(key).unwrap_or(&missing), ours.get(key).unwrap_or(&missing), below(key)))
}
