//! What a sweep shows: the trials that it will run, a line for each run that has ended, and the table at the
//! end.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::plan::{Plan, Trial};
use super::run::{Run, State};
use super::runs::{Runs, mean};
use crate::run_file::shown;
use crate::spread::spread;
use crate::table::{count, dash, number, secs, table};

/// What a trial has come to.
#[derive(Debug, Serialize)]
struct Row {
    trial: usize,
    parameters: Map<String, Value>,
    /// Of its run that has come furthest.
    env_steps: u64,
    /// The highest rung that any of its seeds has completed, from 0.
    rung: Option<usize>,
    /// The mean over its seeds at that rung.
    value: Option<f64>,
    /// Lowest, median and highest.
    spread: Option<[f64; 3]>,
    runs: Vec<Value>,
    #[serde(skip)]
    state: String,
}

/// The trials that have begun, the best first: values at different rungs are not comparable, and a trial that
/// has come to a higher one was among the best below it.
fn rows(plan: &Plan, runs: &Runs) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..plan.trials.len())
        .map(|at| (at, &runs.all[runs.of_trial(at)]))
        .filter(|(_, of_trial)| of_trial.iter().any(|run| run.folder.exists()))
        .map(|(at, of_trial)| row(plan, at, of_trial))
        .collect();
    let score = |row: &Row| row.value.map_or(f64::NEG_INFINITY, |value| plan.score(value));
    rows.sort_by(|a, b| b.rung.cmp(&a.rung).then(score(b).total_cmp(&score(a))));
    rows
}

fn row(plan: &Plan, at: usize, runs: &[Run]) -> Row {
    let rung = runs.iter().filter_map(|run| run.values.len().checked_sub(1)).max();
    let at_rung = |run: &Run| run.values.get(rung?).copied().flatten();
    let values: Vec<f64> = runs.iter().filter_map(at_rung).collect();
    let run = |run: &Run| {
        json!({
            "folder": run.folder.display().to_string(),
            "seed": run.seed,
            "state": state(&run.state),
            "value": at_rung(run),
            "env_steps": run.env_steps,
            "time_s": run.secs,
            "error": if let State::Failed(error) = &run.state { Some(error) } else { None },
        })
    };
    Row {
        trial: at + 1,
        parameters: plan.trials[at].point.values(),
        env_steps: runs.iter().map(|run| run.env_steps).max().unwrap_or(0),
        rung,
        value: (!values.is_empty()).then(|| mean(&values)),
        spread: spread(values),
        runs: runs.iter().map(run).collect(),
        state: states(runs),
    }
}

/// The state that all runs have, or how many have each.
fn states(runs: &[Run]) -> String {
    let names = ["ended", "ran out", "failed", "waiting", "running"];
    let counted = names.map(|name| (name, runs.iter().filter(|run| state(&run.state) == name).count()));
    let there: Vec<_> = counted.into_iter().filter(|(_, n)| *n > 0).collect();
    match there[..] {
        [(name, _)] => name.to_owned(),
        _ => there.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", "),
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Running { .. } | State::Elsewhere { .. } => "running",
        State::Ended => "ended",
        State::RanOut => "ran out",
        State::Failed(_) => "failed",
    }
}

/// Prints the trials of a sweep that is not run.
pub(super) fn print_plan(plan: &Plan, as_json: bool) {
    if as_json {
        let trial = |(at, trial): (usize, &Trial)| json!({ "trial": at + 1, "parameters": trial.point.values(), "seeds": trial.seeds });
        let trials: Vec<Value> = plan.trials.iter().enumerate().map(trial).collect();
        say!("{}", json!({ "trials": trials, "rungs": plan.rungs }));
        return;
    }
    let keys = keys(plan);
    let heads = [&["trial"], &keys.iter().map(String::as_str).collect::<Vec<_>>()[..], &["seeds"]].concat();
    let mut rows = table(&heads);
    for (at, trial) in plan.trials.iter().enumerate() {
        let seeds: Vec<String> = trial.seeds.iter().map(u64::to_string).collect();
        rows.add_row(cells(at + 1, &trial.point.values(), [seeds.join(", ")]));
    }
    say!("{rows}\n{}", size(plan));
}

/// How many trials, runs and rungs there are.
pub(super) fn size(plan: &Plan) -> String {
    let several = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let mut text = format!("{}, {}", several(plan.trials.len(), "trial"), several(plan.n_runs(), "run"));
    let rungs: Vec<String> = plan.rungs.iter().flatten().map(|&budget| count(budget)).collect();
    if !rungs.is_empty() {
        text += &format!(", rungs at {} env-steps", rungs.join(" · "));
    }
    text
}

/// The line of a run that has ended.
pub(super) fn line(plan: &Plan, run: &Run) -> String {
    let point = &plan.trials[run.number - 1].point;
    let parameters: Vec<String> = point.values().iter().map(|(key, value)| format!("{key}={}", short(value))).collect();
    let what = match &run.state {
        State::Failed(error) => format!("failed: {error}"),
        _ => {
            let value = number(run.values.last().copied().flatten());
            let end =
                if run.state == State::RanOut { ", which its time or iterations ended before its rung" } else { "" };
            format!("{} {value} after {} env-steps in {}{end}", plan.metric, count(run.env_steps), secs(run.secs))
        }
    };
    format!("{} ({}): {what}", run.name(), parameters.join(", "))
}

/// Prints what every trial has come to.
pub(super) fn print_results(plan: &Plan, runs: &Runs) {
    let keys = keys(plan);
    let has_seeds = plan.trials.iter().any(|trial| trial.seeds.len() > 1);
    let of_values: &[&str] = if has_seeds { &["mean", "median", "lowest", "highest"] } else { &["value"] };
    let has_rungs = plan.rungs[0].is_some();
    let progress: &[&str] = if has_rungs { &["rung", "env-steps"] } else { &["env-steps"] };
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut shown = table(&[&["trial"], &keys[..], progress, of_values, &["state"]].concat());
    for row in rows(plan, runs) {
        let [lowest, median, highest] = row.spread.map_or([None; 3], |spread| spread.map(Some));
        let values = if has_seeds { vec![row.value, median, lowest, highest] } else { vec![row.value] };
        let steps = if row.env_steps == 0 { dash() } else { count(row.env_steps) };
        let rung = has_rungs.then(|| row.rung.map_or_else(dash, |rung| rung.to_string()));
        let rest = rung.into_iter().chain([steps]).chain(values.into_iter().map(number)).chain([row.state]);
        shown.add_row(cells(row.trial, &row.parameters, rest));
    }
    let order = if has_rungs { "the highest rung first, and the best of each" } else { "the best first" };
    say!("{} of {}, {order}\n{shown}", plan.metric, size(plan));
    for run in &runs.all {
        if let State::Failed(error) = &run.state {
            say!("{}: {error}", run.folder.display());
        }
    }
}

/// Prints the same as a line of JSON.
pub(super) fn print_json(plan: &Plan, runs: &Runs, folder: &std::path::Path) {
    let failed = runs.all.iter().filter(|run| matches!(run.state, State::Failed(_))).count();
    let trials = rows(plan, runs);
    say!(
        "{}",
        json!({ "sweep": folder.display().to_string(), "metric": plan.metric, "failed": failed, "trials": trials })
    );
}

fn keys(plan: &Plan) -> Vec<String> {
    plan.trials.first().map(|trial| trial.point.values().keys().cloned().collect()).unwrap_or_default()
}

fn cells(trial: usize, parameters: &Map<String, Value>, rest: impl IntoIterator<Item = String>) -> Vec<String> {
    [trial.to_string()].into_iter().chain(parameters.values().map(short)).chain(rest).collect()
}

/// A value with as many digits as a table needs.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            let rounded: f64 = format!("{number:.3e}").parse().unwrap_or(number);
            if (1e-3..1e6).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
        }
        value => shown(value),
    }
}
