//! Whether other programs read what reporters write: TensorBoard and Prometheus' parser, from PyPI.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::python::{self, Installed};

const PACKAGES: [&str; 2] = ["tensorboard==2.21.0", "prometheus-client==0.26.0"];

/// Has them read what the tests left in `tmp/sinks` of the target folder. Whether they agreed, or why they
/// cannot be had.
pub(crate) fn check(root: &Path) -> Result<Result<bool, String>> {
    let sinks = python::target(root).join("tmp/sinks");
    let results = sinks.join("results.jsonl");
    ensure!(results.exists(), "{} is missing: run `cargo xtask test` first", results.display());
    let installed: Installed = python::with_packages(root, &PACKAGES)?;
    let python = match installed {
        Ok(python) => python,
        Err(why) => return Ok(Err(why)),
    };
    let script = |name: &str| root.join("xtask/python").join(name);
    let mut files = Command::new(&python);
    files.arg(script("check_sinks.py")).arg("--results").arg(&results);
    files.arg("--events").arg(&sinks).arg("--csv").arg(sinks.join("progress.csv"));
    let mut endpoint = Command::new(&python);
    endpoint.arg(script("check_prometheus.py")).arg(sinks.join("served.txt")).arg(&results);
    Ok(Ok(files.status()?.success() & endpoint.status()?.success()))
}
