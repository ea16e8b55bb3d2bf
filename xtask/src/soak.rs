//! Runs under faults for hours; the stage of CI runs each for seconds.

use std::fs;
use std::path::Path;
use std::process::{self, ExitCode};

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};

use crate::command::{cargo, exit_code, succeeds};
use crate::python::target;

/// The stage with arguments, with which it is more than a stage.
pub(crate) fn with_arguments(stage: Command) -> Command {
    let number = |name| Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64).range(1..));
    stage
        .arg(number("minutes").help("For so long, built for release, instead of a few seconds for each run"))
        .arg(number("secs").conflicts_with("minutes").help("Seconds of each run, once"))
        .arg(number("jobs").help("Runs at a time [default: 2]"))
        .arg(Arg::new("cell").long("cell").value_name("NAME").num_args(1..).help("Only these of soak/src/cells.rs"))
}

/// Runs each cell for seconds, with the program that is built; the error has the cells that cannot be run
/// here, and why.
pub(crate) fn check(root: &Path) -> Result<Result<bool, String>> {
    let folder = target(root);
    let out = folder.join("soak/quick");
    let mut program = process::Command::new(folder.join("debug/pronk-soak"));
    if !succeeds(program.args(["--secs", "4", "--jobs", "2", "--out"]).arg(&out))? {
        return Ok(Ok(false));
    }
    let table = fs::read_to_string(out.join("soak.txt"))?;
    let not_checked: Vec<_> = table.lines().filter(|line| line.contains(" NOT CHECKED, as ")).collect();
    Ok(if not_checked.is_empty() { Ok(true) } else { Err(not_checked.join("; ")) })
}

/// Runs what the arguments say, built for release.
pub(crate) fn run(root: &Path, args: &ArgMatches) -> Result<ExitCode> {
    let mut program = cargo(root, "run --release --package pronk-soak --");
    program.arg("--out").arg(target(root).join("soak"));
    for name in ["minutes", "secs", "jobs"] {
        if let Some(number) = args.get_one::<u64>(name) {
            program.arg(format!("--{name}={number}"));
        }
    }
    for cell in args.get_many::<String>("cell").into_iter().flatten() {
        program.arg(format!("--cell={cell}"));
    }
    Ok(exit_code(succeeds(&mut program)?))
}
