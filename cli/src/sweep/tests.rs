#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::file::SweepFile;
use super::parameter::Parameter;
use super::points::{Point, grid, random};
use super::run::{Run, State};

fn parameters(text: &str) -> Vec<Parameter> {
    let text = format!("config = \"x.toml\"\n[parameters]\n{text}");
    SweepFile::parse(Path::new("sweep.toml"), text).unwrap().parameters
}

fn values(point: &Point) -> Value {
    point.values().into()
}

#[test]
fn a_grid_has_every_combination_and_the_last_key_changes_fastest() {
    let parameters = parameters("z = [1, 2]\n\"a.b\" = { choice = [\"x\", [3]] }\nc.d = [true]");
    let points: Vec<Value> = grid(&parameters).unwrap().iter().map(values).collect();
    let expected = [
        json!({ "z": 1, "a.b": "x", "c.d": true }),
        json!({ "z": 1, "a.b": [3], "c.d": true }),
        json!({ "z": 2, "a.b": "x", "c.d": true }),
        json!({ "z": 2, "a.b": [3], "c.d": true }),
    ];
    assert_eq!(points, expected);
    let keys: Vec<String> = grid(&parameters).unwrap()[0].values().keys().cloned().collect();
    assert_eq!(keys, ["z", "a.b", "c.d"], "as in the file");
}

#[test]
fn random_points_fill_their_ranges_and_no_more() {
    let parameters = parameters(
        "u = { uniform = [-1, 1] }\nl = { log_uniform = [1e-4, 1.0] }\ni = { int_uniform = [-1, 1] }\nc = [7, 8]",
    );
    let points: Vec<_> = (1..=2000).map(|trial| random(&parameters, 3, trial)).collect();
    assert!(points == (1..=2000).map(|trial| random(&parameters, 3, trial)).collect::<Vec<_>>());
    let of = |key: &str| points.iter().map(|point| point.values()[key].as_f64().unwrap()).collect::<Vec<_>>();
    let share = |key: &str, is: &dyn Fn(f64) -> bool| of(key).into_iter().filter(|&x| is(x)).count() as f64 / 2000.0;
    // Five standard deviations are 0.056 at most.
    for (key, low, high, middle) in [("u", -1.0, 1.0, 0.0), ("l", 1e-4, 1.0, 1e-2), ("c", 7.0, 8.0, 7.5)] {
        assert!(of(key).iter().all(|x| (low..=high).contains(x)), "{key}");
        assert!((share(key, &|x| x < middle) - 0.5).abs() < 0.056, "{key}");
    }
    for whole in [-1.0, 0.0, 1.0] {
        assert!((share("i", &|x| x == whole) - 1.0 / 3.0).abs() < 0.056, "{whole}");
    }
}

/// A run whose folder has this outcome and these results.
fn run(outcome: Value, results: &[Value]) -> (tempfile::TempDir, Run) {
    let sweep = tempfile::tempdir().unwrap();
    let run = Run::new(sweep.path(), 3, 1);
    fs::create_dir(&run.folder).unwrap();
    let info = json!({ "outcome": outcome, "machine": pronk::machine(), "process": 0, "process_began": 1 });
    fs::write(run.folder.join("run.json"), info.to_string()).unwrap();
    let lines: Vec<String> = results.iter().map(|result| format!("{result}\n")).collect();
    fs::write(run.folder.join("results.jsonl"), lines.concat()).unwrap();
    (sweep, run)
}

fn result(env_steps: u64, value: impl Into<Value>) -> Value {
    json!({ "num_env_steps_sampled": env_steps, "time_total_s": 1.5, "a": { "b": value.into() } })
}

#[test]
fn what_has_become_of_a_run_is_read_from_its_folder() {
    let results = [result(50, Value::Null), result(100, 1.0), result(190, 2.0), result(210, Value::Null)];
    let ended = |reason: &str| json!({ "reason": reason, "failure": null });
    let failed = json!({ "reason": null, "failure": "it broke" });
    let (none, one, last) = (vec![], vec![Some(1.0)], vec![Some(2.0)]);
    let (two, all) = (vec![Some(1.0), Some(2.0)], vec![Some(1.0), Some(2.0), Some(2.0)]);
    let limits = &[Some(100), Some(200), Some(400)];
    type Case<'a> = (Value, &'a [Option<u64>], State, &'a Vec<Option<f64>>);
    let cases: &[Case<'_>] = &[
        (ended("env_steps"), &limits[..1], State::Ended, &one),
        (ended("env_steps"), &limits[..2], State::Ended, &two),
        // It is to go on to the third rung.
        (ended("env_steps"), &limits[..3], State::Waiting, &two),
        (ended("return_reached"), &limits[..3], State::Ended, &all),
        // Only rungs that it has come to count.
        (ended("time"), &limits[..3], State::RanOut, &two),
        (ended("iterations"), &limits[..3], State::RanOut, &two),
        (ended("time"), &limits[..2], State::Ended, &two),
        (ended("time"), &[None], State::Ended, &last),
        (ended("terminated"), &limits[..3], State::Waiting, &two),
        (ended("interrupted"), &[None], State::Waiting, &none),
        (ended("env_steps"), &[None], State::Ended, &last),
        (failed, &limits[..3], State::Failed("it broke".to_owned()), &two),
        (Value::Null, &limits[..1], State::Waiting, &none),
        (Value::Null, &limits[..2], State::Waiting, &one),
        (Value::Null, &[None], State::Waiting, &none),
    ];
    for (outcome, rungs, state, values) in cases {
        let (_sweep, mut run) = run(outcome.clone(), &results);
        run.look("a.b", rungs).unwrap();
        assert_eq!((&run.state, &run.values), (state, *values), "{outcome} {rungs:?}");
        assert_eq!((run.env_steps, run.secs), (210, 1.5));
    }
    let (_sweep, mut run) = run(ended("env_steps"), &results);
    run.look("a.c", &[None]).unwrap();
    assert!(matches!(&run.state, State::Failed(why) if why.contains("`a.c`")), "{:?}", run.state);
}

#[test]
fn a_run_of_another_host_is_told_apart_and_taken_over() {
    let (_sweep, mut run) = run(Value::Null, &[]);
    let info = json!({ "outcome": null, "machine": { "host": "elsewhere" }, "process": 1, "process_began": 1 });
    fs::write(run.folder.join("run.json"), info.to_string()).unwrap();
    run.look("a", &[None]).unwrap();
    assert_eq!(run.state, State::Elsewhere { host: "elsewhere".to_owned() });
    run.take_over().unwrap();
    run.look("a", &[None]).unwrap();
    assert_eq!(run.state, State::Waiting);
}

#[test]
fn a_rung_that_the_sweep_does_not_have_is_refused_naming_the_file() {
    let (_sweep, run) = run(Value::Null, &[]);
    assert_eq!(run.rung(3).unwrap(), None);
    let write = |rung: usize| {
        let trial = json!({ "parameters": {}, "seed": 1, "trial": 3, "rung": rung });
        fs::write(run.folder.join("trial.json"), trial.to_string()).unwrap();
    };
    write(2);
    assert_eq!(run.rung(3).unwrap(), Some(2));
    write(3);
    let error = run.rung(3).unwrap_err().to_string();
    assert!(error.contains("trial.json") && error.contains("its rung is 3"), "{error}");
}
