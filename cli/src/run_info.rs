//! `run.json`: what a run was made with, on which machine, and how it ended.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// The file in the folder of a run.
pub(crate) const FILE: &str = "run.json";

/// What is known of a run before it begins.
pub(crate) struct RunInfo {
    path: PathBuf,
    info: Value,
}

impl RunInfo {
    /// Writes `run.json` into `folder`.
    pub(crate) fn begin(folder: &Path, env: &str, seed: u64) -> Result<Self> {
        let info = json!({
            "pronk": env!("CARGO_PKG_VERSION"),
            "env": env,
            "seed": seed,
            "command": std::env::args().collect::<Vec<_>>(),
            "git_commit": git(&["rev-parse", "HEAD"]),
            "git_is_clean": git(&["status", "--porcelain"]).map(|changes| changes.is_empty()),
            "machine": machine(),
            "process": std::process::id(),
            "process_began": process_began(std::process::id().into()),
            "outcome": null,
        });
        let begun = Self { path: folder.join(FILE), info };
        begun.write()?;
        Ok(begun)
    }

    /// Adds how the run ended.
    pub(crate) fn end(mut self, outcome: Value) -> Result<()> {
        self.info["outcome"] = outcome;
        self.write()
    }

    /// The file is replaced whole, so that no reader sees half of it.
    fn write(&self) -> Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(folder).with_context(failed)?;
        writeln!(file, "{:#}", self.info).with_context(failed)?;
        file.persist(&self.path).with_context(failed)?;
        Ok(())
    }
}

/// Processors, memory and the system; what cannot be found out is null.
pub(crate) fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).ok();
    let field = |path: &str, name: &str| {
        let text = read(path)?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    json!({
        "host": read("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "processor": field("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().ok(),
        "instructions": pronk::policy::instructions(),
        "memory": field("/proc/meminfo", "MemTotal"),
    })
}

/// What git says of the folder that the program was started in; `None` without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What `run.json` in the folder says.
pub(crate) fn read(folder: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(folder.join(FILE)).ok()?).ok()
}

/// Whether the process of the run is alive. On another machine, or where it cannot be known, it is taken
/// to be.
pub(crate) fn is_running(info: &Value) -> bool {
    let is_here = info["machine"]["host"] == machine()["host"];
    let (process, began) = (info["process"].as_u64().unwrap_or(0), info["process_began"].as_u64());
    // Another process may have the number by now.
    !is_here || began.is_none() || began == process_began(process)
}

/// When a process began, in ticks since the machine did, as Linux says; `None` without such a process.
fn process_began(process: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may have blanks.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
