//! Settings of the command line.

use std::path::Path;

use pronk_cli::{Entry, RunFile};

use super::config::{is_one_of, keys, reads_back};
use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "set",
    promise: "Each line is a flag `--set`. Settings that are accepted read back the same from the file that is \
              written of them.",
    run,
};

/// What the flags are added to.
const FILE: &str = "env = \"CartPole-v1\"\n";

fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(flags) = text.lines().map(str::parse::<Entry>).collect::<Result<Vec<_>, _>>() else { return false };
    match RunFile::parse(Path::new("run.toml"), FILE, flags) {
        Ok(file) => {
            let written = keys(reads_back(&file).parse().unwrap_or_default());
            let given: Vec<Vec<String>> = text.lines().map(key_of).collect();
            for (n, key) in given.iter().enumerate() {
                let is_last = !given[n + 1..].iter().any(|later| is_same(later, key));
                let counts = is_one_of(key, &written) || is_one_of(short(key), &written);
                // `a.float="inf"` is written as `a = inf`.
                let is_number = key.last().is_some_and(|last| last == "float");
                assert!(!is_last || counts || is_number, "`{}` has no effect: {written:?}", key.join("."));
            }
            true
        }
        Err(error) => refused(error),
    }
}

/// The path that a flag sets.
fn key_of(flag: &str) -> Vec<String> {
    let key = flag.split('=').next().unwrap_or_default();
    key.split('.').map(|part| part.trim().to_owned()).collect()
}

/// Whether two flags may set one key: either path may leave out the first tables. One for a table around a
/// key that another flag sets is refused, and the name of the algorithm leaves its settings.
fn is_same(later: &[String], key: &[String]) -> bool {
    let (later, key) = (short(later), short(key));
    key.ends_with(later) || later.ends_with(key)
}

/// A path without `algorithm`, which may stand before any setting of an algorithm or a group.
fn short(key: &[String]) -> &[String] {
    match key {
        [first, rest @ ..] if first == "algorithm" && !rest.is_empty() => rest,
        key => key,
    }
}
