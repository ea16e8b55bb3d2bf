//! Arguments of environments, which may be what a file cannot say.
//!
//! TOML has no null, JSON has no number that is not finite, and a file is no place for a secret. A table with
//! one key stands for each, and `envs/process` gives Python what it stands for:
//! [`Gymnasium`](pronk::env_process::Gymnasium#arguments) lists them.

use serde_json::{Map, Value, json};

/// `None` of Python.
pub(super) fn none() -> Value {
    json!({ "none": true })
}

/// A number, also one that is not finite.
pub(super) fn number(number: f64) -> Value {
    if number.is_finite() {
        number.into()
    } else if number.is_nan() {
        json!({ "float": "nan" })
    } else {
        json!({ "float": number.to_string() })
    }
}

/// The number that is not finite for which a table stands.
pub(super) fn not_finite(table: &Map<String, Value>) -> Option<f64> {
    match (table.len(), table.get("float")?.as_str()?) {
        (1, "inf") => Some(f64::INFINITY),
        (1, "-inf") => Some(f64::NEG_INFINITY),
        (1, "nan") => Some(f64::NAN),
        _ => None,
    }
}

/// The environment variables that arguments come from.
pub(super) fn variables(arguments: &Map<String, Value>) -> Vec<&str> {
    arguments.values().flat_map(of_value).collect()
}

fn of_value(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(list) => list.iter().flat_map(of_value).collect(),
        Value::Object(table) => match table.iter().next().filter(|_| table.len() == 1) {
            Some((key, Value::String(name))) if key == "env" => vec![name],
            Some((key, Value::Object(inner))) if key == "literal" => variables(inner),
            _ => variables(table),
        },
        _ => Vec::new(),
    }
}
