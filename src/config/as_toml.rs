//! Settings as TOML.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

/// A tree of settings as TOML, which has no null: `"none"` stands for it, as in config files.
pub(crate) fn as_toml(settings: &Value) -> String {
    let mut text = String::new();
    if let Some(settings) = settings.as_object() {
        // Writing to a text does not fail.
        let _ = table(&mut text, "", settings);
    }
    text
}

/// The settings of a table, then its tables: a setting after the head of another table would belong to that.
fn table(text: &mut String, path: &str, settings: &Map<String, Value>) -> fmt::Result {
    let (tables, values): (Vec<_>, Vec<_>) = settings.iter().partition(|(_, value)| value.is_object());
    for (key, value) in values {
        writeln!(text, "{} = {}", name(key), inline(value))?;
    }
    for (key, below) in tables {
        let path = if path.is_empty() { name(key) } else { format!("{path}.{}", name(key)) };
        writeln!(text, "\n[{path}]")?;
        below.as_object().map_or(Ok(()), |below| table(text, &path, below))?;
    }
    Ok(())
}

fn inline(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "\"none\"".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", list(items.iter().map(inline).collect())),
        Value::Object(below) => {
            let item = |(key, value): (&String, &Value)| format!("{} = {}", name(key), inline(value));
            format!("{{ {} }}", list(below.iter().map(item).collect()))
        }
        // Whole numbers of TOML end at 2⁶³ − 1, and seeds later.
        Value::Number(number) if number.is_u64() && !number.is_i64() => quoted(&number.to_string()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn name(key: &str) -> String {
    let is_bare = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// A basic string, whose escapes are those of JSON; JSON leaves one control character as it is.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::TrainerConfig;

    fn read(text: &str) -> Value {
        serde_json::to_value(text.parse::<::toml::Table>().unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let settings = json!({
            "env": "a \"b\" \\ \n\u{7f}\u{1}é",
            "list": [1, [2.5, 1e-30], {"a": -1, "b c": []}],
            "table": {"is": true, "empty": {}, "below": {"": 3, "large": 1e300}},
            "count": u32::MAX,
        });
        assert_eq!(read(&as_toml(&settings)), settings);
        assert_eq!(
            read(&as_toml(&json!({"clip": null, "a": {"list": [null]}}))),
            json!({"clip": "none", "a": {"list": ["none"]}})
        );
        let config = serde_json::to_value(TrainerConfig::default()).unwrap();
        let text = as_toml(&config);
        assert!(read(&text)["learner"]["lr"] == config["learner"]["lr"], "{text}");
        let large = read(&as_toml(&json!({"seed": u64::MAX})));
        assert_eq!(TrainerConfig::deserialize(large).unwrap().seed, u64::MAX);
    }
}
