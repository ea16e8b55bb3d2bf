//! [`RunFile`]: the settings of a run, from a file and from flags.

mod arguments;
mod document;
mod entry;
mod error;
mod keys;
mod tables;
#[cfg(test)]
mod tests;
mod write;

use std::fs;
use std::path::Path;

use pronk::TrainerConfig;
use serde_json::{Map, Value};

pub(crate) use self::document::json;
pub(crate) use self::entry::shown;
pub use self::entry::{Entry, Source};
pub use self::error::FileError;
use self::keys::{ALGORITHMS, Keys};
pub(crate) use self::tables::{EnvOptions, Log, MultiAgent, Policies, Stop, Timeout, env_steps};

/// Every setting of a run, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// The environment, as `pronk envs` names it.
    pub(crate) env: String,
    /// What the environment is made with.
    pub(crate) env_options: EnvOptions,
    /// The policies, if it has several agents.
    pub(crate) multi_agent: MultiAgent,
    /// The limits.
    pub(crate) stop: Stop,
    /// What is logged beside the files of every run.
    pub(crate) log: Log,
    /// The settings of the trainer.
    pub(crate) config: TrainerConfig,
}

impl RunFile {
    /// As [`parse`](Self::parse), of the file `path`.
    pub(crate) fn read(path: &Path, flags: Vec<Entry>) -> Result<Self, FileError> {
        let unread = |cause| FileError::Unread { path: path.to_owned(), cause };
        Self::parse(path, &fs::read_to_string(path).map_err(unread)?, flags)
    }

    /// The settings in the text of the file `path`, then the flags, which win.
    ///
    /// # Errors
    /// The first setting that is unknown, given twice, or cannot be as it is, with its place.
    pub fn parse(path: &Path, text: &str, flags: Vec<Entry>) -> Result<Self, FileError> {
        Self::of(path, &mut entries(path, text, flags)?)
    }

    /// As [`parse`](Self::parse), but each of the flags must count.
    ///
    /// # Errors
    /// Also the first one that a later one replaces, or that is a setting of another algorithm.
    pub(crate) fn parse_all(path: &Path, text: &str, flags: &[Entry]) -> Result<Self, FileError> {
        let mut entries = entries(path, text, flags.to_vec())?;
        if let Some(flag) = flags.iter().find(|flag| entries.iter().all(|entry| entry.source != flag.source)) {
            let reason = "has no effect: it is a setting of another algorithm, or another key replaces it";
            return Err(flag.at_fault(&format!("`{}` {reason}", flag.key.join("."))));
        }
        Self::of(path, &mut entries)
    }

    /// The settings that entries make, each of which is checked alone first, so that an error has its place.
    fn of(path: &Path, entries: &mut [Entry]) -> Result<Self, FileError> {
        for entry in &mut *entries {
            entry.check_depth()?;
            let reads = |entry: &Entry| Self::deserialize(tree(std::slice::from_ref(entry)));
            // TOML has no null, so `"none"` stands for it, except where a text is expected. An argument may
            // be any text: of those, only a flag without quotes is null.
            let value = match entry.value.clone() {
                Value::Null if entry.is_argument() && entry.key.len() > 2 => arguments::none(),
                value if entry.is_argument() => value,
                value => with_null(value),
            };
            let without = Entry { value, ..entry.clone() };
            if reads(&without).is_ok() {
                *entry = without;
            } else {
                reads(entry).map_err(|reason| entry.wrong(&reason))?;
            }
        }
        let file = Self::deserialize(tree(entries)).map_err(|reason| FileError::whole(path, reason))?;
        if file.env.is_empty() {
            return Err(FileError::whole(
                path,
                "`env` is missing: name the environment, as `pronk envs` lists them".into(),
            ));
        }
        file.config.check().map_err(|error| {
            let given = entries.iter().find(|entry| entry.is_called(error.field));
            let text = error.to_string();
            given.map_or_else(|| FileError::whole(path, text.clone()), |entry| entry.at_fault(&text))
        })?;
        Ok(file)
    }

    /// The settings in a tree of full keys.
    fn deserialize(mut tree: Map<String, Value>) -> Result<Self, String> {
        fn table<T: serde::de::DeserializeOwned + Default>(
            tree: &mut Map<String, Value>,
            key: &str,
        ) -> Result<T, String> {
            let found = tree.remove(key).map(serde_json::from_value).transpose();
            Ok(found.map_err(|error| error.to_string())?.unwrap_or_default())
        }
        Ok(Self {
            env: table(&mut tree, "env")?,
            env_options: table(&mut tree, "env_options")?,
            multi_agent: table(&mut tree, "multi_agent")?,
            stop: table(&mut tree, "stop")?,
            log: table(&mut tree, "log")?,
            config: serde_json::from_value(Value::Object(tree)).map_err(|error| error.to_string())?,
        })
    }
}

/// The settings of the file, and the flags in their place.
fn entries(path: &Path, text: &str, flags: Vec<Entry>) -> Result<Vec<Entry>, FileError> {
    let keys = Keys::new();
    let mut entries = document::entries(path, text, &keys)?;
    // The algorithm first: it says whose the other settings are, wherever it stands among the flags.
    let (algorithms, others): (Vec<_>, Vec<_>) = flags.into_iter().partition(|flag| flag.key == ["algorithm"]);
    for flag in algorithms.into_iter().chain(others) {
        let flag = flag.resolved(&keys, algorithm(&entries))?;
        // Flags win over the file, and of two `--set` for one setting the later one. A flag that takes
        // another one away is refused: a table after a setting in it, or `--seed` beside `--set seed`.
        let is_lost =
            |entry: &&Entry| entry.is_lost_to(&flag) || entry.key == flag.key && entry.source.is_unlike(&flag.source);
        if let Some(lost) = entries.iter().filter(|entry| !entry.source.is_in(path)).find(is_lost) {
            let (key, other) = (lost.key.join("."), &flag.source);
            return Err(lost.at_fault(&format!("`{key}` has no effect before {other}: leave one of them out")));
        }
        entries.retain(|entry| !(entry.key == flag.key || entry.is_lost_to(&flag)));
        entries.push(flag);
    }
    with_one_algorithm(path, with_one_learning_rate(path, entries)?)
}

/// The entries without a learning rate that has no effect. That of the file gives way to the schedule of a
/// flag; any other beside a schedule is a mistake.
fn with_one_learning_rate(path: &Path, mut entries: Vec<Entry>) -> Result<Vec<Entry>, FileError> {
    let find = |key: &str| entries.iter().position(|entry| entry.key == ["learner", key]);
    let (Some(rate), Some(schedule)) = (find("lr"), find("lr_schedule")) else { return Ok(entries) };
    if with_null(entries[schedule].value.clone()).is_null() {
        return Ok(entries);
    }
    if entries[rate].source.is_in(path) && !entries[schedule].source.is_in(path) {
        entries.remove(rate);
        return Ok(entries);
    }
    let place = &entries[schedule].source;
    Err(entries[rate].at_fault(&format!(
        "`learner.lr` has no effect beside `learner.lr_schedule` ({place}): leave one of them out, or set \
         learner.lr_schedule to \"none\""
    )))
}

/// The algorithm that the entries choose, the default one if they choose none.
fn algorithm(entries: &[Entry]) -> &str {
    match entries.iter().rev().find(|entry| entry.key[0] == "algorithm") {
        None => ALGORITHMS[0],
        Some(entry) => entry.key.get(1).map(String::as_str).or(entry.value.as_str()).unwrap_or_default(),
    }
}

/// The entries without settings of the file that are of another algorithm than a flag chooses. A flag of
/// another algorithm is a mistake.
fn with_one_algorithm(path: &Path, mut entries: Vec<Entry>) -> Result<Vec<Entry>, FileError> {
    let by_name = entries.iter().position(|entry| entry.key == ["algorithm"]).map(|at| entries.remove(at));
    if let Some(entry) = by_name {
        let chosen = entry.value.as_str().unwrap_or_default().to_owned();
        if !ALGORITHMS.contains(&chosen.as_str()) {
            return Err(
                entry.wrong(&format!("expected one of {}", ALGORITHMS.map(|name| format!("\"{name}\"")).join(", ")))
            );
        }
        let is_of_another = |other: &Entry| other.key[0] == "algorithm" && other.key[1] != chosen;
        if let Some(other) = entries.iter().find(|other| is_of_another(other) && !other.source.is_in(path)) {
            let (key, place) = (other.key.join("."), &entry.source);
            return Err(other.at_fault(&format!(
                "`{key}` has no effect: the algorithm is `{chosen}` ({place}); leave one of them out"
            )));
        }
        entries.retain(|other| !is_of_another(other));
        // All its settings may be defaults.
        entries.push(Entry { key: vec!["algorithm".to_owned(), chosen], value: Value::Object(Map::new()), ..entry });
    }
    let mut names = entries.iter().filter(|entry| entry.key[0] == "algorithm");
    if let Some(first) = names.next()
        && let Some(other) = names.find(|other| other.key[1] != first.key[1])
    {
        return Err(other.wrong(&format!("the algorithm is `{}` already: leave one of them out", first.key[1])));
    }
    Ok(entries)
}

/// The value with null for the text "none".
fn with_null(value: Value) -> Value {
    match value {
        Value::String(text) if text == "none" => Value::Null,
        Value::Array(list) => list.into_iter().map(with_null).collect(),
        Value::Object(table) => table.into_iter().map(|(key, value)| (key, with_null(value))).collect(),
        value => value,
    }
}

/// The entries as nested objects.
fn tree(entries: &[Entry]) -> Map<String, Value> {
    let mut tree = Value::Object(Map::new());
    for entry in entries {
        let place = entry.key.iter().fold(&mut tree, |place, key| {
            if !is_table(place) {
                *place = Value::Object(Map::new());
            }
            &mut place[key.as_str()]
        });
        match (place, &entry.value) {
            // An empty table says only that the algorithm is this one.
            (Value::Object(_), Value::Object(empty)) if empty.is_empty() => {}
            (place, value) => *place = value.clone(),
        }
    }
    match tree {
        Value::Object(tree) => tree,
        _ => Map::new(),
    }
}

/// Whether a value has keys: a number that is not finite is a table too, and has none.
fn is_table(value: &Value) -> bool {
    value.as_object().is_some_and(|table| arguments::not_finite(table).is_none())
}
