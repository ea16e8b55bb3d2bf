#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::bounded;

use super::*;
use crate::{CallResult, GroupWorker, OnWorkerError, Restarts, WorkerGroupConfig};

const LONG: Duration = Duration::from_secs(60);

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Spins until `condition` holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "{what} did not happen");
        thread::yield_now();
    }
}

/// Records what the functions of groups under test do, in order.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn count(&self, line: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|known| *known == line).count()
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn config(name: &str, num_workers: usize) -> WorkerGroupConfig {
    WorkerGroupConfig { name: name.to_owned(), num_workers: n(num_workers), ..WorkerGroupConfig::default() }
}

/// A group that writes down its init and its shutdown, each with the thread it runs on where that is not the
/// test's.
fn group(
    config: WorkerGroupConfig,
    log: &EventLog,
    body: impl Fn(&GroupWorker) -> CallResult + Send + Sync + 'static,
) -> WorkerGroup {
    let (name, caller) = (config.name.clone(), thread::current().id());
    let write = move |log: &EventLog, what: String| {
        let here = thread::current();
        let place = if here.id() == caller { "" } else { here.name().unwrap_or("?") };
        log.write(format!("{what} {place}").trim_end());
    };
    let (init, shutdown) = (log.clone(), log.clone());
    let (init_name, shutdown_name) = (name.clone(), name);
    WorkerGroup::new(config, body)
        .on_init(move |workers| {
            let ids: Vec<_> = workers.iter().map(|id| id.get()).collect();
            write(&init, format!("init {init_name} {ids:?}"));
            Ok(())
        })
        .on_shutdown(move || {
            write(&shutdown, format!("shutdown {shutdown_name}"));
            Ok(())
        })
}

/// A body that does nothing until its group stops.
fn idle(worker: &GroupWorker) -> CallResult {
    worker.sleep(LONG);
    Ok(())
}

fn texts(errors: &[GroupError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn init_functions_run_in_order_on_the_callers_thread_before_any_worker() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    for name in ["a", "b"] {
        let calls = log.clone();
        groups.add(group(config(name, 2), &log, move |worker| {
            calls.write(format!("call {}", thread::current().name().unwrap()));
            idle(worker)
        }));
    }
    groups.start().unwrap();
    until("every worker called", || ["a-0", "a-1", "b-2", "b-3"].iter().all(|t| log.count(&format!("call {t}")) > 0));
    assert_eq!(log.lines()[..2], ["init a [0, 1]", "init b [2, 3]"]);
    assert_eq!(groups.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(groups.n_running(), 4);
    let outcome = groups.stop(LONG);
    assert!(outcome.is_clean(), "{outcome:?}");
    assert_eq!(outcome.stopped, ["a", "b"]);
    assert_eq!(log.lines()[6..], ["shutdown a", "shutdown b"]);
    assert_eq!((groups.n_running(), groups.names().count()), (0, 0), "no thread and no group is left");
}

#[test]
fn starting_again_starts_new_groups_only_and_numbers_are_never_reused() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    groups.add(group(config("a", 2), &log, idle));
    groups.start().unwrap();
    groups.start().unwrap();
    groups.add(group(config("b", 1), &log, idle));
    groups.start().unwrap();
    assert!(groups.stop(LONG).is_clean());
    groups.add(group(config("c", 1), &log, idle));
    groups.start().unwrap();
    assert!(groups.stop(LONG).is_clean());
    let lines = ["init a [0, 1]", "init b [2]", "shutdown a", "shutdown b", "init c [3]", "shutdown c"];
    assert_eq!(log.lines(), lines);
}

#[test]
fn stopping_one_group_leaves_the_others_and_stopping_twice_stops_nothing() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    for name in ["train", "test", "train"] {
        groups.add(group(config(name, 1), &log, idle));
    }
    groups.start().unwrap();
    assert_eq!(groups.stop_group("train", LONG).stopped, ["train", "train"], "groups that share a name stop together");
    assert_eq!(groups.n_running(), 1);
    assert_eq!(groups.names().collect::<Vec<_>>(), ["test"]);
    assert!(groups.stop_group("unknown", LONG).stopped.is_empty());
    assert_eq!(groups.stop(LONG).stopped, ["test"]);
    assert!(groups.stop(LONG).stopped.is_empty());
    assert_eq!(log.lines()[3..], ["shutdown train", "shutdown train", "shutdown test"]);
}

#[test]
fn what_was_never_started_stops_without_a_shutdown() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    groups.add(group(config("a", 2), &log, idle));
    assert!(groups.wait(Duration::ZERO), "nothing runs");
    let outcome = groups.stop(Duration::ZERO);
    assert!(outcome.is_clean() && outcome.stopped == ["a"], "{outcome:?}");
    assert_eq!(log.lines(), Vec::<String>::new());
}

#[test]
fn an_error_stops_its_group_shuts_it_down_there_and_comes_back_as_a_value() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    groups.add(group(config("bad", 2), &log, |worker| match worker.id().get() {
        0 => Err("boom".into()),
        _ => idle(worker),
    }));
    groups.add(group(config("good", 1), &log, idle));
    groups.start().unwrap();
    until("the group ended", || groups.n_running() == 1);
    assert!(!groups.wait(Duration::ZERO), "the other group continues");
    assert_eq!(log.lines()[2..], ["shutdown bad bad-0"], "on the thread of the worker that failed");
    assert_eq!(texts(&groups.errors()), ["worker bad-0 failed: boom"]);
    let outcome = groups.stop(LONG);
    assert_eq!(texts(&outcome.errors), ["worker bad-0 failed: boom"]);
    assert_eq!(outcome.not_ended, Vec::<String>::new());
    assert_eq!(log.lines()[3..], ["shutdown good"], "the group that failed had its shutdown");
}

#[test]
fn workers_that_fail_at_the_same_instant_shut_their_group_down_once() {
    for _ in 0..200 {
        let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
        let both = Barrier::new(2);
        groups.add(group(config("a", 2), &log, move |worker| {
            both.wait();
            Err(format!("boom {}", worker.id()).into())
        }));
        groups.start().unwrap();
        let outcome = groups.wait(LONG).then(|| groups.stop(LONG)).expect("the group ended on its own");
        assert_eq!(texts(&outcome.errors), ["worker a-0 failed: boom 0", "worker a-1 failed: boom 1"]);
        assert_eq!(outcome.not_ended, Vec::<String>::new());
        let shutdowns = log.lines().iter().filter(|line| line.starts_with("shutdown")).count();
        assert_eq!(shutdowns, 1);
    }
}

#[test]
fn an_error_and_a_stop_at_the_same_instant_shut_the_group_down_once() {
    for _ in 0..200 {
        let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
        let both = Arc::new(Barrier::new(2));
        let in_body = Arc::clone(&both);
        groups.add(group(config("a", 1), &log, move |_| {
            in_body.wait();
            Err("boom".into())
        }));
        groups.start().unwrap();
        both.wait();
        let outcome = groups.stop(LONG);
        assert_eq!((outcome.errors.len(), outcome.not_ended.len()), (1, 0));
        let shutdowns = log.lines().iter().filter(|line| line.starts_with("shutdown")).count();
        assert_eq!(shutdowns, 1);
    }
}

#[test]
fn a_group_that_failed_starts_again_cleanly() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    groups.add(group(config("a", 2), &log, |worker| match worker.id().get() {
        0 | 3 => Err("boom".into()),
        _ => idle(worker),
    }));
    for _ in 0..2 {
        groups.start().unwrap();
        assert!(groups.wait(LONG), "the error ends the group");
        assert_eq!(groups.n_running(), 0);
    }
    groups.start().unwrap();
    assert_eq!(groups.n_running(), 2);
    let outcome = groups.stop(LONG);
    assert_eq!(texts(&outcome.errors), ["worker a-0 failed: boom", "worker a-3 failed: boom"], "of every start");
    let lines = ["init a [0, 1]", "shutdown a a-0", "init a [2, 3]", "shutdown a a-3", "init a [4, 5]", "shutdown a"];
    assert_eq!(log.lines(), lines, "one shutdown for every start");
}

#[test]
fn a_start_waits_for_the_shutdown_of_the_start_before() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    let (entered, is_in) = bounded(1);
    let (go_on, gate) = bounded::<()>(1);
    let (during, after) = (log.clone(), log.clone());
    groups.add(
        WorkerGroup::new(config("a", 1), |worker| match worker.id().get() {
            0 => Err("boom".into()),
            _ => idle(worker),
        })
        .on_init(move |_| {
            during.write("init");
            Ok(())
        })
        .on_shutdown(move || {
            let _ = entered.try_send(());
            let _ = gate.recv();
            after.write("shut down");
            Ok(())
        }),
    );
    groups.start().unwrap();
    is_in.recv().unwrap();
    thread::scope(|scope| {
        let starting = scope.spawn(|| groups.start());
        thread::yield_now();
        assert_eq!(log.lines(), ["init"]);
        drop(go_on);
        starting.join().unwrap().unwrap();
    });
    assert_eq!(log.lines(), ["init", "shut down", "init"]);
    groups.stop(LONG);
}

#[test]
fn stuck_workers_are_named_at_one_deadline_for_all() {
    const WORKERS: usize = 40;
    let within = Duration::from_millis(500);
    let mut groups = WorkerGroups::new();
    let (_never_sent, stuck) = bounded::<()>(0);
    let (calling, called) = bounded(WORKERS);
    groups.add(WorkerGroup::new(config("stuck", WORKERS), move |_| {
        calling.send(())?;
        let _ = stuck.recv();
        Ok(())
    }));
    groups.add(WorkerGroup::new(config("fine", 1), idle));
    groups.start().unwrap();
    assert_eq!(called.iter().take(WORKERS).count(), WORKERS, "all are in a call");
    let began = Instant::now();
    let outcome = groups.stop(within);
    let took = began.elapsed();
    assert!(took >= within);
    assert!(
        took < within * WORKERS as u32 / 2,
        "one deadline after the other would be {WORKERS} times as long: {took:?}"
    );
    let names: Vec<_> = (0..WORKERS).map(|id| format!("stuck-{id}")).collect();
    assert_eq!(outcome.not_ended, names);
    assert_eq!(groups.names().count(), 0, "they are removed all the same");
}

#[test]
fn panics_are_errors_with_a_name() {
    let mut groups = WorkerGroups::new();
    groups.add(
        WorkerGroup::new(config("a", 1), |_| panic!("the disc is full"))
            .on_shutdown(|| panic!("nothing to close"))
            .with_logger(|_| panic!("no paper")),
    );
    groups.start().unwrap();
    assert!(groups.wait(LONG));
    let outcome = groups.stop(LONG);
    let said = [
        "worker a-0 failed: it panicked: the disc is full",
        "logger 0 of group `a` failed: it panicked: no paper",
        "the shutdown function of group `a` failed: it panicked: nothing to close",
    ];
    assert_eq!(texts(&outcome.errors), said);
}

#[test]
fn when_an_init_fails_nothing_runs_and_what_was_begun_is_shut_down_once() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    let mut attempts = 0;
    let called = log.clone();
    groups.add(group(config("running", 1), &log, idle));
    groups.start().unwrap();
    groups.add(group(config("first", 1), &log, move |worker| {
        called.write("call");
        idle(worker)
    }));
    groups.add(WorkerGroup::new(config("second", 1), idle).on_init(move |_| {
        attempts += 1;
        if attempts == 1 { panic!("no such folder") } else { Ok(()) }
    }));
    let error = groups.start().unwrap_err();
    let said = "no group was started: the init function of group `second` failed: it panicked: no such folder";
    assert_eq!(error.to_string(), said);
    assert_eq!(groups.n_running(), 1, "what ran before continues");
    assert_eq!(log.lines(), ["init running [0]", "init first [1]", "shutdown first"]);

    groups.start().unwrap();
    assert_eq!(groups.n_running(), 3);
    assert!(groups.stop(LONG).is_clean());
    assert_eq!(log.count("shutdown first"), 2, "one for each start");
}

#[test]
fn loggers_see_every_call_and_one_that_fails_keeps_no_other_from_it() {
    const CALLS: u64 = 3;
    let mut groups = WorkerGroups::new();
    let (bad_calls, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (bad, good) = (Arc::clone(&bad_calls), Arc::clone(&seen));
    let nap = Duration::from_millis(1);
    let calls = AtomicU64::new(0);
    let on_error = OnWorkerError::StopGroup;
    groups.add(
        WorkerGroup::new(WorkerGroupConfig { on_error, ..config("a", 1) }, move |worker| {
            worker.sleep(nap);
            match calls.fetch_add(1, Ordering::Relaxed) + 1 {
                CALLS => Err("enough".into()),
                _ => Ok(()),
            }
        })
        .with_logger(move |_| {
            bad.fetch_add(1, Ordering::Relaxed);
            Err("no paper".into())
        })
        .with_logger(move |time| {
            assert_eq!((time.group, time.worker.get()), ("a", 0));
            good.lock().unwrap().push((time.call, time.worker_time, time.worker_time_count, time.group_time_count));
            Ok(())
        }),
    );
    groups.start().unwrap();
    assert!(groups.wait(LONG));
    let outcome = groups.stop(LONG);
    let said = ["worker a-0 failed: enough", "logger 0 of group `a` failed 3 times, the last time: no paper"];
    assert_eq!(texts(&outcome.errors), said);
    assert_eq!(bad_calls.load(Ordering::Relaxed), CALLS, "a call that fails is logged like any other");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|seen| (seen.2, seen.3)).collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 3)]);
    let mut total = Duration::ZERO;
    for (call, worker_time, ..) in seen.iter() {
        assert!(*call >= nap);
        total += *call;
        assert_eq!(*worker_time, total);
    }
}

#[test]
fn the_times_of_a_group_are_those_of_its_workers_over_all_starts() {
    let mut groups = WorkerGroups::new();
    let by_worker = Arc::new(Mutex::new(std::collections::BTreeMap::new()));
    let shown = Arc::clone(&by_worker);
    let group_total = Arc::new(Mutex::new((Duration::ZERO, 0)));
    let newest = Arc::clone(&group_total);
    let body = |worker: &GroupWorker| match worker.id().get() {
        id if id < 4 => Err("boom".into()),
        _ => idle(worker),
    };
    groups.add(WorkerGroup::new(config("a", 2), body).with_logger(move |time| {
        shown.lock().unwrap().insert(time.worker, (time.worker_time, time.worker_time_count));
        *newest.lock().unwrap() = (time.group_time, time.group_time_count);
        Ok(())
    }));
    for _ in 0..2 {
        groups.start().unwrap();
        assert!(groups.wait(LONG), "the errors end the group");
    }
    groups.start().unwrap();
    groups.stop(LONG);
    let by_worker = by_worker.lock().unwrap();
    let sum = by_worker.values().fold((Duration::ZERO, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(*group_total.lock().unwrap(), sum);
}

#[test]
fn a_worker_that_may_restart_pauses_and_gives_up_after_too_many_failures_in_a_row() {
    let policy = Restarts {
        failures_in_a_row: 3,
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(4),
    };
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    let calls = AtomicU64::new(0);
    let began = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&began);
    let config = WorkerGroupConfig { on_error: OnWorkerError::Restart(policy), ..config("a", 1) };
    groups.add(group(config, &log, move |_| {
        times.lock().unwrap().push(Instant::now());
        // Two failures, a success, and failures from then on.
        match calls.fetch_add(1, Ordering::Relaxed) {
            2 => Ok(()),
            call => Err(format!("boom {call}").into()),
        }
    }));
    groups.start().unwrap();
    assert!(groups.wait(LONG), "it gives up");
    let outcome = groups.stop(LONG);
    assert_eq!(texts(&outcome.errors), ["worker a-0 failed 6 times, the last time: boom 6"]);
    let began = began.lock().unwrap();
    let gaps: Vec<_> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, least) in gaps.iter().zip([2, 4, 0, 2, 4, 4]) {
        assert!(*gap >= Duration::from_millis(least), "{gaps:?}");
    }
    assert_eq!(began.len(), 7);
    assert_eq!(log.lines(), ["init a [0]", "shutdown a a-0"]);
}

#[test]
fn a_stop_ends_the_pause_before_a_restart() {
    let policy = Restarts { first_pause: Duration::MAX, longest_pause: Duration::MAX, ..Restarts::default() };
    let mut groups = WorkerGroups::new();
    let config = WorkerGroupConfig { on_error: OnWorkerError::Restart(policy), ..config("a", 1) };
    groups.add(WorkerGroup::new(config, |_| Err("boom".into())));
    groups.start().unwrap();
    until("the worker failed", || !groups.errors().is_empty());
    let outcome = groups.stop(LONG);
    assert_eq!(outcome.not_ended, Vec::<String>::new());
    assert_eq!(texts(&outcome.errors), ["worker a-0 failed: boom"]);
}

#[test]
fn an_ignored_error_stops_nothing_and_is_counted() {
    let mut groups = WorkerGroups::new();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let config = WorkerGroupConfig { on_error: OnWorkerError::Ignore, ..config("a", 1) };
    groups.add(WorkerGroup::new(config, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err("boom".into())
    }));
    groups.start().unwrap();
    until("it went on", || calls.load(Ordering::Relaxed) >= 10);
    let outcome = groups.stop(LONG);
    assert_eq!(outcome.errors.len(), 1, "and memory is bounded");
    assert_eq!(outcome.errors[0].failed_calls, calls.load(Ordering::Relaxed));
}

#[test]
fn a_stopper_ends_all_groups_from_another_thread_and_for_good() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    groups.add(group(config("a", 2), &log, idle));
    groups.add(group(config("b", 1), &log, idle));
    groups.start().unwrap();
    let stopper = groups.stopper();
    let handler = thread::Builder::new().name("signals".into()).spawn(move || stopper.stop()).unwrap();
    assert!(groups.wait(LONG));
    handler.join().unwrap();
    assert_eq!(log.lines()[2..], ["shutdown a signals", "shutdown b signals"]);
    groups.stopper().stop();
    assert!(matches!(groups.start(), Err(GroupsStartError::Stopped)));
    assert!(groups.stop(LONG).is_clean());
    assert_eq!(log.lines().len(), 4, "nothing began afterwards");
}

#[test]
fn a_stopper_used_during_an_init_is_not_lost() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    let stopper = groups.stopper();
    groups.add(group(config("a", 1), &log, idle));
    groups.add(WorkerGroup::new(config("b", 1), idle).on_init(move |_| {
        stopper.stop();
        Ok(())
    }));
    assert!(matches!(groups.start(), Err(GroupsStartError::Stopped)));
    assert_eq!(groups.n_running(), 0);
    assert_eq!(log.lines(), ["init a [0]", "shutdown a"]);
}

#[test]
fn a_shutdown_function_that_still_runs_elsewhere_is_waited_for_and_named() {
    let mut groups = WorkerGroups::new();
    let (entered, is_in) = bounded(1);
    let (go_on, gate) = bounded::<()>(1);
    groups.add(WorkerGroup::new(config("a", 1), idle).on_shutdown(move || {
        entered.send(())?;
        let _ = gate.recv();
        Ok(())
    }));
    groups.start().unwrap();
    let stopper = groups.stopper();
    let handler = thread::spawn(move || stopper.stop());
    is_in.recv().unwrap();
    until("the worker left", || groups.n_running() == 0);
    assert!(!groups.wait(Duration::ZERO));
    assert_eq!(groups.stop(Duration::ZERO).not_ended, ["the shutdown function of group `a`"]);
    drop(go_on);
    handler.join().unwrap();
}

#[test]
fn dropping_the_groups_stops_them() {
    let (mut groups, log) = (WorkerGroups::new(), EventLog::default());
    let (alive, gone) = bounded::<()>(0);
    groups.add(group(config("a", 2), &log, move |worker| {
        let _held = &alive;
        idle(worker)
    }));
    groups.start().unwrap();
    drop(groups);
    assert_eq!(log.lines(), ["init a [0, 1]", "shutdown a"]);
    assert!(
        gone.recv_timeout(LONG).is_err_and(|error| error.is_disconnected()),
        "the threads end and drop what they hold"
    );
}

#[test]
fn what_the_functions_hold_is_dropped_when_stop_returns() {
    let mut groups = WorkerGroups::new();
    let held = Arc::new(());
    let (in_body, in_shutdown) = (Arc::clone(&held), Arc::clone(&held));
    let body = move |worker: &GroupWorker| {
        let _in_use = &in_body;
        idle(worker)
    };
    groups.add(WorkerGroup::new(config("a", 2), body).on_shutdown(move || {
        let _in_use = &in_shutdown;
        Ok(())
    }));
    groups.start().unwrap();
    let _stopper = groups.stopper();
    assert!(groups.stop(LONG).is_clean());
    assert_eq!(Arc::strong_count(&held), 1);
}
