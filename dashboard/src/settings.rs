//! [`Settings`]: what a run was made with.

use std::collections::BTreeMap;

use pronk::metrics::settings;
use serde::{Serialize, Serializer};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::short::{MAX_ERROR_CHARS, MAX_NAME_CHARS, short};

/// Names of a run, from its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub(crate) env: Option<String>,
    pub(crate) algorithm: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub(crate) seed: Option<u64>,
    /// Equal for runs that differ in their seed alone.
    pub(crate) group: Option<String>,
}

impl Settings {
    pub(crate) fn of(settings: &Value) -> Self {
        if !settings.is_object() {
            return Self::default();
        }
        Self {
            env: settings::env(settings).map(|name| short(name, MAX_NAME_CHARS)),
            algorithm: settings::algorithm(settings).map(|name| short(name, MAX_NAME_CHARS)),
            seed: settings["seed"].as_u64(),
            group: Some(format!("{:016x}", xxh3_64(without_seed(settings).as_bytes()))),
        }
    }
}

/// The settings in the text of a `config.toml`, where `"none"` stands for null.
///
/// # Errors
/// Why it is no TOML.
pub(crate) fn from_toml(text: &str) -> Result<Value, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| short(error.message(), MAX_ERROR_CHARS))?;
    Ok(json(toml::Value::Table(table)))
}

fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) if text == "none" => Value::Null,
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        // Null would be another value.
        toml::Value::Float(number) if !number.is_finite() => number.to_string().into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(is) => is.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(list) => list.into_iter().map(json).collect(),
        toml::Value::Table(table) => table.into_iter().map(|(key, value)| (key, json(value))).collect(),
    }
}

/// Every setting that is no table, by its path.
pub(crate) fn flat(settings: &Value) -> BTreeMap<String, &Value> {
    settings::leaves(settings).into_iter().collect()
}

/// A count as text, because JavaScript rounds integers above 2^53.
pub(crate) fn as_text<S: Serializer>(count: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match count {
        Some(count) => serializer.collect_str(count),
        None => serializer.serialize_none(),
    }
}

/// All settings but the seed as a text that does not depend on their order.
fn without_seed(settings: &Value) -> String {
    let leaves = flat(settings).into_iter().filter(|(path, _)| path != "seed");
    leaves.map(|(path, value)| format!("{path}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_that_differ_in_their_seed_alone_are_of_one_group() {
        let of = |settings| Settings::of(&settings).group;
        let first = json!({"env": "X", "seed": 1, "learner": {"lr": 1, "seed": 3}, "algorithm": {"ppo": {}}});
        let second = json!({"algorithm": {"ppo": {}}, "seed": 2, "learner": {"seed": 3, "lr": 1}, "env": "X"});
        assert_eq!(of(first.clone()), of(second));
        let mut other = first.clone();
        other["learner"]["seed"] = json!(4);
        assert_ne!(of(first.clone()), of(other));
        let settings = Settings::of(&first);
        let names = (settings.env.as_deref(), settings.algorithm.as_deref(), settings.seed);
        assert_eq!(names, (Some("X"), Some("ppo"), Some(1)));
        assert_eq!(Settings::of(&Value::Null), Settings::default());
    }

    #[test]
    fn a_config_file_has_the_settings_of_the_run() {
        let settings = from_toml("env = \"X\"\n[learner]\ngrad_clip = \"none\"\nlr = 1e-3").unwrap();
        assert_eq!(settings, json!({"env": "X", "learner": {"grad_clip": null, "lr": 1e-3}}));
        let limits = ["inf", "nan"].map(|limit| Settings::of(&from_toml(&format!("limit = {limit}")).unwrap()).group);
        assert_ne!(limits[0], limits[1]);
        assert!(from_toml("env =").is_err());
        let flat: Vec<_> = flat(&settings).into_keys().collect();
        assert_eq!(flat, ["env", "learner.grad_clip", "learner.lr"]);
    }
}
