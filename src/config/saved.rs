//! Configs out of checkpoints and records, which another version may have written.

use std::path::Path;

use serde_json::{Map, Value};

use super::TrainerConfig;

impl TrainerConfig {
    /// The config of a checkpoint. A setting that this version does not know, or not with this value, is
    /// left at its default, and named in a warning: it makes no checkpoint unreadable.
    pub(crate) fn of_checkpoint(saved: &Value, path: &Path) -> Self {
        let saved = as_it_acted(saved.clone());
        if let Ok(config) = serde_json::from_value(saved.clone()) {
            return config;
        }
        let mut understood = Map::new();
        for (key, value) in saved.as_object().into_iter().flatten() {
            let Value::Object(table) = value else {
                keep(&mut understood, key, value, &|value| [(key.clone(), value)].into_iter().collect(), path);
                continue;
            };
            let mut kept = Map::new();
            for (name, value) in table {
                let alone = |value| {
                    let table: Map<_, _> = [(name.clone(), value)].into_iter().collect();
                    [(key.clone(), Value::Object(table))].into_iter().collect()
                };
                keep(&mut kept, name, value, &alone, path);
            }
            understood.insert(key.clone(), Value::Object(kept));
        }
        serde_json::from_value(Value::Object(understood)).unwrap_or_default()
    }
}

/// A saved config with what the writing version did where it had no setting, unless today's default does the
/// same.
pub(crate) fn as_it_acted(mut saved: Value) -> Value {
    for algorithm in ["/algorithm/impala", "/algorithm/appo"] {
        if let Some(Value::Object(settings)) = saved.pointer_mut(algorithm) {
            settings.entry("behaviour_kl_coeff").or_insert_with(|| 0.0.into());
        }
    }
    saved
}

/// Keeps a setting that can be read alone.
fn keep(
    kept: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    alone: &dyn Fn(Value) -> Map<String, Value>,
    path: &Path,
) {
    match serde_json::from_value::<TrainerConfig>(Value::Object(alone(value.clone()))) {
        Ok(_) => drop(kept.insert(key.to_owned(), value.clone())),
        Err(error) => tracing::warn!(path = %path.display(), %error, "a setting of the checkpoint is left out"),
    }
}
