//! The settings of a run as a table, and what they say about its name.

use std::fmt::Write;

use serde_json::Value;

use super::text::{counted, escape, nothing, shortened};

const MAX_ROWS: usize = 400;
const MAX_VALUE_CHARS: usize = 400;

/// What the settings call the value of the first of `keys` that they have.
pub(super) fn named<'a>(settings: &'a Value, keys: &[&str]) -> Option<&'a str> {
    let value = keys.iter().find_map(|key| settings.get(key))?;
    match value {
        Value::String(name) => Some(name),
        // An enum with fields is an object of one key; other objects may have a name.
        Value::Object(fields) if fields.len() == 1 => fields.keys().next().map(String::as_str),
        _ => value.get("name")?.as_str(),
    }
}

/// Writes one row for every setting that is no object itself.
pub(super) fn draw(settings: &Value, out: &mut String) {
    let mut rows = Vec::new();
    add_rows(settings, String::new(), &mut rows);
    if settings.is_null() || rows.is_empty() {
        return nothing(out, "The report was given no settings.");
    }
    out.push_str("<div class=\"scroll\"><table class=\"settings\"><tbody>\n");
    for (name, value) in rows.iter().take(MAX_ROWS) {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = escape(&shortened(&value, MAX_VALUE_CHARS));
        let name = escape(&shortened(name, MAX_VALUE_CHARS));
        let _ = writeln!(out, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>");
    }
    out.push_str("</tbody></table></div>\n");
    if rows.len() > MAX_ROWS {
        let more = counted((rows.len() - MAX_ROWS) as u64, "further setting");
        nothing(out, &format!("And {more} that found no room."));
    }
}

fn add_rows<'a>(value: &'a Value, name: String, rows: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                add_rows(field, name, rows);
            }
        }
        leaf => rows.push((name, leaf)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let mut out = String::new();
        draw(&json!({"a": {"b": [1, 2], "c": {}}, "d": "<x>", "e": null}), &mut out);
        for row in ["a.b</th><td>[1,2]", "a.c</th><td>{}", "d</th><td>&lt;x&gt;", "e</th><td>null"] {
            assert!(out.contains(row), "{row}: {out}");
        }
        let many: serde_json::Map<_, _> = (0..450).map(|i| (i.to_string(), json!(i))).collect();
        let mut out = String::new();
        draw(&Value::Object(many), &mut out);
        assert!(out.matches("<tr>").count() == MAX_ROWS && out.contains("50 further settings"), "{out}");
    }
}
