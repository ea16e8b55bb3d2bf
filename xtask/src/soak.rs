//! Runs under faults for hours; the stage of CI plays each for seconds.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};

use crate::command::{cargo, exit_code, succeeds};
use crate::python::target;

/// What the stage may be given, to be more than a stage.
pub(crate) fn with_arguments(stage: Command) -> Command {
    let number = |name| Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64).range(1..));
    stage
        .arg(number("minutes").help("For so long, built for release, instead of a few seconds for each run"))
        .arg(number("secs").conflicts_with("minutes").help("Seconds of each run, once"))
        .arg(number("jobs").help("Runs at a time [default: 2]"))
        .arg(
            Arg::new("cell")
                .long("cell")
                .value_name("NAME")
                .num_args(1..)
                .help("Only these, as soak/src/cells.rs says"),
        )
}

/// Plays what is asked for, built for release.
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
