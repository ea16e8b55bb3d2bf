//! Each check is seen to fail: a run that passes all of them, changed in one thing.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;
use serde_json::json;

use super::*;

/// What a run of 100 seconds printed and had.
struct Run {
    results: Vec<Value>,
    ended: Value,
    status: i32,
    signalled: Option<Signal>,
    samples: Vec<Census>,
    /// What is allocated in each half of the samples.
    heap_kib: [u64; 2],
    faults: u64,
}

impl Run {
    fn sound() -> Self {
        let mut ended = json!({
            "reason": "time", "steps": result(3)["ledger"]["steps"], "time": result(3)["ledger"]["time"],
            "steps_made": 300, "abandoned": [], "gave_up": [], "reporter_failures": [], "checkpoint_failures": [],
            "checkpoint": {"Ok": null}, "before": Census::default(), "after": Census::default(),
            "log_failure": null, "unix_secs": 0, "not_joined": [],
        });
        for unit in ["env", "agent"] {
            ended["steps"]["in_flight"][unit] = json!(0);
            ended["steps"]["trained_once"][unit] = json!(255);
            ended["steps"]["trained_passes"][unit] = json!(255);
        }
        let running = Census { running: 1, ..Census::default() };
        let results = (1..=3).map(result).collect();
        Self { results, ended, status: 0, signalled: None, samples: vec![running; 100], heap_kib: [0; 2], faults: 1 }
    }

    fn failures(&self, cell: &str) -> Vec<String> {
        let mut checker = Checker::new(Cell::named(cell).unwrap(), Duration::from_secs(100));
        checker.restarted(false);
        let line = |result: &Value| result.as_str().map_or_else(|| result.to_string(), str::to_owned);
        self.results.iter().for_each(|result| checker.line(&line(result)));
        for (half, heap_kib) in self.samples.chunks(50).zip(self.heap_kib) {
            checker.line(&json!({ "heap_kib": heap_kib }).to_string());
            half.iter().for_each(|census| checker.sample(*census));
        }
        // A sample each second, all before the last result.
        checker.samples.iter_mut().enumerate().for_each(|(second, sample)| sample.at = second as f64);
        checker.last_result = 100.0;
        if !self.ended.is_null() {
            checker.line(&json!({ "ended": self.ended }).to_string());
        }
        let status = ExitStatus::from_raw(self.status);
        checker.exit(&Exit { status, signalled: self.signalled, stderr: "" });
        checker.felt(self.faults);
        checker.flat();
        checker.failures()
    }
}

/// A result whose figures grow with its number, and whose predecessor a checkpoint has.
fn result(n: u64) -> Value {
    let steps = |steps: u64| json!({"env": steps * n, "agent": steps * n});
    json!({
        "training_iteration": n, "life": 0, "time_total_s": n, "num_env_steps_sampled": 100 * n,
        "counters": {
            "num_env_steps_sampled": 100 * n, "num_env_steps_trained": 80 * n, "num_env_steps_trained_once": 80 * n,
            "num_env_steps_dropped": 10 * n, "num_env_steps_lost": 5 * n,
            "num_agent_steps_sampled": 100 * n, "num_agent_steps_trained": 80 * n,
            "num_agent_steps_trained_once": 80 * n,
        },
        "ledger": {
            "steps": {
                "sampled": steps(100), "trained_once": steps(80), "trained_passes": steps(80), "in_flight": steps(5),
                "dropped": {"stale": steps(10)}, "lost": {"panicked": steps(5)},
            },
            "time": {"learner": {"wall_secs": n, "states": {"learning": n, "starved": 0}}},
        },
        "checkpoint": {"last_iteration": n - 1, "saved": n - 1},
    })
}

/// The check that fails, the cell, and the change.
type Case = (&'static str, &'static str, fn(&mut Run));

const CASES: &[Case] = &[
    ("line: ", "plain", |run| run.results[1] = json!("{")),
    ("no results: ", "plain", |run| run.results.clear()),
    ("no samples: ", "plain", |run| run.samples.truncate(20)),
    ("stall: ", "plain", |run| run.samples.fill(Census::default())),
    ("goes back: life", "plain", |run| run.results[0]["life"] = json!(1)),
    ("goes back: ledger.time.learner", "plain", |run| {
        run.results[0]["ledger"]["time"]["learner"] = json!({"wall_secs": 9, "states": {"learning": 9}});
    }),
    ("gap: ", "plain", |run| drop(run.results.remove(1))),
    ("clock: ", "plain", |run| run.results[2]["time_total_s"] = json!(70)),
    ("clock: ", "plain", |run| run.results[2]["time_total_s"] = Value::Null),
    ("steps: 200 env-steps are not ", "plain", |run| steps(run)["lost"]["panicked"]["env"] = json!(0)),
    ("steps: 200 agent-steps are not ", "plain", |run| steps(run)["dropped"]["stale"]["agent"] = json!(0)),
    ("steps: more env-steps ", "plain", |run| steps(run)["trained_passes"]["env"] = json!(159)),
    ("steps: sampled.env is missing ", "plain", |run| steps(run)["sampled"]["env"] = Value::Null),
    ("steps: the counter of env-steps lost ", "plain", |run| counters(run)["num_env_steps_lost"] = Value::Null),
    ("steps: the counter of env-steps trained ", "plain", |run| counters(run)["num_env_steps_trained"] = json!(161)),
    ("steps: the counter of agent-steps trained_once ", "plain", |run| {
        counters(run)["num_agent_steps_trained_once"] = json!(1);
    }),
    ("time: the states ", "plain", |run| {
        run.results[1]["ledger"]["time"]["learner"]["states"]["starved"] = json!(2e-3);
    }),
    ("time: there are no threads", "plain", |run| run.results[1]["ledger"]["time"] = json!({})),
    ("end: the run has no outcome", "plain", |run| run.ended = Value::Null),
    ("end: ", "little-memory", |_| {}),
    ("status: ", "plain", |run| run.status = 1 << 8),
    ("status: ", "disk", |run| run.ended["log_failure"] = json!("the logs are not whole")),
    ("status: ", "signals", |run| run.signalled = Some(Signal::INT)),
    ("failure: ", "plain", |run| run.ended["failure"] = json!("the loss is NaN")),
    ("reason: ", "plain", |run| run.ended["reason"] = json!("interrupted")),
    ("last ledger: ", "plain", |run| run.ended["steps"]["sampled"]["env"] = json!(301)),
    ("last ledger: ", "plain", |run| run.ended["time"] = Value::Null),
    ("last ledger: in flight", "groups", |run| {
        run.ended["steps"]["sampled"]["env"] = json!(301);
        run.ended["steps"]["in_flight"]["env"] = json!(1);
    }),
    ("steps made: ", "plain", |run| run.ended["steps_made"] = json!(299)),
    ("abandoned: ", "plain", |run| run.ended["abandoned"] = json!(["rollout-1"])),
    ("gave_up: ", "hangs", |run| run.ended["gave_up"] = json!(["rollout-1"])),
    ("reporter_failures: ", "plain", |run| run.ended["reporter_failures"] = Value::Null),
    ("checkpoint_failures: ", "plain", |run| run.ended["checkpoint_failures"] = json!(["disk full"])),
    ("last checkpoint: ", "plain", |run| run.ended["checkpoint"] = json!({"Err": "no such file"})),
    ("left behind: threads: ", "plain", |run| run.ended["after"]["threads"] = json!(1)),
    ("left behind: descriptors: ", "plain", |run| run.ended["after"]["descriptors"] = json!(1)),
    ("left behind: shared memory: ", "plain", |run| run.ended["after"]["shared"] = json!(1)),
    ("left behind: children: ", "plain", |run| run.ended["after"]["children"] = json!(1)),
    ("left behind: no census", "plain", |run| run.ended["before"] = Value::Null),
    ("no fault: nothing was done", "clock", |run| run.faults = 0),
    ("no fault: the wall clock ", "clock", |run| run.ended["unix_secs"] = json!(crate::run::unix_secs())),
    ("no fault: workers.num_abandoned ", "hangs", |_| {}),
    ("no fault: ended.reporter_failures ", "reporters", |_| {}),
    ("threads: ", "plain", |run| run.samples[50].threads = 5),
    ("descriptors: ", "plain", |run| run.samples[50].descriptors = 17),
    ("shared memory: ", "plain", |run| run.samples[50].shared = 9),
    ("children: ", "plain", |run| run.samples[50].children = 9),
    ("memory: ", "plain", |run| run.samples[50].memory_kib = 25 << 10),
    ("heap: ", "plain", |run| run.heap_kib[1] = 25 << 10),
];

fn steps(run: &mut Run) -> &mut Value {
    &mut run.results[1]["ledger"]["steps"]
}

fn counters(run: &mut Run) -> &mut Value {
    &mut run.results[1]["counters"]
}

#[test]
fn each_check_fails_a_run_that_breaks_it() {
    assert_eq!(Run::sound().failures("plain"), Vec::<String>::new());
    let missed = CASES.iter().filter_map(|(check, cell, change)| {
        let mut run = Run::sound();
        change(&mut run);
        let failures = run.failures(cell);
        let is_found = failures.iter().any(|failure| failure.starts_with(check));
        (!is_found).then_some((check, cell, failures))
    });
    assert_eq!(missed.collect::<Vec<_>>(), []);
}

#[test]
fn results_that_no_checkpoint_has_are_found() {
    // At most as many seconds as a clock may be wrong, since the results follow at once.
    let failures = |secs: f64, saved: fn(u64) -> u64| {
        let mut run = Run { results: (1..=121).map(result).collect(), ..Run::sound() };
        for (result, n) in run.results.iter_mut().zip(1..) {
            result["checkpoint"]["last_iteration"] = saved(n).into();
            result["time_total_s"] = json!(secs * n as f64 / 120.0);
        }
        run.failures("plain")
    };
    assert!(failures(54.0, |_| 0)[0].starts_with("checkpoint: "));
    assert_eq!(failures(5.0, |_| 0), Vec::<String>::new(), "many results in little time");
    assert_eq!(failures(54.0, |n| n / 60 * 60), Vec::<String>::new());
}

#[test]
fn a_disk_that_was_full_at_every_checkpoint_has_none() {
    let failures = |saved: u64, failures: &[&str]| {
        let mut run = Run::sound();
        run.results[2]["checkpoint"]["saved"] = json!(saved);
        run.ended["checkpoint_failures"] = json!(failures);
        run.ended["checkpoint"] = json!({"Err": "no such file"});
        run.failures("disk")
    };
    assert_eq!(failures(0, &["disk full"]), Vec::<String>::new());
    assert!(failures(1, &["disk full"])[0].starts_with("last checkpoint: "), "one that was saved is gone");
    assert!(failures(0, &[])[0].starts_with("last checkpoint: "), "none is missed");
}

#[test]
fn a_run_whose_logs_lack_results_has_failed() {
    let mut run = Run::sound();
    run.ended["checkpoint_failures"] = json!(["disk full"]);
    (run.status, run.ended["log_failure"]) = (1 << 8, json!("the logs are not whole"));
    assert_eq!(run.failures("disk"), Vec::<String>::new());
}

/// What is found in the first result of a process after one of three results and others of none, each killed
/// or not.
fn resumed(were_killed: &[bool], iteration: u64, life: u64) -> Vec<String> {
    let mut checker = Checker::new(Cell::named("signals").unwrap(), Duration::from_secs(100));
    checker.restarted(false);
    (1..=3).for_each(|n| checker.line(&result(n).to_string()));
    were_killed.iter().for_each(|was_killed| checker.restarted(*was_killed));
    let mut first = result(iteration);
    first["life"] = json!(life);
    checker.line(&first.to_string());
    checker.failures()
}

#[test]
fn a_run_that_is_resumed_goes_on_from_its_newest_checkpoint_in_another_life() {
    let sound: [(&[bool], _); 5] = [(&[false], 4), (&[true], 3), (&[true], 4), (&[true], 5), (&[true, false], 5)];
    for (were_killed, iteration) in sound {
        assert_eq!(resumed(were_killed, iteration, 1), Vec::<String>::new(), "{were_killed:?}, {iteration}");
        assert!(resumed(were_killed, iteration, 0)[0].starts_with("goes back: life"), "{were_killed:?}, {iteration}");
    }
    // The checkpoint after a kill has the second result, and that after any other end the third.
    assert!(resumed(&[true], 1, 1)[0].starts_with("goes back: "));
    assert!(resumed(&[false], 2, 1)[0].starts_with("goes back: "));
    assert!(resumed(&[false], 5, 1)[0].starts_with("gap: "));
}
