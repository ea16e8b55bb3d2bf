//! Config files.

use std::collections::BTreeSet;
use std::path::Path;

use pronk::TrainerConfig;
use pronk_cli::RunFile;

use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "config",
    promise: "A config file that is accepted reads back the same from what is written of it, and every key in it \
              is one of its settings.",
    run,
};

const PATH: &str = "run.toml";

fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    trainer(text);
    match RunFile::parse(Path::new(PATH), text, Vec::new()) {
        Ok(file) => {
            let written = reads_back(&file);
            let document: toml::Table = text.parse().unwrap_or_default();
            let known = keys(written.parse().unwrap_or_default());
            let unknown = keys(document).into_iter().find(|key| !is_one_of(key, &known));
            assert!(unknown.is_none(), "an unknown key was accepted: {unknown:?}");
            true
        }
        Err(error) => refused(error),
    }
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

/// Whether a key is there: its path may leave out the first tables, and the name of the algorithm.
pub(super) fn is_one_of(key: &[String], known: &BTreeSet<Vec<String>>) -> bool {
    let short = key.strip_prefix(&["algorithm".to_owned()]);
    let of_algorithm = |path: &[String]| path[0] == "algorithm" && short.is_some_and(|short| path.ends_with(short));
    known.iter().any(|path| path.ends_with(key) || of_algorithm(path))
}

/// The paths of all keys of a document.
pub(super) fn keys(document: toml::Table) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    collect(&document.into(), &[], &mut found);
    found
}

fn collect(value: &toml::Value, path: &[String], found: &mut BTreeSet<Vec<String>>) {
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(key, value)| {
            let path = [path, std::slice::from_ref(key)].concat();
            collect(value, &path, found);
            found.insert(path);
        }),
        toml::Value::Array(list) => list.iter().for_each(|value| collect(value, path, found)),
        _ => {}
    }
}
