//! The settings of a run as JSON, and the names in them.
//!
//! ```
//! use pronk_metrics::settings;
//! use serde_json::json;
//!
//! let of_run = json!({"env": "CartPole-v1", "algorithm": {"ppo": {"clip_param": 0.2}}});
//! assert_eq!((settings::env(&of_run), settings::algorithm(&of_run)), (Some("CartPole-v1"), Some("ppo")));
//! assert_eq!(settings::leaves(&of_run)[1], ("algorithm.ppo.clip_param".to_owned(), &json!(0.2)));
//! ```

use serde_json::{Value, json};

use super::shorten::shortened;

const MAX_ROWS: usize = 400;
const MAX_VALUE_CHARS: usize = 400;

/// The name of the environment, if the settings have one.
pub fn env(settings: &Value) -> Option<&str> {
    named(settings, &["env", "environment", "env_id"])
}

/// The name of the algorithm, if the settings have one.
pub fn algorithm(settings: &Value) -> Option<&str> {
    named(settings, &["algorithm", "algo"])
}

/// Each setting that is not an object with fields, by its path: the keys on the way, joined by dots.
pub fn leaves(settings: &Value) -> Vec<(String, &Value)> {
    let mut leaves = Vec::new();
    if !settings.is_null() {
        add_leaves(settings, String::new(), &mut leaves);
    }
    leaves
}

/// The name under the first of `keys` in the settings.
fn named<'a>(settings: &'a Value, keys: &[&str]) -> Option<&'a str> {
    let value = keys.iter().find_map(|key| settings.get(key))?;
    match value {
        Value::String(name) => Some(name),
        // An enum with fields is an object with one key; other objects may have a name.
        Value::Object(fields) if fields.len() == 1 => fields.keys().next().map(String::as_str),
        _ => value.get("name")?.as_str(),
    }
}

/// `{"rows": [[name, value], …], "left_out": n}`: a row for each setting that is not an object.
pub(super) fn rows(settings: &Value) -> Value {
    let leaves = leaves(settings);
    let row = |(name, value): &(String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        json!([shortened(name, MAX_VALUE_CHARS), shortened(&value, MAX_VALUE_CHARS)])
    };
    let shown: Vec<_> = leaves.iter().take(MAX_ROWS).map(row).collect();
    json!({"rows": shown, "left_out": leaves.len().saturating_sub(MAX_ROWS)})
}

fn add_leaves<'a>(value: &'a Value, path: String, leaves: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                add_leaves(field, path, leaves);
            }
        }
        leaf => leaves.push((path, leaf)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_texts_enums_and_objects() {
        let settings = json!({"env": "CartPole-v1", "a": {"impala": {}}, "b": {"name": "x", "lr": 1}, "c": 3});
        for (key, name) in [("env", Some("CartPole-v1")), ("a", Some("impala")), ("b", Some("x")), ("c", None)] {
            assert_eq!(named(&settings, &["none", key]), name);
        }
        assert_eq!(named(&Value::Null, &["env"]), None);
    }

    #[test]
    fn every_setting_has_a_row_until_there_is_no_room() {
        let rows_of = rows(&json!({"a": {"b": [1, 2], "c": {}}, "d": "<x>", "e": null}));
        assert_eq!(rows_of["rows"], json!([["a.b", "[1,2]"], ["a.c", "{}"], ["d", "<x>"], ["e", "null"]]));
        let many: serde_json::Map<_, _> = (0..450).map(|i| (i.to_string(), json!(i))).collect();
        let many = rows(&Value::Object(many));
        assert_eq!((many["rows"].as_array().unwrap().len(), &many["left_out"]), (MAX_ROWS, &json!(50)));
    }
}
