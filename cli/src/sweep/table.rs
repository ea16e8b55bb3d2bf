//! What a sweep shows: the trials that it will run, a line for each that has ended, and the table at the end.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::plan::Plan;
use super::trial::{State, Trial};
use super::trials::{Trials, mean};
use crate::spread::spread;
use crate::table::{count, dash, number, secs, table};

/// What a point has come to.
#[derive(Debug, Serialize)]
struct Row {
    trial: usize,
    parameters: Map<String, Value>,
    /// Of its trial that has come furthest.
    env_steps: u64,
    /// The mean over its seeds, at the highest rung that any has completed.
    value: Option<f64>,
    /// Lowest, median and highest.
    spread: Option<[f64; 3]>,
    runs: Vec<Value>,
    #[serde(skip)]
    state: String,
}

/// The points that have begun, the best first.
fn rows(plan: &Plan, trials: &Trials) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..plan.points.len())
        .map(|at| (at, &trials.all[trials.of_point(at)]))
        .filter(|(_, of_point)| of_point.iter().any(|trial| trial.folder.exists()))
        .map(|(at, of_point)| row(plan, at, of_point))
        .collect();
    let score = |row: &Row| row.value.map_or(f64::NEG_INFINITY, |value| plan.score(value));
    rows.sort_by(|a, b| score(b).total_cmp(&score(a)));
    rows
}

fn row(plan: &Plan, at: usize, trials: &[Trial]) -> Row {
    let rung = trials.iter().map(|trial| trial.values.len()).max().unwrap_or(0);
    let at_rung = |trial: &Trial| trial.values.get(rung.checked_sub(1)?).copied().flatten();
    let values: Vec<f64> = trials.iter().filter_map(at_rung).collect();
    let run = |trial: &Trial| {
        json!({
            "folder": trial.folder,
            "seed": trial.seed,
            "state": state(&trial.state),
            "value": at_rung(trial),
            "env_steps": trial.env_steps,
            "time_s": trial.secs,
            "error": if let State::Failed(error) = &trial.state { Some(error) } else { None },
        })
    };
    Row {
        trial: at + 1,
        parameters: plan.points[at].point.values(),
        env_steps: trials.iter().map(|trial| trial.env_steps).max().unwrap_or(0),
        value: (!values.is_empty()).then(|| mean(&values)),
        spread: spread(values),
        runs: trials.iter().map(run).collect(),
        state: states(trials),
    }
}

/// The state that all trials have, or how many have each.
fn states(trials: &[Trial]) -> String {
    let names = ["ended", "failed", "waiting", "running"];
    let counted = names.map(|name| (name, trials.iter().filter(|trial| state(&trial.state) == name).count()));
    let there: Vec<_> = counted.into_iter().filter(|(_, n)| *n > 0).collect();
    match there[..] {
        [(name, _)] => name.to_owned(),
        _ => there.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", "),
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Running { .. } => "running",
        State::Ended => "ended",
        State::Failed(_) => "failed",
    }
}

/// Prints the trials of a sweep that is not run.
pub(super) fn print_plan(plan: &Plan, as_json: bool) {
    if as_json {
        let trials = plan.points.iter().enumerate().map(
            |(at, planned)| json!({ "trial": at + 1, "parameters": planned.point.values(), "seeds": planned.seeds }),
        );
        say!("{}", json!({ "trials": trials.collect::<Vec<_>>(), "rungs": plan.rungs }));
        return;
    }
    let keys = keys(plan);
    let heads = [&["trial"], &keys.iter().map(String::as_str).collect::<Vec<_>>()[..], &["seeds"]].concat();
    let mut rows = table(&heads);
    for (at, planned) in plan.points.iter().enumerate() {
        let seeds: Vec<String> = planned.seeds.iter().map(u64::to_string).collect();
        rows.add_row(cells(at + 1, &planned.point.values(), [seeds.join(", ")]));
    }
    say!("{rows}\n{}", size(plan));
}

/// How many points, runs and rungs there are.
pub(super) fn size(plan: &Plan) -> String {
    let several = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let mut text = format!("{}, {}", several(plan.points.len(), "trial"), several(plan.n_runs(), "run"));
    let rungs: Vec<String> = plan.rungs.iter().flatten().map(|&budget| count(budget)).collect();
    if !rungs.is_empty() {
        text += &format!(", rungs at {} env-steps", rungs.join(" · "));
    }
    text
}

/// The line of a trial that has ended.
pub(super) fn line(plan: &Plan, trial: &Trial) -> String {
    let point = &plan.points[trial.number - 1].point;
    let parameters: Vec<String> = point.values().iter().map(|(key, value)| format!("{key}={}", short(value))).collect();
    let what = match &trial.state {
        State::Failed(error) => format!("failed: {error}"),
        _ => {
            let value = number(trial.values.last().copied().flatten());
            format!("{} {value} after {} env-steps in {}", plan.metric, count(trial.env_steps), secs(trial.secs))
        }
    };
    format!("{} ({}): {what}", trial.name(), parameters.join(", "))
}

/// Prints what every point has come to.
pub(super) fn print_results(plan: &Plan, trials: &Trials) {
    let keys = keys(plan);
    let has_seeds = plan.points.iter().any(|point| point.seeds.len() > 1);
    let of_values: &[&str] = if has_seeds { &["mean", "median", "lowest", "highest"] } else { &["value"] };
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut shown = table(&[&["trial"], &keys[..], &["env-steps"], of_values, &["state"]].concat());
    for row in rows(plan, trials) {
        let [lowest, median, highest] = row.spread.map_or([None; 3], |spread| spread.map(Some));
        let values = if has_seeds { vec![row.value, median, lowest, highest] } else { vec![row.value] };
        let steps = if row.env_steps == 0 { dash() } else { count(row.env_steps) };
        let rest = [steps].into_iter().chain(values.into_iter().map(number)).chain([row.state]);
        shown.add_row(cells(row.trial, &row.parameters, rest));
    }
    say!("{} of {}, the best first\n{shown}", plan.metric, size(plan));
    for trial in &trials.all {
        if let State::Failed(error) = &trial.state {
            say!("{}: {error}", trial.folder.display());
        }
    }
}

/// Prints the same as a line of JSON.
pub(super) fn print_json(plan: &Plan, trials: &Trials, folder: &std::path::Path) {
    let failed = trials.all.iter().filter(|trial| matches!(trial.state, State::Failed(_))).count();
    let trials = rows(plan, trials);
    say!("{}", json!({ "sweep": folder, "metric": plan.metric, "failed": failed, "trials": trials }));
}

fn keys(plan: &Plan) -> Vec<String> {
    plan.points.first().map(|planned| planned.point.values().keys().cloned().collect()).unwrap_or_default()
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
        value => value.to_string(),
    }
}
