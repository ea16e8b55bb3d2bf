//! Sweeps that are killed, signalled, or find runs that others have begun.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::pronk;
use super::{ended, folder, of_trials, read_json, results};

/// Four runs, each long enough to be interrupted.
const LONG: &str = "seeds = [1, 2, 3, 4]\n[parameters]\nstop.env_steps = [60_000]\nalgorithm = [\"impala\"]";

fn start(folder: &Path) -> Child {
    let args = ["sweep", "sweep.toml", "--out", "out", "--jobs", "1"];
    let output = || fs::File::options().create(true).append(true).open(folder.join("errors.txt")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_pronk"))
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(output())
        .spawn()
        .unwrap()
}

/// The number of the process that `run.json` names.
fn process(info: &str) -> String {
    serde_json::from_str::<Value>(info).unwrap()["process"].to_string()
}

fn kill(signal: &str, processes: &[String]) {
    assert!(Command::new("kill").args(["-s", signal]).args(processes).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    let folder = folder(LONG);
    let (folder, out) = (folder.path(), folder.path().join("out"));
    let mut child = start(folder);
    wait_until("the first run has ended and another has begun", || {
        ended(&out).len() == 1 && of_trials(&out, "results.jsonl").len() == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let before = of_trials(&out, "run.json");
    let (status, line, errors) = pronk(folder, &["sweep", "sweep.toml", "--out", "out", "--json"]);
    assert_eq!(status, 0, "{errors}{line}");
    let after = of_trials(&out, "run.json");
    assert_eq!(after["trial-0001-s1"], before["trial-0001-s1"], "what has ended is not run again");
    assert_eq!(ended(&out).len(), 4);
    for seed in 1..=4 {
        assert!(results(&out.join(format!("trial-0001-s{seed}"))).last().unwrap().0 >= 60_000);
    }
}

#[test]
fn the_processes_of_a_killed_sweep_end_and_save_themselves() {
    let folder = folder(&LONG.replace("60_000", "1_000_000_000"));
    let out = folder.path().join("out");
    let mut child = start(folder.path());
    wait_until("a run has trained", || of_trials(&out, "results.jsonl").values().any(|text| text.lines().count() > 3));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the run has saved itself", || {
        read_json(&out.join("trial-0001-s1/run.json"))["outcome"]["reason"] == "terminated"
    });
    assert!(out.join("trial-0001-s1/checkpoints/manifest.json").exists());
}

#[test]
fn signals_let_runs_save_themselves_and_the_sweep_goes_on_later() {
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let folder = folder(LONG);
        let (folder, out) = (folder.path(), folder.path().join("out"));
        let mut child = start(folder);
        wait_until("a run has trained", || {
            of_trials(&out, "results.jsonl").values().any(|text| text.lines().count() > 3)
        });
        let (again, _, errors) = pronk(folder, &["sweep", "sweep.toml", "--out", "out"]);
        assert!(again == 1 && errors.contains("another `pronk sweep` is at work in out"), "{errors}");
        // Some schedulers signal the processes of the runs too.
        let all = of_trials(&out, "run.json").into_values().map(|info| process(&info)).filter(|_| signal == "TERM");
        kill(signal, &[vec![child.id().to_string()], all.collect()].concat());
        assert_eq!(child.wait().unwrap().code(), Some(status));
        let errors = fs::read_to_string(folder.join("errors.txt")).unwrap();
        assert!(errors.contains("continue with `pronk sweep sweep.toml --out out`"), "{errors}");
        let states = of_trials(&out, "run.json");
        assert!(states.values().all(|info| !info.contains("\"outcome\": null")), "all have saved: {states:?}");
        assert!(ended(&out).len() < 4, "it was interrupted");

        let (status, line, errors) = pronk(folder, &["sweep", "sweep.toml", "--out", "out", "--json"]);
        assert_eq!((status, ended(&out).len()), (0, 4), "{errors}{line}");
        (1..=4).for_each(|seed| assert!(results(&out.join(format!("trial-0001-s{seed}"))).len() > 3));
    }
}

/// A sweep of one run, which has been begun by hand.
fn by_hand(env_steps: u64) -> (tempfile::TempDir, Child) {
    let folder = folder(&format!("[parameters]\nstop.env_steps = [{env_steps}]"));
    let out = folder.path().join("out");
    let trial = out.join("trial-0001-s0");
    fs::create_dir_all(&trial).unwrap();
    fs::copy(folder.path().join("sweep.toml"), out.join("sweep.toml")).unwrap();
    fs::copy(folder.path().join("config.toml"), out.join("base.toml")).unwrap();
    let described =
        serde_json::json!({ "parameters": { "stop.env_steps": env_steps }, "seed": 0, "trial": 1, "rung": 0 });
    fs::write(trial.join("trial.json"), described.to_string()).unwrap();
    let limit = format!("stop.env_steps={env_steps}");
    let args = ["train", "config.toml", "--set", &limit, "--out", "out/trial-0001-s0", "--quiet"];
    let mut train = Command::new(env!("CARGO_BIN_EXE_pronk"));
    let train = train.args(args).current_dir(folder.path()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it has begun", || trial.join("run.json").exists());
    (folder, train)
}

#[test]
fn a_run_that_still_goes_on_is_waited_for_and_not_started_again() {
    let (folder, mut train) = by_hand(60_000);
    let folder = folder.path();
    let id = train.id().to_string();
    kill("STOP", std::slice::from_ref(&id));
    let mut sweep = start(folder);
    let errors = || fs::read_to_string(folder.join("errors.txt")).unwrap_or_default();
    let waits = format!("waiting for what runs already: trial-0001-s0 (process {id})");
    wait_until("the sweep has seen it", || errors().contains(&waits));
    kill("CONT", std::slice::from_ref(&id));
    // A child of this test would otherwise stay in the table of processes.
    assert!(train.wait().unwrap().success() && sweep.wait().unwrap().success(), "{}", errors());
    assert_eq!(process(&of_trials(&folder.join("out"), "run.json")["trial-0001-s0"]), id);
    assert!(errors().contains("trial-0001-s0 (stop.env_steps"), "{}", errors());
}

#[test]
fn a_signal_to_the_sweep_ends_a_run_that_was_begun_by_hand() {
    let (folder, mut train) = by_hand(1_000_000_000);
    let folder = folder.path();
    wait_until("it listens to signals", || {
        of_trials(&folder.join("out"), "results.jsonl").values().any(|text| !text.is_empty())
    });
    let mut sweep = start(folder);
    let errors = || fs::read_to_string(folder.join("errors.txt")).unwrap_or_default();
    wait_until("the sweep has seen it", || errors().contains("waiting for what runs already"));
    kill("TERM", &[sweep.id().to_string()]);
    wait_until("the run has ended", || train.try_wait().unwrap().is_some());
    assert_eq!((train.wait().unwrap().code(), sweep.wait().unwrap().code()), (Some(143), Some(143)), "{}", errors());
    let info = read_json(&folder.join("out/trial-0001-s0/run.json"));
    assert_eq!(info["outcome"]["reason"], "terminated");
}

#[test]
fn what_another_host_began_is_named_and_taken_over_on_request() {
    let (folder, mut train) = by_hand(1_000_000_000);
    let folder = folder.path();
    train.kill().unwrap();
    train.wait().unwrap();
    // A limit that is reached at once.
    let out = folder.join("out");
    let sweep = fs::read_to_string(folder.join("sweep.toml")).unwrap().replace("1000000000", "2000");
    for folder in [folder, &out] {
        fs::write(folder.join("sweep.toml"), &sweep).unwrap();
    }
    let info = out.join("trial-0001-s0/run.json");
    let mut elsewhere = read_json(&info);
    elsewhere["machine"]["host"] = "elsewhere".into();
    fs::write(&info, elsewhere.to_string()).unwrap();

    let args = ["sweep", "sweep.toml", "--out", "out", "--quiet"];
    let (status, _, errors) = pronk(folder, &args);
    assert!(status == 1 && errors.contains("trial-0001-s0 on elsewhere") && errors.contains("--take-over"), "{errors}");
    let (status, table, errors) = pronk(folder, &[&args[..], &["--take-over"]].concat());
    assert!(status == 0 && table.contains(" ended"), "{table}{errors}");
}
