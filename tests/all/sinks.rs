//! What shows a run: nothing that goes wrong there takes anything away from the run.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::wrappers::{Chaos, ChaosConfig};
use pronk::{
    Csv, HtmlReport, JsonLines, Prometheus, ReportError, Reporter, ResultDict, Run, RunFolder, RunState, TensorBoard,
    Timeline, Timers, reporter_fn,
};
use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt;

use crate::fixtures::{alone, iterations, small};

fn run(workers: usize, iterations: u64, add: impl FnOnce(&mut Trainer)) -> Run {
    let mut trainer = Trainer::new(small(workers), |_: &EnvContext| CartPole::new()).unwrap();
    add(&mut trainer);
    let run = trainer.run(StopWhen { iterations: Some(iterations), ..StopWhen::default() }).unwrap();
    assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
    assert!(run.thread_times.iter().flat_map(|time| &time.states).all(|(_, secs)| *secs >= 0.0));
    run
}

fn last_line(path: &Path) -> Value {
    serde_json::from_str(fs::read_to_string(path).unwrap().lines().last().unwrap()).unwrap()
}

#[test]
fn a_run_folder_has_every_result_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(1, 4, |trainer| trainer.log_to(folder.path().join("runs/1")).unwrap());
    assert!(run.reporter_failures.is_empty(), "{:?}", run.reporter_failures);
    let folder = folder.path().join("runs/1");
    let lines = fs::read_to_string(folder.join("results.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 4);
    let last = last_line(&folder.join("results.jsonl"));
    assert_eq!(last["num_env_steps_sampled"], run.result.env_steps_sampled);

    let table = fs::read_to_string(folder.join("progress.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|row| row.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "num_env_steps_sampled").unwrap();
    assert_eq!((rows.len(), rows[4][column].parse()), (5, Ok(run.result.env_steps_sampled)));

    let report = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("CartPole") && report.contains("uPlot") && report.contains("rollout-1"));
    let is_event_file = |name: &str| name.starts_with("events.out.tfevents.");
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.filter(|name| is_event_file(name)).count(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_a_closed_pipe_and_a_panic_are_told_once_and_the_run_goes_on() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let shown = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&shown);
    let run = run(1, 5, |trainer| {
        trainer.add_reporter(JsonLines::create("/dev/full").unwrap());
        trainer.add_reporter(Csv::create("/dev/full").unwrap());
        trainer.add_reporter(Timeline::create("/dev/full", 1000).unwrap());
        trainer.add_reporter(Console::new(writer));
        trainer.add_reporter(reporter_fn("panics", |_| panic!("on purpose")));
        trainer.add_reporter(reporter_fn("works", move |result| {
            list.lock().unwrap().push(result.number("training_iteration"));
            Ok(())
        }));
        assert!(TensorBoard::create("/dev/full/events").is_err());
    });
    let failed: Vec<_> = run.reporter_failures.iter().map(|failure| &*failure.reporter).collect();
    assert_eq!(failed, ["json_lines", "csv", "console", "panics", "timeline"], "{:?}", run.reporter_failures);
    let iterations: Vec<_> = (1..=5).map(|iteration| Some(f64::from(iteration))).collect();
    assert_eq!(*shown.lock().unwrap(), iterations);
    let named = run.result.dict.get("reporters_failed").unwrap();
    assert!(named.to_string().contains("No space left") && named.to_string().contains("on purpose"), "{named}");
}

/// A reporter that has no room for the results 2 and 3, and goes on.
struct Patchy(Arc<Mutex<Vec<f64>>>);

impl Reporter for Patchy {
    fn name(&self) -> &str {
        "patchy"
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let iteration = result.number("training_iteration").unwrap_or_default();
        if (2.0..=3.0).contains(&iteration) {
            let full = io::ErrorKind::StorageFull.into();
            return Err(ReportError::of_file("patchy", "write to", "a log".as_ref(), full));
        }
        self.0.lock().unwrap().push(iteration);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        true
    }
}

#[test]
fn a_log_goes_on_once_its_disk_has_room_and_what_it_misses_is_counted() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let run = run(1, 5, |trainer| trainer.add_reporter(Patchy(Arc::clone(&shown))));
    assert_eq!(*shown.lock().unwrap(), [1.0, 4.0, 5.0]);
    let failures: Vec<_> = run.reporter_failures.iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        ["reporter `patchy` failed: cannot write to `a log`: no storage space; 2 results are missing"]
    );
    assert_eq!(run.result.dict.get("reporters_failed"), Some(&failures.clone().into()));
    assert_eq!(run.log_failure(), Some(format!("the logs are not whole: {}", failures[0])));
    assert_eq!(run.exit_status(), 1);
}

#[test]
fn a_slow_reporter_makes_iterations_longer_and_loses_no_count() {
    let sums = Arc::new(Mutex::new((0.0, 0.0)));
    let kept = Arc::clone(&sums);
    let run = run(2, 6, |trainer| {
        trainer.add_reporter(reporter_fn("slow", move |result| {
            #[allow(clippy::disallowed_methods)] // It is slow by time.
            thread::sleep(Duration::from_millis(60));
            let mut sums = kept.lock().unwrap();
            sums.0 += result.number("num_env_steps_sampled_this_iter").unwrap();
            sums.1 += result.number("num_env_steps_trained_this_iter").unwrap();
            Ok(())
        }));
    });
    assert_eq!(run.result.iteration, 6);
    let counted = (run.result.env_steps_sampled as f64, run.result.env_steps_trained as f64);
    assert_eq!(*sums.lock().unwrap(), counted);
    let reporting = run.thread_times.iter().find(|time| time.thread == "trainer").unwrap();
    let secs = reporting.states.iter().find(|(state, _)| *state == "reporting").unwrap().1;
    assert!(secs >= 6.0 * 0.06, "{secs}");
}

/// Leaves files for `cargo xtask readers`, which has other programs read them: a run folder, and what the
/// endpoint served last.
#[test]
fn a_run_leaves_files_for_the_programs_that_read_them() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sinks");
    // Of an earlier test run: events of two runs in one folder are one run to TensorBoard.
    let _ = fs::remove_dir_all(&folder);
    let mut trainer = Trainer::new(small(2), |_: &EnvContext| CartPole::new()).unwrap();
    let prometheus = Prometheus::bind("127.0.0.1:0").unwrap();
    let addr = prometheus.addr();
    trainer.log_to(&folder).unwrap();
    trainer.add_reporter(prometheus);
    trainer.by_ref().take(20).for_each(|result| assert!(result.unwrap().ledger_closed()));
    let text = scrape(addr);
    fs::write(folder.join("served.txt"), text.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(trainer.finish().unwrap().reporter_failures.is_empty());
}

fn scrape(addr: SocketAddr) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_endpoint_serves_the_newest_result_and_its_thread_is_in_the_ledger() {
    let mut trainer = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap();
    let prometheus = Prometheus::bind("127.0.0.1:0").unwrap();
    let addr = prometheus.addr();
    trainer.add_reporter(prometheus);
    let sampled = trainer.next().unwrap().unwrap().env_steps_sampled;
    let text = scrape(addr);
    let expected = format!("\npronk_steps_sampled_total{{unit=\"env\"}} {sampled}.0\n");
    assert!(text.contains(&expected), "{expected} {text}");
    let run = trainer.finish().unwrap();
    assert!(run.thread_times.iter().any(|time| time.thread == "prometheus"), "{:?}", run.thread_times);
    assert!(TcpStream::connect(addr).is_err(), "it ends with the run");
}

#[test]
fn timers_and_timeline_hold_what_the_threads_of_a_run_did() {
    // A span that a thread without a subscriber comes to first, at that instant, may stay switched off for
    // the process.
    alone("sinks::timers_and_timeline_hold_what_the_threads_of_a_run_did", timers_and_timeline);
}

fn timers_and_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let (timers, timeline) = (Timers::new(), Timeline::create(folder.path().join("trace.json"), 10_000).unwrap());
    let subscriber = tracing_subscriber::registry().with(timers.layer()).with(timeline.layer());
    // Without threads, because the subscriber is that of this one.
    let run = tracing::subscriber::with_default(subscriber, || {
        run(0, 3, |trainer| {
            trainer.add_reporter(timers.file(folder.path().join("timers.json")));
            trainer.add_reporter(timeline);
            trainer.add_reporter(reporter_fn("own", |_| {
                tracing::info_span!("my_span").in_scope(|| ());
                Ok(())
            }));
        })
    });
    assert!(run.reporter_failures.is_empty(), "{:?}", run.reporter_failures);
    let tree: Value = serde_json::from_str(&fs::read_to_string(folder.path().join("timers.json")).unwrap()).unwrap();
    let grad = &tree["children"]["take_in"]["children"]["grad"];
    let fragment = &tree["children"]["take_in"]["children"]["queue"]["children"]["fragment"];
    assert!(grad["count"].as_u64() >= Some(3) && fragment["total"].as_f64() > Some(0.0), "{tree:#}");
    assert_eq!(tree["children"]["report"]["children"]["my_span"]["count"], 3);

    let trace: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(folder.path().join("trace.json")).unwrap()).unwrap();
    let mut open = Vec::new();
    for event in trace.iter().filter(|event| event["ph"] == "B" || event["ph"] == "E") {
        match event["ph"].as_str() {
            Some("B") => open.push(&event["name"]),
            _ => assert!(open.pop().is_some(), "{event}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(trace.iter().any(|event| event["name"] == "my_span"));
}

#[test]
fn a_run_that_is_let_go_of_still_writes_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap();
    trainer.log_to(folder.path()).unwrap();
    trainer.next().unwrap().unwrap();
    drop(trainer);
    assert!(folder.path().join("report.html").exists());
    assert_eq!(RunState::of(folder.path()), RunState::Finished);
}

#[test]
fn a_run_may_log_to_two_folders_and_one_that_never_began_has_failed() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let logged = || {
        let mut trainer = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap();
        [&one, &two].into_iter().for_each(|folder| trainer.log_to(folder.path()).unwrap());
        trainer
    };
    let states = || [&one, &two].map(|folder| RunState::of(folder.path()));
    drop(logged());
    assert_eq!(states(), [RunState::Failed; 2]);
    [&one, &two].into_iter().for_each(|folder| drop(RunFolder::overwrite(folder.path()).unwrap()));
    logged().run(iterations(1)).unwrap();
    assert_eq!(states(), [RunState::Finished; 2]);
}

#[test]
fn a_folder_belongs_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let log = |path: &Path| {
        let mut trainer = Trainer::new(small(0), |_: &EnvContext| CartPole::new()).unwrap();
        trainer.log_to(path).map(|()| trainer.run(iterations(2)).unwrap().save(path).unwrap())
    };
    let results = || fs::read_to_string(folder.path().join("results.jsonl")).unwrap();
    let events = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("events.")).count()
    };
    log(folder.path()).unwrap();
    let first = results();
    let refused = log(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("holds a run already (events.out.tfevents."), "{refused}");
    assert_eq!((results(), events()), (first, 1));

    log(RunFolder::resume(folder.path()).unwrap().path()).unwrap();
    assert_eq!((results().lines().count(), events()), (2, 1));
    assert!(folder.path().join("life-1/results.jsonl").exists());
    log(RunFolder::overwrite(folder.path()).unwrap().path()).unwrap();
    assert_eq!((results().lines().count(), events()), (2, 1));
    assert!(!folder.path().join("life-1").exists(), "earlier lives are overwritten too");
}

#[test]
fn what_ended_a_run_is_in_its_last_line_and_on_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let failing = |_: &EnvContext| Chaos::new(CartPole::new(), ChaosConfig { error: 1.0, ..ChaosConfig::default() });
    let mut trainer = Trainer::new(small(1), failing).unwrap();
    trainer.log_to(folder.path()).unwrap();
    let error = trainer.run(StopWhen::default()).unwrap_err().cause.to_string();
    let last = last_line(&folder.path().join("results.jsonl"));
    assert_eq!(last["run_failed"], error);
    assert!(!last["workers"]["gave_up"].as_array().unwrap().is_empty());
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("What ended the run") && page.contains("rollout-1"), "{page}");
}

#[test]
fn figures_that_no_run_reaches_pass_through_every_sink() {
    let folder = tempfile::tempdir().unwrap();
    let mut result = ResultDict::new();
    for (path, steps) in [("num_env_steps_sampled", (1_u64 << 53) + 1), ("ledger.steps.sampled.env", u64::MAX)] {
        result.set(path, steps);
    }
    result.set("training_iteration", 1_u64 << 31);
    result.set("time_total_s", -1.0);
    result.set("episode_reward_mean", f64::NAN);
    result.set("throughput.env_steps_per_s", f64::INFINITY);
    result.set("policy_lag.mean", 1e300);
    let mut prometheus = Prometheus::bind("127.0.0.1:0").unwrap();
    let mut json = JsonLines::create(folder.path().join("results.jsonl")).unwrap();
    let mut table = Csv::create(folder.path().join("progress.csv")).unwrap();
    let mut events = TensorBoard::create(folder.path()).unwrap();
    let mut report = HtmlReport::create(folder.path().join("report.html")).unwrap();
    let mut console = Console::new(Vec::new());
    let all: [&mut dyn Reporter; 6] = [&mut prometheus, &mut json, &mut table, &mut events, &mut report, &mut console];
    for reporter in all {
        reporter.report(&result).unwrap();
        reporter.report(&ResultDict::new()).unwrap();
        reporter.finish().unwrap();
    }
    let lines = fs::read_to_string(folder.path().join("results.jsonl")).unwrap();
    assert!(lines.contains("9007199254740993") && lines.contains("18446744073709551615"), "{lines}");
    assert!(fs::read_to_string(folder.path().join("progress.csv")).unwrap().contains("9007199254740993"));
}
