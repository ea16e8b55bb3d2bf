//! pronk beside other libraries: runs the works of `benches/peers.toml`, and writes `docs/benchmarks.md`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::ArgMatches;

use crate::command::{cargo, exit_code, succeeds};
use crate::python;

/// The programs of pronk that are measured.
const BUILDS: [&str; 3] = [
    "build --release --package pronk-cli",
    "build --release --example cartpole",
    "bench --no-run --features env-process --bench policy --bench processes",
];

/// Runs what has no figures yet. Peers are installed below `target/peers`.
pub(crate) fn run(root: &Path, args: &ArgMatches) -> Result<ExitCode> {
    let target = python::target(root);
    let built = args.get_one::<PathBuf>("bin-dir");
    if built.is_none() && !args.get_flag("table") {
        for build in BUILDS {
            if !succeeds(&mut cargo(root, build))? {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let mut script = Command::new("python3");
    // Scripts import their neighbours, whose bytecode would lie in the repository.
    script.env("PYTHONDONTWRITEBYTECODE", "1");
    script.arg(root.join("xtask/python/peers.py")).arg("--root").arg(root);
    script.arg("--folder").arg(target.join("peers"));
    script.arg("--bin-dir").arg(built.map_or_else(|| target.join("release"), PathBuf::clone));
    if let Some(prefix) = args.get_one::<String>("prefix") {
        script.arg(format!("--prefix={prefix}"));
    }
    for flag in ["quick", "table"] {
        if args.get_flag(flag) {
            script.arg(format!("--{flag}"));
        }
    }
    script.args(args.get_many::<String>("works").into_iter().flatten());
    Ok(exit_code(script.status().context("cannot run python3, 3.11 or newer")?.success()))
}
