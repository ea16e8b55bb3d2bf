//! Config files: a table for each group, and every key of a group at the top level as well.

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::TrainerConfig;

const GROUPS: [&str; 4] = ["workers", "learner", "supervision", "results"];

impl Serialize for TrainerConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for TrainerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let known = serde_json::to_value(Self::default()).map_err(D::Error::custom)?;
        let mut grouped = Map::new();
        for (key, value) in deserializer.deserialize_map(Entries)? {
            match value {
                Value::Object(table) if GROUPS.contains(&key.as_str()) => {
                    for (name, value) in table {
                        put(&known, &mut grouped, Some(&key), name, value).map_err(D::Error::custom)?;
                    }
                }
                value => put(&known, &mut grouped, None, key, value).map_err(D::Error::custom)?,
            }
        }
        Self::deserialize(Value::Object(grouped)).map_err(D::Error::custom)
    }
}

/// Puts a key where it belongs, after it was read alone: so an error can name it.
fn put(
    known: &Value,
    grouped: &mut Map<String, Value>,
    given_in: Option<&str>,
    key: String,
    value: Value,
) -> Result<(), String> {
    let group = GROUPS.into_iter().find(|group| known[group].get(&key).is_some());
    let place = given_in.map(|group| format!(" in `{group}`")).unwrap_or_default();
    match (group, given_in) {
        (None, None) if known.get(&key).is_some() => {}
        (Some(group), Some(given)) if group != given => {
            return Err(format!("unknown field `{key}`{place}: it belongs to `{group}`"));
        }
        (Some(_), _) => {}
        (None, _) => {
            let keys = given_in.map_or(known, |group| &known[group]).as_object().into_iter().flat_map(Map::keys);
            let keys = keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "unknown field `{key}`{place}, expected one of {keys}, or a key of a group at the top"
            ));
        }
    }
    let alone = match group {
        Some(group) => json!({ group: { &key: &value } }),
        None => json!({ &key: &value }),
    };
    TrainerConfig::deserialize(alone).map_err(|error| format!("`{key}`{place}: {error}"))?;
    let table = match group {
        Some(group) => grouped.entry(group).or_insert_with(|| json!({})).as_object_mut(),
        None => Some(grouped),
    };
    match table.and_then(|table| table.insert(key.clone(), value)) {
        Some(_) => Err(format!("`{key}` is given twice: write it once, at the top level or in its group")),
        None => Ok(()),
    }
}

/// All keys of a table with their values, those given twice as well.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the settings of a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        std::iter::from_fn(|| map.next_entry().transpose()).collect()
    }
}
