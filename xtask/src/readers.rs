//! Whether other programs read what reporters write: TensorBoard and Prometheus' parser, from PyPI.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

/// What is installed, with versions: a newer one must not turn a run of CI red.
const PACKAGES: [&str; 2] = ["tensorboard==2.21.0", "prometheus-client==0.26.0"];

/// What came of it.
pub(crate) enum Readers {
    Agreed,
    Disagreed,
    /// They could not be had, and why.
    Absent(String),
}

/// Has them read what the tests left in `tmp/sinks` of the target folder.
pub(crate) fn check(root: &Path) -> Result<Readers> {
    let target = root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from));
    let (sinks, venv) = (target.join("tmp/sinks"), target.join("python"));
    let results = sinks.join("results.jsonl");
    ensure!(results.exists(), "{} is missing: run `cargo xtask test` first", results.display());
    if let Err(why) = install(&venv) {
        return Ok(Readers::Absent(why));
    }
    let script = |name: &str| root.join("xtask/python").join(name);
    let mut files = python(&venv);
    files.arg(script("check_sinks.py")).arg("--results").arg(&results);
    files.arg("--events").arg(&sinks).arg("--csv").arg(sinks.join("progress.csv"));
    let mut endpoint = python(&venv);
    endpoint.arg(script("check_prometheus.py")).arg(sinks.join("served.txt")).arg(&results);
    let agreed = files.status()?.success() & endpoint.status()?.success();
    Ok(if agreed { Readers::Agreed } else { Readers::Disagreed })
}

/// Makes the virtual environment, if it is not there.
fn install(venv: &Path) -> Result<(), String> {
    let run = |command: &mut Command| {
        let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let last_line = || String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(()) } else { Err(last_line()) }
    };
    if !python(venv).arg("--version").output().is_ok_and(|output| output.status.success()) {
        run(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
    }
    let mut pip = python(venv);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--timeout", "20", "--retries", "1", "install", "--quiet"]);
    run(pip.args(PACKAGES))
}

fn python(venv: &Path) -> Command {
    Command::new(venv.join("bin/python"))
}
