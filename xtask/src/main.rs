//! Development tasks of pronk: everything that CI runs, as `cargo xtask <stage>`.
//!
//! This package depends on no room, so that it builds in seconds and still works when a room does not.

mod browser;
mod command;
mod cuda;
mod deny;
mod exports;
mod fuzz;
mod learning;
mod peers;
mod python;
mod readers;
mod release;
mod sanitize;
mod soak;
mod stages;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, value_parser};

use stages::{CUDA, STAGES};

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let matches = command_line().get_matches();
    match matches.subcommand() {
        Some(("golden", args)) => stages::golden(&root, args.get_one::<PathBuf>("dir")),
        Some(("learning", args)) => learning::run(&root, args),
        Some(("toolkit", _)) => stages::toolkit(&root),
        Some(("peers", args)) => peers::run(&root, args),
        Some(("release", args)) => release::check(&root, args.get_one::<String>("baseline")),
        Some(("sanitize", _)) => sanitize::run(&root),
        Some(("picture", _)) => stages::picture(&root),
        Some(("crash", args)) => stages::crash(&root, args.get_one::<u64>("kills").copied()),
        Some(("soak", args)) if args.args_present() => soak::run(&root, args),
        Some(("fuzz", args)) if args.args_present() => fuzz::run(&root, args),
        Some((name, _)) if name != "ci" => stages::one(&root, name),
        _ => stages::ci(&root),
    }
}

fn command_line() -> Command {
    let dir = Arg::new("dir").value_name("DIR").value_parser(value_parser!(PathBuf));
    let kills = Arg::new("kills").value_name("KILLS").value_parser(value_parser!(u64));
    let seeds = Arg::new("seeds").long("seeds").value_name("N").value_parser(value_parser!(u64).range(1..));
    let baseline = Arg::new("baseline").long("baseline").value_name("REVISION");
    let stages = STAGES.iter().map(|stage| {
        let command = Command::new(stage.name).about(stage.about);
        if stage.name == "fuzz" { fuzz::command_line(command) } else { command }
    });
    Command::new("cargo xtask")
        .about("Development tasks of pronk")
        .subcommand_required(true)
        .subcommand(Command::new("ci").about("Run every stage below, in order, and stop at the first that fails"))
        .subcommands(stages)
        .mut_subcommand("soak", soak::with_arguments)
        .subcommand(Command::new(CUDA.name).about(CUDA.about))
        .subcommand(
            Command::new("crash")
                .about("Kill runs of every kind at random times and go on with each until it ends; `test` kills fewer")
                .arg(kills.help("How many kills, over all kinds of runs [default: 100]")),
        )
        .subcommand(
            Command::new("learning")
                .about("Train the tasks of benches/learning.toml over many seeds, and write docs/learning.md")
                .arg(Arg::new("tasks").value_name("TASK").num_args(0..).help(
                    "The tasks to train [default: all]; `lag`, and then runs of benches/lag.toml, for docs/lag.md",
                ))
                .arg(seeds.help("Seeds 1 to this one [default: as many as the task says]"))
                .arg(Arg::new("table").long("table").action(ArgAction::SetTrue).help("Train nothing, write the table")),
        )
        .subcommand(peers_command())
        .subcommand(
            Command::new("picture")
                .about("Train, and take the pictures of the live page that the docs show, with Debian's chromium"),
        )
        .subcommand(
            Command::new("release")
                .about("Check what a release would publish: every package, README's examples, the interface")
                .arg(
                    baseline.help("A git revision that the public interface is compared with, by cargo-semver-checks"),
                ),
        )
        .subcommand(
            Command::new("sanitize").about(
                "Run tests under Miri, AddressSanitizer, ThreadSanitizer and valgrind, as far as these are there",
            ),
        )
        .subcommand(
            Command::new("toolkit").about("Install a CUDA toolkit below target/ from PyPI, and print its folder"),
        )
        .subcommand(
            Command::new("golden")
                .about("Compare with golden numbers and print what was compared; `test` runs the same code")
                .arg(dir.help("A directory of golden files [default: tests/golden of this repository]")),
        )
}

fn peers_command() -> Command {
    let bin_dir = Arg::new("bin-dir").long("bin-dir").value_name("DIR").value_parser(value_parser!(PathBuf));
    let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("peers")
        .about("Measure pronk beside other libraries, as benches/peers.toml says, and write docs/benchmarks.md")
        .arg(Arg::new("works").value_name("WORK").num_args(0..).help("The works to measure [default: all]"))
        .arg(flag("quick").help("One round after the choice of settings, of two settings each"))
        .arg(flag("table").help("Measure nothing, write the page"))
        .arg(bin_dir.help("A folder with programs of pronk, instead of building them"))
        .arg(
            Arg::new("prefix")
                .long("prefix")
                .value_name("COMMAND")
                .allow_hyphen_values(true)
                .help("A command to run each measurement with, such as \"taskset -c 0,1\""),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn every_stage_of_ci_can_be_called_alone() {
        for stage in STAGES {
            let called = command_line().try_get_matches_from(["xtask", stage.name]);
            assert_eq!(called.ok().and_then(|m| m.subcommand_name().map(str::to_owned)), Some(stage.name.to_owned()));
        }
    }
}
