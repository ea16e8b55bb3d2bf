//! Golden files.

use pronk_golden::json;
use serde_json::Value;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "golden",
    promise: "Every number of a golden file is read as it is written, in its order, and nothing else as a number.",
    run,
};

fn run(bytes: &[u8]) -> bool {
    let Ok(file) = serde_json::from_slice::<Value>(bytes) else { return false };
    for (name, value) in file.as_object().into_iter().flatten() {
        let section = json::section(&file, name);
        assert_eq!(section.len(), value.as_array().map_or(0, Vec::len));
        section.iter().enumerate().for_each(|(index, entry)| drop(json::name_of(entry, index)));
    }
    let mut paths = Vec::new();
    collect(&file, "", &mut paths);
    paths.iter().map(|path| values_at(&file, path)).sum::<usize>() > 0
}

/// The paths of all values below one.
fn collect(value: &Value, path: &str, found: &mut Vec<String>) {
    let mut below = |part: &str, value: &Value| {
        let path = if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
        collect(value, &path, found);
        found.push(path);
    };
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, value)| below(&n.to_string(), value)),
        _ => {}
    }
}

/// Reads what is at a path as everything that it may be; how many numbers it is.
fn values_at(value: &Value, path: &str) -> usize {
    let Ok(found) = json::get(value, path) else { return 0 };
    let (mut leaves, mut n_numbers) = (Vec::new(), 0);
    flatten(found, &mut leaves);
    if let Ok(floats) = json::floats_at(value, path) {
        let written: Vec<f64> = leaves.iter().filter_map(|leaf| written_number(leaf)).collect();
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&floats), bits(&written));
        assert_eq!(floats.len(), leaves.len());
        n_numbers = floats.len();
        if let Ok(counts) = json::usizes_at(value, path) {
            assert!(
                counts.iter().zip(&floats).all(|(&count, &float)| count as f64 == float),
                "{counts:?} of {floats:?}"
            );
        }
    }
    if let Ok(flags) = json::flags_at(value, path) {
        assert_eq!(flags.len(), leaves.len());
    }
    let single = [
        json::number_at(value, path).is_ok(),
        json::bool_at(value, path).is_ok(),
        json::str_at(value, path).is_ok() && json::number_at(value, path).is_err(),
        json::array_at(value, path).is_ok(),
    ];
    assert!(single.iter().filter(|is| **is).count() <= 1, "{found} is two things");
    if let Ok(count) = json::usize_at(value, path) {
        assert_eq!(found.to_string(), count.to_string());
    }
    n_numbers
}

/// The number that a golden file writes so.
fn written_number(leaf: &Value) -> Option<f64> {
    match leaf {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) => text.parse().ok(),
        _ => None,
    }
}

fn flatten<'a>(value: &'a Value, leaves: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| flatten(item, leaves)),
        leaf => leaves.push(leaf),
    }
}
