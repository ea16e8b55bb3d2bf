//! The stages of CI: what each runs, how it is timed, and what is said at the end.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::readers::{self, Readers};
use crate::tidy;

/// One stage of CI; `cargo xtask <name>` runs it alone.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    work: Work,
}

enum Work {
    /// Arguments of cargo, separated by spaces.
    Cargo(&'static str),
    Tidy,
    Readers,
}

impl Stage {
    const fn cargo(name: &'static str, about: &'static str, args: &'static str) -> Self {
        let work = Work::Cargo(args);
        Self { name, about, work }
    }
}

/// In this order: cheap ones first, so that a slip shows at once.
pub(crate) const STAGES: &[Stage] = &[
    Stage::cargo("fmt", "Check the formatting", "fmt --all --check"),
    Stage {
        name: "tidy",
        about: "Check the invariants of the house: who knows whom, and what is absent",
        work: Work::Tidy,
    },
    Stage::cargo(
        "clippy",
        "Lint every target, warnings being errors",
        "clippy --workspace --all-targets -- -D warnings",
    ),
    Stage::cargo("docs", "Build the documentation, warnings being errors", "doc --workspace --no-deps"),
    Stage::cargo(
        "test",
        "Run the unit and integration tests, the golden numbers included",
        "test --workspace --lib --bins --tests",
    ),
    Stage {
        name: "readers",
        about: "Have TensorBoard and Prometheus read what the tests wrote, if they can be had from PyPI",
        work: Work::Readers,
    },
    Stage::cargo("doctest", "Run the examples in the documentation", "test --workspace --doc"),
    Stage::cargo("examples", "Build the examples", "build --workspace --examples"),
    Stage::cargo("benches", "Build the benches", "build --workspace --benches"),
];

/// Runs all stages in order and stops at the first that fails.
pub(crate) fn ci(root: &Path) -> Result<ExitCode> {
    let started = Instant::now();
    let mut times = String::new();
    for (index, stage) in STAGES.iter().enumerate() {
        let name = stage.name;
        say(&format!("── {name}: {} ──", stage.about))?;
        let (passed, time) = run(root, stage)?;
        times += &format!("\n  {name:<10}{:>9}", seconds(time));
        if !passed {
            let not_run: Vec<&str> = STAGES[index + 1..].iter().map(|later| later.name).collect();
            let total = seconds(started.elapsed());
            say(&format!("\nci FAILED at `{name}` after {total}{times}  <- failed"))?;
            say(&format!("  not run: {}", not_run.join(", ")))?;
            say(&format!("  rerun: cargo xtask {name}"))?;
            return Ok(ExitCode::FAILURE);
        }
    }
    say(&format!("\nci passed in {}{times}", seconds(started.elapsed())))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the stage called `name`.
pub(crate) fn one(root: &Path, name: &str) -> Result<ExitCode> {
    let stage = STAGES.iter().find(|stage| stage.name == name);
    let (passed, time) = run(root, stage.with_context(|| format!("there is no stage `{name}`"))?)?;
    let outcome = if passed { "passed" } else { "FAILED" };
    say(&format!("{name} {outcome} in {}", seconds(time)))?;
    Ok(exit_code(passed))
}

/// Runs the golden numbers of `dir`, which is relative to where the command was given; by default the repository's.
pub(crate) fn golden(root: &Path, dir: Option<&PathBuf>) -> Result<ExitCode> {
    let dir = match dir {
        Some(dir) => std::env::current_dir()?.join(dir),
        None => root.join("tests/golden"),
    };
    let mut command = cargo(root, "run --quiet --package pronk-golden --");
    Ok(exit_code(succeeds(command.arg(dir))?))
}

fn run(root: &Path, stage: &Stage) -> Result<(bool, Duration)> {
    let started = Instant::now();
    let passed = match stage.work {
        Work::Cargo(args) => succeeds(cargo(root, args).env("RUSTDOCFLAGS", "-D warnings"))?,
        Work::Tidy => {
            let violations = tidy::check(root)?;
            for violation in &violations {
                say(&violation.to_string())?;
            }
            violations.is_empty()
        }
        Work::Readers => match readers::check(root)? {
            Readers::Agreed => true,
            Readers::Disagreed => false,
            Readers::Absent(why) => {
                say(&format!("NOT CHECKED, as they could not be installed: {why}"))?;
                true
            }
        },
    };
    Ok((passed, started.elapsed()))
}

fn cargo(root: &Path, args: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(root).args(args.split(' '));
    command
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status();
    let status = status.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(status.success())
}

fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}
