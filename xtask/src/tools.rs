//! Programs for cargo that stages build from crates.io, below `target/tools`.

use std::path::Path;

use anyhow::Result;

use crate::command::{cargo, succeeds};
use crate::python::{self, Installed};

/// A program and its version: a newer one must not turn a run of CI red.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

pub(crate) const CARGO_SEMVER_CHECKS: Tool = Tool { name: "cargo-semver-checks", version: "0.51.0" };

impl Tool {
    /// The program, or why it cannot be had. Building it takes minutes, but once for each version.
    pub(crate) fn installed(&self, root: &Path) -> Result<Installed> {
        let Self { name, version } = self;
        let folder = python::target(root).join("tools").join(format!("{name}-{version}"));
        let program = folder.join("bin").join(name);
        if program.exists() {
            return Ok(Ok(program));
        }
        // Both work for seconds, so optimising them takes longer than it saves.
        let mut install = cargo(root, "install --quiet --locked --debug");
        install.args(["--config", "profile.dev.debug=false", "--config", "profile.dev.package.\"*\".opt-level=0"]);
        install.arg("--root").arg(&folder).args([name, "--version", version]);
        Ok(match succeeds(&mut install)? {
            true => Ok(program),
            false => Err(format!("`cargo install {name} --version {version}` failed, as it says above")),
        })
    }
}
