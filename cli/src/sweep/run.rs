//! [`Run`]: a run of a sweep, as its folder says.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};
use pronk::{RunInfo, RunState, StopReason, machine};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::metric::{check_statistic, value_at};
use super::processes::END_WITH_STDIN;
use crate::run_dir::{CHECKPOINTS, CONFIG, RunDir};
use crate::run_file::RunFile;

/// The file that says which trial a run is of.
const TRIAL: &str = "trial.json";

/// What the process of a run prints.
const OUTPUT: &str = "output.txt";

/// A run of a sweep.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) folder: PathBuf,
    /// The number of its trial, from 1.
    pub(super) number: usize,
    pub(super) seed: u64,
    pub(super) state: State,
    /// Its value at each rung that it has completed; `None` for one without a number there.
    pub(super) values: Vec<Option<f64>>,
    pub(super) env_steps: u64,
    pub(super) secs: f64,
}

/// What has become of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has never been started, is to go on to its next rung, or its process was killed.
    Waiting,
    /// This process of this host trains it.
    Running { process: u64 },
    /// A process of this other host trains it, or did not say how it ended.
    Elsewhere { host: String },
    /// It has completed its rung.
    Ended,
    /// Its time or iterations ended before its rung, and it goes no further.
    RanOut,
    /// Why it failed.
    Failed(String),
}

/// `trial.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Described {
    parameters: Map<String, Value>,
    seed: u64,
    trial: usize,
    rung: usize,
}

impl Run {
    /// The run in the folder `sweep` that has this number and seed.
    pub(super) fn new(sweep: &Path, number: usize, seed: u64) -> Self {
        let folder = sweep.join(format!("trial-{number:04}-s{seed}"));
        Self { folder, number, seed, state: State::Waiting, values: Vec::new(), env_steps: 0, secs: 0.0 }
    }

    pub(super) fn name(&self) -> String {
        self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The rung that it was started for, of so many; `None` if it never was.
    ///
    /// # Errors
    /// A `trial.json` that cannot be read, or names a rung that the sweep does not have.
    pub(super) fn rung(&self, n_rungs: usize) -> Result<Option<usize>> {
        let path = self.folder.join(TRIAL);
        if !path.exists() {
            return Ok(None);
        }
        let read = || format!("cannot read {}", path.display());
        let text = fs::read_to_string(&path).with_context(read)?;
        let Described { rung, .. } = serde_json::from_str(&text).with_context(read)?;
        ensure!(
            rung < n_rungs,
            "{} is damaged: its rung is {rung}, and the last one of the sweep is {}; correct it, or remove {} to train \
             the run again",
            path.display(),
            n_rungs - 1,
            self.folder.display()
        );
        Ok(Some(rung))
    }

    /// Writes what its process is started with: its settings, up to its rung, and then what it is.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn describe(&self, file: &RunFile, parameters: Map<String, Value>, rung: usize) -> Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot create {}", self.folder.display()))?;
        write_whole(&self.folder.join(CONFIG), &file.to_toml()?)?;
        let described = json!(Described { parameters, seed: self.seed, trial: self.number, rung });
        write_whole(&self.folder.join(TRIAL), &format!("{described:#}\n"))
    }

    /// The arguments of `pronk train` that go on with it from its checkpoint, or start it if it has none.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let folder = self.folder.clone().into_os_string();
        if self.folder.join(CHECKPOINTS).join("manifest.json").exists() {
            vec!["--resume".into(), folder]
        } else {
            vec![self.folder.join(CONFIG).into(), "--out".into(), folder, "--overwrite".into()]
        }
    }

    /// What its process is to print to.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn output(&self) -> Result<File> {
        let path = self.folder.join(OUTPUT);
        File::options().create(true).append(true).open(&path).with_context(|| format!("cannot open {}", path.display()))
    }

    /// Reads what has become of it, where the last one of `rungs` is its own.
    ///
    /// # Errors
    /// Its results cannot be read.
    pub(super) fn look(&mut self, metric: &str, rungs: &[Option<u64>]) -> Result<()> {
        self.state = State::Waiting;
        self.values.clear();
        let Some(info) = RunInfo::read(&self.folder) else { return Ok(()) };
        let outcome = &info["outcome"];
        let reason = Option::<StopReason>::deserialize(&outcome["reason"]).unwrap_or_default();
        let failure = outcome["failure"].as_str();
        let has_ended = !outcome.is_null() && reason.and_then(StopReason::signal_status).is_none();
        // What has reached its target has the value that it ends with at every rung. What has run out of time
        // has those of the rungs that it has come to.
        let is_complete = has_ended && (reason == Some(StopReason::ReturnReached) || rungs.contains(&None));
        let has_metric = self.read_results(metric, rungs, is_complete && failure.is_none())?;
        let is_short = self.values.len() < rungs.len();
        self.state = match failure {
            // One that a signal ended goes on, whatever it could not write.
            Some(failure) if has_ended => State::Failed(failure.to_owned()),
            _ if RunState::of(&self.folder) == RunState::Running => running(&info),
            // One that is to go on to its next rung has ended before.
            _ if !has_ended || is_short && reason == Some(StopReason::EnvSteps) => State::Waiting,
            _ if !has_metric => State::Failed(format!(
                "none of its results has `{metric}`: docs/results.md lists the keys that the metric may be"
            )),
            _ if is_short => State::RanOut,
            _ => State::Ended,
        };
        // Results beyond the end of its rung are not the last ones yet.
        if !matches!(self.state, State::Ended | State::RanOut) {
            self.values.truncate(rungs.len() - 1);
        }
        Ok(())
    }

    /// Checks the metric, which is a statistic, by its results so far; `None` if they do not tell yet.
    pub(super) fn check_statistic(&self, metric: &str) -> Option<Result<(), String>> {
        let mut found = None;
        // What cannot be read now is an error when the run has ended.
        let _ = RunDir { path: self.folder.clone() }.results(|result: Value| {
            found = found.take().or_else(|| check_statistic(metric, &result));
        });
        found
    }

    /// Why its process has ended without saying so in `run.json`.
    pub(super) fn last_words(&self, status: ExitStatus) -> String {
        let path = self.folder.join(OUTPUT);
        let output = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&output);
        match text.lines().next_back().and_then(|line| line.strip_prefix("error: ")) {
            // After a signal the last line may be that of an earlier process.
            Some(error) if status.code().is_some() => error.to_owned(),
            _ => format!("its process ended with {status}: see {}", path.display()),
        }
    }

    /// Reads the values at the rungs, and how far it has come; whether any result has the metric.
    fn read_results(&mut self, metric: &str, rungs: &[Option<u64>], is_complete: bool) -> Result<bool> {
        let (mut value, mut values, mut has_metric) = (None, Vec::new(), false);
        let run = RunDir { path: self.folder.clone() };
        let results = |result: Value| {
            self.env_steps = result["num_env_steps_sampled"].as_u64().unwrap_or_default();
            self.secs = result["time_total_s"].as_f64().unwrap_or_default();
            let found = value_at(&result, metric);
            has_metric |= found.is_some();
            // Some are not in every result, such as those of an evaluation.
            value = found.and_then(Value::as_f64).or(value);
            while let Some(Some(budget)) = rungs.get(values.len())
                && self.env_steps >= *budget
            {
                values.push(value);
            }
        };
        // A process that has just begun has none yet.
        if run.path.join("results.jsonl").exists() {
            run.results(results)?;
        }
        if is_complete {
            values.resize(rungs.len(), value);
        }
        self.values = values;
        Ok(has_metric)
    }

    /// Whether a sweep has started its process, which ends when that sweep does.
    pub(super) fn ends_with_its_sweep(&self) -> bool {
        let info = RunInfo::read(&self.folder).unwrap_or_default();
        info["command"].as_array().is_some_and(|args| args.iter().any(|arg| arg == END_WITH_STDIN))
    }

    /// Leaves what another host began to this one: without `run.json` it goes on from its checkpoint.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn take_over(&self) -> Result<()> {
        let path = self.folder.join("run.json");
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Where the process is that `run.json` names.
fn running(info: &Value) -> State {
    let host = &info["machine"]["host"];
    if *host == machine()["host"] {
        State::Running { process: info["process"].as_u64().unwrap_or_default() }
    } else {
        State::Elsewhere { host: host.as_str().unwrap_or("an unknown host").to_owned() }
    }
}

/// [`pronk::metrics::write_whole`] of a text.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<()> {
    pronk::metrics::write_whole(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
