//! Settings of the command line.

use std::path::Path;

use pronk_cli::{Entry, RunFile};

use super::config::reads_back;
use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "set",
    promise: "Each line is a flag `--set`. Settings that are accepted read back the same from the file that is \
              written of them.",
    run,
};

/// What the flags are added to.
const FILE: &str = "env = \"CartPole-v1\"\n";

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(flags) = text.lines().map(str::parse::<Entry>).collect::<Result<Vec<_>, _>>() else { return };
    match RunFile::parse(Path::new("run.toml"), FILE, flags) {
        Ok(file) => drop(reads_back(&file)),
        Err(error) => drop(error.to_string()),
    }
}
