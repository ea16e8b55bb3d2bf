//! The answers: JSON of what is on the board, made once for each version.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::board::{Details, List, Run};
use crate::settings::flat;

/// The maximal number of answers that are kept. One has some hundred kilobytes.
const MAX_KEPT: usize = 32;

/// The maximal number of settings in a comparison.
const MAX_KEYS: usize = 1000;

/// A run that was asked for with others, and why it is not in the answer.
#[derive(Debug, Serialize)]
pub(crate) struct Missing {
    pub(crate) id: String,
    pub(crate) reason: String,
}

/// Answers that more than one browser may ask for.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<BTreeMap<String, (u64, Bytes)>>);

impl Answers {
    /// The answer to `question` in this version.
    pub(crate) fn get(&self, question: &str, version: u64, make: impl FnOnce() -> Value) -> Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = kept.get(question).filter(|(its_version, _)| *its_version == version) {
            return answer.clone();
        }
        let answer = Bytes::from(make().to_string());
        kept.insert(question.to_owned(), (version, answer.clone()));
        if kept.len() > MAX_KEPT {
            let oldest = kept.iter().min_by_key(|(_, (version, _))| *version).map(|(question, _)| question.clone());
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        answer
    }
}

/// `/api/runs`
pub(crate) fn list(mut list: List) -> Value {
    list.runs.sort_by_key(|run| Reverse((run.began, run.name.clone())));
    let sweeps: Vec<&Value> = list.sweeps.iter().map(|sweep| &sweep.entry).collect();
    let runs: Vec<_> = list.runs.iter().map(|run| json!(**run)).collect();
    json!({
        "runs": runs,
        "sweeps": sweeps,
        "watched": list.watched,
        "problems": list.problems,
        "is_complete": list.is_complete,
    })
}

/// `/api/runs/ID`
pub(crate) fn run(run: &Run, details: &Details) -> Value {
    let mut answer = details.history.to_json(&details.settings);
    answer["summary"] = json!(*run.summary);
    answer["info"] = exact(&details.info);
    answer["videos"] = json!(*details.videos);
    answer["sample"] = json!(details.sample);
    answer
}

/// `/api/curves`
pub(crate) fn curves(runs: &[(Run, Details)], missing: &[Missing]) -> Value {
    let curves = |(run, details): &(Run, Details)| {
        let mut curves = details.history.curves();
        let summary = &run.summary;
        curves["id"] = json!(summary.id);
        curves["name"] = json!(summary.name);
        curves["seed"] = json!(summary.settings.seed.map(|seed| seed.to_string()));
        curves["group"] = json!(summary.settings.group);
        curves["state"] = json!(summary.state);
        curves
    };
    json!({"runs": runs.iter().map(curves).collect::<Vec<_>>(), "missing": missing})
}

/// `/api/differences`
pub(crate) fn differences(runs: &[(Run, Details)], missing: &[Missing]) -> Value {
    let settings: Vec<_> = runs.iter().map(|(_, details)| flat(&details.settings)).collect();
    let keys: BTreeSet<&String> = settings.iter().flat_map(BTreeMap::keys).collect();
    let values = |key: &String| settings.iter().map(|settings| settings.get(key).copied()).collect::<Vec<_>>();
    let differing = keys.into_iter().map(|key| (key, values(key))).filter(|(_, values)| {
        let first = values.first().copied().flatten();
        values.iter().any(|value| *value != first)
    });
    let row = |(key, values): (&String, Vec<Option<&Value>>)| {
        let values: Vec<_> = values.into_iter().map(|value| value.map(exact)).collect();
        json!({"key": key, "values": values})
    };
    let rows: Vec<_> = differing.take(MAX_KEYS).map(row).collect();
    let ids: Vec<_> = runs.iter().map(|(run, _)| &run.summary.id).collect();
    json!({"runs": ids, "keys": rows, "missing": missing})
}

/// A value in which integers that JavaScript would round, as long seeds, are text.
fn exact(value: &Value) -> Value {
    const MAX_SAFE: u64 = (1 << 53) - 1;
    match value {
        Value::Number(number) if number.as_u64().is_some_and(|number| number > MAX_SAFE) => json!(number.to_string()),
        Value::Number(number) if number.as_i64().is_some_and(|number| number.unsigned_abs() > MAX_SAFE) => {
            json!(number.to_string())
        }
        Value::Array(list) => list.iter().map(exact).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), exact(value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_javascript_would_round_are_text() {
        let value = json!({"a": [u64::MAX, (1_u64 << 53) - 1], "b": i64::MIN, "c": -7, "d": 1e300, "e": null});
        let expected = json!({
            "a": ["18446744073709551615", (1_u64 << 53) - 1], "b": "-9223372036854775808", "c": -7, "d": 1e300, "e": null,
        });
        assert_eq!(exact(&value), expected);
    }
}
