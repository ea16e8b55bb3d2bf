//! Reading golden JSON: numbers with their non-finite spellings, nested arrays, and keys by path.
//!
//! JSON has no NaN and no infinity; the golden files write `"NaN"`, `"Infinity"` and `"-Infinity"`.
//! Every `*_at` function takes a dotted path (`"expected.vs"`, `"steps.3.in"`: a number indexes an
//! array) and names that path, as far as it got, when something is missing or of the wrong type.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The value at `path`.
pub fn get<'a>(value: &'a Value, path: &str) -> Result<&'a Value> {
    let mut here = value;
    for (depth, part) in path.split('.').enumerate() {
        let next = match here {
            Value::Object(map) => map.get(part),
            Value::Array(items) => part.parse().ok().and_then(|i: usize| items.get(i)),
            _ => None,
        };
        here = next.with_context(|| {
            let walked: Vec<&str> = path.split('.').take(depth + 1).collect();
            format!("missing key `{}` (of `{path}`)", walked.join("."))
        })?;
    }
    Ok(here)
}

/// The value at `path`; `None` where the key is absent or `null`.
pub fn optional<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    get(value, path).ok().filter(|found| !found.is_null())
}

/// One number, `"NaN"`, `"Infinity"` and `"-Infinity"` included.
pub fn number(value: &Value) -> Result<f64> {
    match value {
        Value::Number(n) => n.as_f64().with_context(|| format!("{n} does not fit an f64")),
        Value::String(text) => match text.as_str() {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => bail!("expected a number, got the string {text:?}"),
        },
        other => bail!("expected a number, got {}", kind_of(other)),
    }
}

/// All numbers of a number or an arbitrarily nested array, in reading order. `null` is an error: ask
/// for it with [`optional`].
pub fn floats(value: &Value) -> Result<Vec<f64>> {
    let mut flat = Vec::new();
    flatten(value, &mut flat)?;
    Ok(flat)
}

fn flatten(value: &Value, flat: &mut Vec<f64>) -> Result<()> {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten(item, flat).with_context(|| format!("at index {index}"))?;
            }
        }
        _ => flat.push(number(value)?),
    }
    Ok(())
}

/// The number at `path`.
pub fn number_at(value: &Value, path: &str) -> Result<f64> {
    number(get(value, path)?).with_context(|| at(path))
}

/// The number at `path`; `None` where it is absent or `null`.
pub fn optional_number_at(value: &Value, path: &str) -> Result<Option<f64>> {
    optional(value, path).map(|found| number(found).with_context(|| at(path))).transpose()
}

/// All numbers at `path`, flattened in reading order.
pub fn floats_at(value: &Value, path: &str) -> Result<Vec<f64>> {
    floats(get(value, path)?).with_context(|| at(path))
}

/// The non-negative whole number at `path`.
pub fn usize_at(value: &Value, path: &str) -> Result<usize> {
    let found = get(value, path)?;
    found
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .with_context(|| format!("`{path}`: expected a count, got {found}"))
}

/// The non-negative whole numbers at `path`, flattened in reading order.
pub fn usizes_at(value: &Value, path: &str) -> Result<Vec<usize>> {
    floats_at(value, path)?
        .into_iter()
        .map(|n| {
            let is_count = n >= 0.0 && n.fract() == 0.0 && n < 2f64.powi(53);
            anyhow::ensure!(is_count, "`{path}`: expected counts, got {n}");
            Ok(n as usize)
        })
        .collect()
}

/// The boolean at `path`.
pub fn bool_at(value: &Value, path: &str) -> Result<bool> {
    let found = get(value, path)?;
    found.as_bool().with_context(|| format!("`{path}`: expected true or false, got {found}"))
}

/// The booleans at `path`, also written as 0 and 1, flattened in reading order.
pub fn flags_at(value: &Value, path: &str) -> Result<Vec<bool>> {
    let mut flat = Vec::new();
    flatten_flags(get(value, path)?, &mut flat).with_context(|| at(path))?;
    Ok(flat)
}

fn flatten_flags(value: &Value, flat: &mut Vec<bool>) -> Result<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| flatten_flags(item, flat))?,
        Value::Bool(flag) => flat.push(*flag),
        other => {
            let number = number(other)?;
            anyhow::ensure!(number == 0.0 || number == 1.0, "expected true or false, got {number}");
            flat.push(number == 1.0);
        }
    }
    Ok(())
}

/// The string at `path`.
pub fn str_at<'a>(value: &'a Value, path: &str) -> Result<&'a str> {
    let found = get(value, path)?;
    found.as_str().with_context(|| format!("`{path}`: expected a string, got {}", kind_of(found)))
}

/// The array at `path`.
pub fn array_at<'a>(value: &'a Value, path: &str) -> Result<&'a [Value]> {
    let found = get(value, path)?;
    match found {
        Value::Array(items) => Ok(items),
        other => bail!("`{path}`: expected an array, got {}", kind_of(other)),
    }
}

/// The entries of the section `section` of a golden file; empty where the file has no such section.
pub fn section<'a>(file: &'a Value, section: &str) -> &'a [Value] {
    match file.get(section) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

/// What to call entry number `index`: its `name` or `case`, else its number.
pub fn name_of(entry: &Value, index: usize) -> String {
    ["name", "case"]
        .iter()
        .find_map(|key| entry.get(key).and_then(Value::as_str))
        .map_or_else(|| format!("#{index}"), str::to_owned)
}

fn at(path: &str) -> String {
    format!("at `{path}`")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Top-level keys of a golden file that describe it rather than hold entries.
pub(crate) const NOT_SECTIONS: &[&str] = &["source", "notes"];

/// (kind, name) of every entry: the objects in the file's top-level arrays. The kind is the section,
/// followed by the entry's own algorithm or kind where it states one.
pub(crate) fn entries(file: &Value) -> Vec<(String, String)> {
    let Some(sections) = file.as_object() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (section, content) in sections {
        let Value::Array(items) = content else {
            continue;
        };
        if NOT_SECTIONS.contains(&section.as_str()) {
            continue;
        }
        for (index, item) in items.iter().enumerate().filter(|(_, i)| i.is_object()) {
            let stated = ["algo", "kind", "env"].iter().filter_map(|key| item.get(key).and_then(Value::as_str));
            let kind: Vec<&str> = [section.as_str()].into_iter().chain(stated).collect();
            found.push((kind.join("/"), name_of(item, index)));
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_key_is_named_with_the_path_walked() {
        let value = json!({"expected": {"steps": [{"vs": 1.0}]}});
        assert_eq!(number_at(&value, "expected.steps.0.vs").unwrap(), 1.0);
        let error = get(&value, "expected.steps.1.vs").unwrap_err().to_string();
        assert_eq!(error, "missing key `expected.steps.1` (of `expected.steps.1.vs`)");
    }

    #[test]
    fn nested_arrays_flatten_and_non_finite_spellings_are_numbers() {
        let flat = floats(&json!([[1, "NaN"], ["-Infinity", [2.5]], "Infinity"])).unwrap();
        assert_eq!(flat.len(), 5);
        assert!(flat[1].is_nan());
        assert_eq!((flat[2], flat[3], flat[4]), (f64::NEG_INFINITY, 2.5, f64::INFINITY));
    }

    #[test]
    fn null_is_none_only_where_it_was_asked_for() {
        let value = json!({"clip": null, "lr": 0.5});
        assert_eq!(optional_number_at(&value, "clip").unwrap(), None);
        assert_eq!(optional_number_at(&value, "absent").unwrap(), None);
        assert_eq!(optional_number_at(&value, "lr").unwrap(), Some(0.5));
        let error = format!("{:#}", number_at(&value, "clip").unwrap_err());
        assert_eq!(error, "at `clip`: expected a number, got null");
    }

    #[test]
    fn flags_are_booleans_or_0_and_1_and_nothing_else() {
        let value = json!({"dones": [[true, 0], [1.0, false]], "other": [2]});
        assert_eq!(flags_at(&value, "dones").unwrap(), [true, false, true, false]);
        assert!(flags_at(&value, "other").is_err());
    }

    #[test]
    fn a_count_is_neither_negative_nor_broken() {
        let value = json!({"n": -1, "ns": [1, 2.5]});
        assert!(usize_at(&value, "n").is_err());
        assert!(usizes_at(&value, "ns").is_err());
    }
}
