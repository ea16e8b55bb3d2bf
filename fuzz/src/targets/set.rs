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
                // What is set of one algorithm has no effect if another is chosen.
                let is_last = key[0] != "algorithm" && !given[n + 1..].iter().any(|later| replaces(later, key));
                assert!(!is_last || is_one_of(key, &written), "`{}` has no effect: {written:?}", key.join("."));
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

/// Whether a later flag sets a key or a table around it: either path may leave out the first tables, and
/// `algorithm.KEY` is a setting of any group.
fn replaces(later: &[String], key: &[String]) -> bool {
    let of_a_group = later.strip_prefix(&["algorithm".to_owned()]).filter(|rest| !rest.is_empty());
    of_a_group.is_some_and(|rest| key.starts_with(rest) || key[1..].starts_with(rest))
        || (1..=key.len()).any(|len| key[..len].ends_with(later) || later.ends_with(&key[..len]))
}
