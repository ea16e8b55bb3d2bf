//! Config files.

use std::collections::BTreeSet;
use std::path::Path;

use pronk::TrainerConfig;
use pronk_cli::RunFile;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "config",
    promise: "A config file that is accepted reads back the same from what is written of it, and every key in it \
              is one of its settings.",
    run,
};

const PATH: &str = "run.toml";

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match RunFile::parse(Path::new(PATH), text, Vec::new()) {
        Ok(file) => {
            let written = reads_back(&file);
            let document: toml::Table = text.parse().unwrap_or_default();
            let (mut given, mut known) = (BTreeSet::new(), BTreeSet::new());
            keys(document, &mut given);
            keys(written.parse().unwrap_or_default(), &mut known);
            assert!(given.is_subset(&known), "unknown keys were accepted: {:?}", given.difference(&known));
        }
        Err(error) => drop(error.to_string()),
    }
    trainer(text);
}

/// Checks that settings are the same after they were written and read, and returns what was written.
pub(super) fn reads_back(file: &RunFile) -> String {
    let written = file.to_toml().unwrap_or_else(|error| panic!("{file:?} cannot be written: {error}"));
    let read = RunFile::parse(Path::new(PATH), &written, Vec::new());
    let read = read.unwrap_or_else(|error| panic!("what was written is refused: {error}\n{written}"));
    assert_eq!(&read, file, "{written}");
    written
}

/// The library's own reader, which knows nothing of a file's other tables.
fn trainer(text: &str) {
    let Ok(config) = toml::from_str::<TrainerConfig>(text) else { return };
    let _ = config.check().map_err(|error| error.to_string());
    let json = serde_json::to_string(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    let read: TrainerConfig = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert_eq!(read, config, "{json}");
}

/// The keys of a table and of all tables below it.
fn keys(table: toml::Table, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        found.insert(key);
        values(value, found);
    }
}

fn values(value: toml::Value, found: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => keys(table, found),
        toml::Value::Array(list) => list.into_iter().for_each(|value| values(value, found)),
        _ => {}
    }
}
