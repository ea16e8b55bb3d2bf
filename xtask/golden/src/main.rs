//! Prints what became of every entry of a golden directory; exits with 1 when anything failed.
//!
//! `pronk-golden [DIR]`, by default the repository's own `tests/golden`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let dir = args.next().map_or_else(default_dir, PathBuf::from);
    anyhow::ensure!(args.next().is_none(), "usage: pronk-golden [DIR]");
    let report = pronk_golden::run_dir(&dir)?;
    write!(std::io::stdout().lock(), "{report}")?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn default_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}
