//! [`RunInfo`] and [`RunState`]: what `run.json` in the folder of a run says about it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use pronk_metrics::write_whole;
use serde::Serialize;
use serde_json::{Value, json};

use crate::run_folder::{RESULTS, RUN_INFO, SETTINGS, now_secs};

/// `run.json` in the folder of a run: what the run was made with, on which machine, and how it ended.
///
/// [`Trainer::log_to`](crate::Trainer::log_to) begins it and the end of the run completes it, unless a program takes
/// that over by [`Trainer::take_run_info`](crate::Trainer::take_run_info).
///
/// | key | holds |
/// |---|---|
/// | `pronk` | the version of pronk |
/// | `config` | who has written `config.toml`: `log_to`, a `program` that knows the run's environments, or the `user` |
/// | `env`, `seed`, `command` | what the run is of, and the arguments of its process |
/// | `working_directory` | the `path` that the process was started in, and, if it belongs to a git repository, its `git_commit` and `git_is_clean` (whether nothing was changed since) |
/// | `machine`, `process`, `process_began` | where the run goes on: see [`machine`] |
/// | `began` | when this process began with it, in seconds since 1970 |
/// | `outcome` | how it ended: `reason`; `failure`, also of logs that are not whole; `reached`; `ledger_closed`; null until it has |
/// | `starts` | every start of the run, the first one first, this one included: `began`, `pronk`, `git_commit`, `host`, and `from_env_steps`, those of the newest result in the folder then, or null without one |
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::{RunInfo, RunState};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
/// let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
/// trainer.log_to(folder.path())?;
/// assert_eq!(RunState::of(folder.path()), RunState::Running);
/// assert_eq!(RunInfo::read(folder.path()).map(|info| info["env"] == "CartPole-v1"), Some(true));
///
/// trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
/// assert_eq!(RunState::of(folder.path()), RunState::Finished);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RunInfo {
    path: PathBuf,
    info: Value,
}

/// Whether a run goes on, as its `run.json` and its process say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunState {
    /// Its process is alive, or on another machine.
    Running,
    /// It ended as it should.
    Finished,
    /// It ended with an error.
    Failed,
    /// Its process is gone, and has not written how the run ended.
    Killed,
    /// It has no `run.json`.
    Unknown,
}

/// `run.json` that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {cause}", path.display())]
pub struct RunInfoError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub cause: io::Error,
}

/// The first line of a config file that [`Trainer::log_to`](crate::Trainer::log_to) has written, and may write
/// again.
pub(crate) const BY_LOG_TO: &str = "# The settings of a run, by Trainer::log_to.\n";

pub(crate) fn is_by_log_to(config: &Path) -> bool {
    fs::read_to_string(config).is_ok_and(|text| text.starts_with(BY_LOG_TO))
}

impl RunInfo {
    /// Writes what is known of a run before it begins into its folder. Call it after
    /// [`Trainer::log_to`](crate::Trainer::log_to), which cuts the results of a resumed run to where it goes on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(folder: impl AsRef<Path>, env: &str, seed: u64) -> Result<Self, RunInfoError> {
        let folder = folder.as_ref();
        let (pronk, began, git_commit) = (env!("CARGO_PKG_VERSION"), now_secs(), git(&["rev-parse", "HEAD"]));
        let earlier = Self::read(folder).unwrap_or_default();
        let mut starts = earlier["starts"].as_array().cloned().unwrap_or_default();
        starts.push(json!({
            "began": began,
            "pronk": pronk,
            "git_commit": git_commit,
            "host": host(),
            "from_env_steps": env_steps(folder),
        }));
        let info = json!({
            "pronk": pronk,
            "config": if is_by_log_to(&folder.join(SETTINGS)) { "log_to" } else { "user" },
            "env": env,
            "seed": seed,
            "command": std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "working_directory": {
                "path": std::env::current_dir().ok().map(|path| path.to_string_lossy().into_owned()),
                "git_commit": git_commit,
                "git_is_clean": git(&["status", "--porcelain"]).map(|changes| changes.is_empty()),
            },
            "machine": machine(),
            "process": std::process::id(),
            "process_began": process_began(std::process::id().into()),
            "began": began,
            "starts": starts,
            "outcome": null,
        });
        let begun = Self { path: folder.join(RUN_INFO), info };
        begun.write()?;
        Ok(begun)
    }

    /// The same for a program that makes the environment by this name, and has written `config.toml` itself.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn with_env(mut self, env: &str) -> Result<Self, RunInfoError> {
        (self.info["env"], self.info["config"]) = (env.into(), "program".into());
        self.write()?;
        Ok(self)
    }

    /// Adds how the run ended.
    pub(crate) fn complete(mut self, outcome: Value) -> Result<(), RunInfoError> {
        self.info["outcome"] = outcome;
        self.write()
    }

    /// Env-steps of the newest result in the folder when the run began, or went on from there; `None` without
    /// one.
    pub fn from_env_steps(&self) -> Option<u64> {
        self.info["starts"].as_array()?.last()?["from_env_steps"].as_u64()
    }

    /// What `run.json` in the folder of a run says; `None` without a readable one.
    pub fn read(folder: impl AsRef<Path>) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(folder.as_ref().join(RUN_INFO)).ok()?).ok()
    }

    fn write(&self) -> Result<(), RunInfoError> {
        let text = format!("{:#}\n", self.info);
        let written = write_whole(&self.path, text.as_bytes()).or_else(|error| write_over(&self.path, &text, error));
        written.map_err(|cause| RunInfoError { path: self.path.clone(), cause })
    }
}

impl RunState {
    /// The state of the run in this folder.
    pub fn of(folder: impl AsRef<Path>) -> Self {
        RunInfo::read(folder).map_or(Self::Unknown, |info| Self::of_info(&info))
    }

    /// The state of the run whose `run.json` says this.
    pub fn of_info(info: &Value) -> Self {
        match &info["outcome"] {
            Value::Null if is_running(info) => Self::Running,
            Value::Null => Self::Killed,
            outcome if outcome["failure"].is_null() => Self::Finished,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
        })
    }
}

/// Replaces a file in its place, since the disk is full and has no room for another one beside it. How a run
/// ended is worth more than that a reader never finds the file half written.
///
/// # Errors
/// `full`, unless it is of a full disk and the blocks of the file have room for the text; or that of writing.
#[cfg(unix)]
fn write_over(path: &Path, text: &str, full: io::Error) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    let has_room = |there: fs::Metadata| there.is_file() && 512 * there.blocks() >= text.len() as u64;
    let is_full = matches!(full.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if !is_full || !path.symlink_metadata().is_ok_and(has_room) {
        return Err(full);
    }
    let mut file = File::options().write(true).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

/// Whether blocks are free is not known on this system.
#[cfg(not(unix))]
fn write_over(_path: &Path, _text: &str, full: io::Error) -> io::Result<()> {
    Err(full)
}

/// Processors, memory and the system of this machine; what cannot be found out is null.
pub fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).ok();
    let field = |path: &str, name: &str| {
        let text = read(path)?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    json!({
        "host": host(),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "processor": field("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().ok(),
        "instructions": pronk_policy::instructions(),
        "memory": field("/proc/meminfo", "MemTotal").and_then(|total| in_gib(&total)),
    })
}

/// A number of kB, of 1,024 bytes each, in GiB.
fn in_gib(total: &str) -> Option<String> {
    let kib: f64 = total.strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

fn host() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_owned())
}

/// The env-steps of the newest result in the folder of a run.
fn env_steps(folder: &Path) -> Option<u64> {
    let results = File::open(folder.join(RESULTS)).ok()?;
    let last = BufReader::new(results).lines().map_while(Result::ok).last()?;
    let result: Value = serde_json::from_str(&last).ok()?;
    result["num_env_steps_sampled"].as_u64()
}

/// What git says of the folder that the program was started in; `None` without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether the process of the run is alive. On another machine, or where it cannot be known, it is taken
/// to be.
fn is_running(info: &Value) -> bool {
    let is_here = info["machine"]["host"] == json!(host());
    let (process, began) = (info["process"].as_u64().unwrap_or(0), info["process_began"].as_u64());
    // Another process may have the number by now.
    !is_here || began.is_none() || began == process_began(process)
}

/// When a process began, in ticks since the machine did, as Linux says; `None` without such a process, or if
/// it has ended and its parent has not noticed.
fn process_began(process: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may have blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = fields.next() == Some("Z");
    fields.nth(18).filter(|_| !has_ended)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
