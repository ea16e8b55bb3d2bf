//! Config files: a table for each group, or its keys at the top level.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{AlgorithmConfig, TrainerConfig};

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
        for (key, value) in deserializer.deserialize_map(Table)? {
            match value {
                Value::Object(table) if GROUPS.contains(&key.as_str()) => {
                    table.into_iter().try_for_each(|(name, value)| put(&known, &mut grouped, Some(&key), name, value))
                }
                value => put(&known, &mut grouped, None, key, value),
            }
            .map_err(D::Error::custom)?;
        }
        let read = |settings| Self::deserialize(Value::Object(settings)).map_err(D::Error::custom);
        let named = read(grouped.clone())?;
        let own_minibatch = grouped.get("learner").is_some_and(|own| own.get("sgd_minibatch_size").is_some());
        put_defaults(&mut grouped, named.algorithm).map_err(D::Error::custom)?;
        let mut config = read(grouped)?;
        if !own_minibatch {
            config.fit_minibatch();
        }
        Ok(config)
    }
}

/// Puts the defaults of an algorithm where the file names no setting.
fn put_defaults(grouped: &mut Map<String, Value>, algorithm: AlgorithmConfig) -> Result<(), serde_json::Error> {
    let TrainerConfig { learner, model, .. } = TrainerConfig::for_algorithm(algorithm);
    for (table, defaults) in [("learner", serde_json::to_value(learner)?), ("model", serde_json::to_value(model)?)] {
        let named = grouped.entry(table).or_insert_with(|| json!({}));
        if let (Value::Object(named), Value::Object(defaults)) = (named, defaults) {
            for (key, value) in defaults {
                named.entry(key).or_insert(value);
            }
        }
    }
    Ok(())
}

/// Puts a key into its group, after reading it alone, so that an error names it.
fn put(
    known: &Value,
    grouped: &mut Map<String, Value>,
    given_in: Option<&str>,
    key: String,
    value: Value,
) -> Result<(), String> {
    let group = GROUPS.into_iter().find(|group| known[group].get(&key).is_some());
    let place = given_in.map(|group| format!(" in `{group}`")).unwrap_or_default();
    if let (Some(group), Some(given)) = (group, given_in)
        && group != given
    {
        return Err(format!("unknown field `{key}`{place}: it belongs to `{group}`"));
    }
    if group.is_none() && (given_in.is_some() || known.get(&key).is_none()) {
        let keys = given_in.map_or(known, |group| &known[group]).as_object().into_iter().flat_map(Map::keys);
        let keys = keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        return Err(format!("unknown field `{key}`{place}, expected one of {keys}, or a key of a group at the top"));
    }
    let entry = json!({ &key: value });
    let alone = group.map_or_else(|| entry.clone(), |group| json!({ group: entry }));
    TrainerConfig::deserialize(alone).map_err(|error| format!("`{key}`{place}: {error}"))?;
    let table = match group {
        Some(group) => grouped.entry(group).or_insert_with(|| json!({})).as_object_mut(),
        None => Some(grouped),
    };
    match table.and_then(|table| table.insert(key.clone(), entry[&key].clone())) {
        Some(_) => Err(given_twice(&key)),
        None => Ok(()),
    }
}

fn given_twice(key: &str) -> String {
    format!("`{key}` is given twice: write it once, at the top level or in its group")
}

/// A table that refuses a key given twice, of which [`Value`] would keep the last one.
struct Table;

impl<'de> Visitor<'de> for Table {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings of a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut table = Map::new();
        std::iter::from_fn(|| map.next_entry::<String, Given>().transpose()).try_for_each(|entry| {
            let (key, Given(value)) = entry?;
            match table.insert(key.clone(), value) {
                Some(_) => Err(A::Error::custom(given_twice(&key))),
                None => Ok(()),
            }
        })?;
        Ok(table)
    }
}

/// A value of a file. A number that is not finite, as TOML allows, is kept as text, which no field for
/// numbers takes: as a [`Value`] it would become null, which means "none" for an optional field.
struct Given(Value);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor).map(Self)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a setting")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(if value.is_finite() { value.into() } else { value.to_string().into() })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let values = std::iter::from_fn(|| list.next_element().transpose());
        values.map(|value| value.map(|Given(value)| value)).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Table.visit_map(map).map(Value::Object)
    }
}
