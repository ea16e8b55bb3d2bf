//! [`SweepFolder`]: what the folder of a sweep says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk::RunState;
use serde_json::{Map, Value, json};

use super::open::Place;
use super::run::FolderRun;
use super::stamp::Stamp;
use super::{id, name};
use crate::board::Sweep;

/// Names of ranges in a sweep file.
const RANGES: [&str; 4] = ["choice", "uniform", "log_uniform", "int_uniform"];

/// A sweep, and its trials by their folders.
#[derive(Debug, Default)]
pub(crate) struct SweepFolder {
    seen: Stamp,
    metric: String,
    /// `max` or `min`.
    mode: String,
    parameters: Vec<Value>,
    trials: BTreeMap<PathBuf, Trial>,
    /// As it was last shown; `None` once it has changed.
    shown: Option<Arc<Sweep>>,
}

/// A trial of a sweep.
#[derive(Debug, Default)]
struct Trial {
    seen: Stamp,
    number: Value,
    seed: Option<String>,
    parameters: Map<String, Value>,
    /// The rung that it was started for, from 0.
    rung: Option<u64>,
}

impl SweepFolder {
    /// The path in a result by which trials are ranked.
    pub(crate) fn metric(&self) -> &str {
        &self.metric
    }

    /// Reads what has changed in the folder of a sweep with these folders of trials.
    pub(crate) fn look(&mut self, place: &Place, trials: &BTreeSet<PathBuf>) {
        self.read_file(place);
        let n_before = self.trials.len();
        self.trials.retain(|trial, _| trials.contains(trial));
        let mut has_changed = self.trials.len() != n_before;
        for trial in trials {
            let place = place.below(trial.file_name().unwrap_or_default());
            has_changed |= self.trials.entry(trial.clone()).or_default().look(&place);
        }
        if has_changed {
            self.touch();
        }
    }

    /// Notes that one of its runs has changed.
    pub(crate) fn touch(&mut self) {
        self.shown = None;
    }

    /// Reads `sweep.toml`, if it has changed.
    fn read_file(&mut self, place: &Place) {
        let now = place.stamp("sweep.toml");
        if std::mem::replace(&mut self.seen, now) == now {
            return;
        }
        self.touch();
        let file: toml::Table = place.text("sweep.toml").unwrap_or_default().parse().unwrap_or_default();
        let text = |key: &str, default: &str| file.get(key).and_then(toml::Value::as_str).unwrap_or(default).to_owned();
        self.metric = text("metric", "episode_return_mean");
        self.mode = text("mode", "max");
        self.parameters.clear();
        if let Some(parameters) = file.get("parameters").and_then(toml::Value::as_table) {
            add_parameters(parameters, String::new(), &mut self.parameters);
        }
    }

    /// The sweep as it is shown, made anew after a change. `run` says which run is in a folder.
    pub(crate) fn shown<'a>(&mut self, folder: &Path, run: impl Fn(&Path) -> Option<&'a FolderRun>) -> Arc<Sweep> {
        let shown = self.shown.take().unwrap_or_else(|| Arc::new(self.make(folder, run)));
        Arc::clone(self.shown.insert(shown))
    }

    fn make<'a>(&self, folder: &Path, run: impl Fn(&Path) -> Option<&'a FolderRun>) -> Sweep {
        let mut rows: Vec<Value> = Vec::new();
        let mut states = Vec::new();
        for (path, trial) in &self.trials {
            let run = run(path);
            let state = run.map(FolderRun::state);
            states.push(state);
            rows.push(json!({
                "trial": trial.number,
                "seed": trial.seed,
                "parameters": trial.parameters,
                "rung": trial.completed_rung(run.is_some_and(FolderRun::has_completed)),
                "value": run.and_then(FolderRun::value),
                "env_steps": run.and_then(|run| run.figures().env_steps).map(|steps| steps.to_string()),
                "state": word(state),
                "run": run.map(FolderRun::id),
            }));
        }
        let (id, name) = (id(folder), name(folder));
        Sweep {
            entry: json!({"id": id, "name": name, "trials": rows.len(), "state": state_of(&states)}),
            answer: json!({
                "id": id,
                "name": name,
                "metric": self.metric,
                "mode": self.mode,
                "parameters": self.parameters,
                "rows": rows,
            }),
        }
    }
}

impl Trial {
    /// Reads `trial.json`, if it has changed; whether it has.
    fn look(&mut self, place: &Place) -> bool {
        let now = place.stamp("trial.json");
        if std::mem::replace(&mut self.seen, now) == now {
            return false;
        }
        let trial: Value =
            place.text("trial.json").ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        self.number = trial["trial"].clone();
        // As text, because JavaScript rounds integers above 2^53.
        self.seed = trial["seed"].as_u64().map(|seed| seed.to_string());
        self.parameters = trial["parameters"].as_object().cloned().unwrap_or_default();
        self.rung = trial["rung"].as_u64();
        true
    }

    /// The highest rung that it has completed: one that was started for a rung has completed those below.
    fn completed_rung(&self, has_completed: bool) -> Option<u64> {
        if has_completed { self.rung } else { self.rung?.checked_sub(1) }
    }
}

/// The state of a sweep with trials in these states, `None` of which is one without a run.
fn state_of(trials: &[Option<RunState>]) -> String {
    // A killed trial may have ended the sweep, and one that failed does not while others wait.
    let order =
        [Some(RunState::Running), Some(RunState::Killed), None, Some(RunState::Failed), Some(RunState::Finished)];
    word(order.into_iter().find(|state| trials.contains(state)).unwrap_or(Some(RunState::Unknown)))
}

/// The state of a trial with a run in this state, or without one.
fn word(state: Option<RunState>) -> String {
    state.map_or_else(|| "waiting".to_owned(), |state| state.to_string())
}

/// Adds the parameters in a table, whose keys may be tables too.
fn add_parameters(table: &toml::Table, above: String, into: &mut Vec<Value>) {
    for (key, value) in table {
        let key = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        let range = value.as_table().and_then(|range| match range.iter().next() {
            Some((name, values)) if range.len() == 1 && RANGES.contains(&name.as_str()) && values.is_array() => {
                Some((name.as_str(), values))
            }
            _ => None,
        });
        let (is_log, choices) = match (value, range) {
            (toml::Value::Array(_), _) => (false, Some(value)),
            (_, Some(("choice", values))) => (false, Some(values)),
            (_, Some((name, _))) => (name == "log_uniform", None),
            (toml::Value::Table(below), None) => {
                add_parameters(below, key, into);
                continue;
            }
            _ => continue,
        };
        let choices = choices.map(|values| serde_json::to_value(values).unwrap_or_default());
        into.push(json!({"key": key, "log": is_log, "choices": choices}));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn parameters_are_found_however_they_are_written() {
        let text = "[parameters]\nz = [1, 2]\n\"a.b\" = { choice = [\"x\"] }\nlearner.lr = { log_uniform = [1e-4, 1e-2] }\n\
                    [parameters.model]\nc = { int_uniform = [1, 4] }";
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sweep.toml"), text).unwrap();
        let mut sweep = SweepFolder::default();
        sweep.look(&Place::named(folder.path()), &BTreeSet::new());
        let expected = [
            json!({"key": "a.b", "log": false, "choices": ["x"]}),
            json!({"key": "learner.lr", "log": true, "choices": null}),
            json!({"key": "model.c", "log": false, "choices": null}),
            json!({"key": "z", "log": false, "choices": [1, 2]}),
        ];
        let mut found = sweep.parameters.clone();
        found.sort_by_key(|parameter| parameter["key"].to_string());
        assert_eq!(found, expected);
        assert_eq!((sweep.metric(), &*sweep.mode), ("episode_return_mean", "max"));
    }

    #[test]
    fn a_sweep_runs_while_a_trial_does_and_waits_while_one_has_no_run() {
        let [running, killed] = [RunState::Running, RunState::Killed].map(Some);
        let [failed, finished, unknown] = [RunState::Failed, RunState::Finished, RunState::Unknown].map(Some);
        let order =
            [(running, "running"), (killed, "killed"), (None, "waiting"), (failed, "failed"), (finished, "finished")];
        let mut trials = vec![unknown];
        assert_eq!((state_of(&[]), state_of(&trials)), ("unknown".to_owned(), "unknown".to_owned()));
        for (state, word) in order.into_iter().rev() {
            trials.push(state);
            assert_eq!(state_of(&trials), word);
        }
    }
}
