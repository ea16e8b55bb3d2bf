//! How other programs are run, and what is said of them.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// cargo with `args`, which are separated by spaces.
pub(crate) fn cargo(root: &Path, args: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(root).args(args.split(' '));
    command
}

pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status();
    let status = status.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(status.success())
}

pub(crate) fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}
