use std::fs;
use std::sync::Barrier;
use std::sync::mpsc;

use tracing::{Dispatch, info_span};
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::reporter::Reporter;
use crate::result::ResultDict;

fn timed() -> (Timers, Dispatch) {
    let timers = Timers::new();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(timers.layer()));
    (timers, dispatch)
}

fn within<R>(dispatch: &Dispatch, body: impl FnOnce() -> R) -> R {
    tracing::dispatcher::with_default(dispatch, body)
}

fn in_thread(name: &str, dispatch: &Dispatch, body: impl FnOnce() + Send + 'static) {
    let dispatch = dispatch.clone();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || within(&dispatch, body)).unwrap();
    thread.join().unwrap();
}

#[test]
fn spans_of_the_trainer_s_thread_nest_under_the_root() {
    let (timers, dispatch) = timed();
    within(&dispatch, || {
        let update = info_span!("update");
        update.in_scope(|| info_span!("a user's own").in_scope(|| ()));
        update.in_scope(|| info_span!("a user's own").in_scope(|| ()));
    });
    let tree = timers.tree();
    assert_eq!(tree["children"]["update"]["count"], 2);
    assert_eq!(tree["children"]["update"]["children"]["a user's own"]["count"], 2);
    assert!(tree["children"].get("trainer_threads").is_none());
    assert!(tree["children"]["update"].get("is_parallel").is_none());
}

#[test]
fn a_span_ends_when_a_panic_passes_through_it() {
    let (timers, dispatch) = timed();
    within(&dispatch, || {
        let outcome = std::panic::catch_unwind(|| {
            info_span!("fails").in_scope(|| std::panic::resume_unwind(Box::new("inside")));
        });
        assert!(outcome.is_err());
        info_span!("next").in_scope(|| ());
    });
    let tree = timers.tree();
    assert_eq!(tree["children"]["fails"]["count"], 1);
    assert_eq!(tree["children"]["next"]["count"], 1);
}

#[test]
fn ended_and_running_threads_are_joined_by_kind() {
    let (timers, dispatch) = timed();
    in_thread("rollout-1", &dispatch, || info_span!("step").in_scope(|| ()));
    let (go, done) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|threads| {
        let running = thread::Builder::new().name("rollout-2".to_owned());
        running
            .spawn_scoped(threads, || {
                within(&dispatch, || info_span!("step").in_scope(|| ()));
                go.wait();
                done.wait();
            })
            .unwrap();
        go.wait();
        let tree = timers.tree();
        done.wait();
        let rollout = &tree["children"]["trainer_threads"]["children"]["rollout"];
        assert_eq!((&rollout["count"], &rollout["is_parallel"]), (&2.into(), &true.into()));
        assert_eq!(rollout["children"]["step"]["count"], 2);
        let in_steps = rollout["children"]["step"]["total"].as_f64().unwrap();
        assert!(rollout["total"].as_f64().unwrap() >= in_steps && in_steps > 0.0, "{rollout}");
        assert!(tree["children"]["trainer_threads"].get("is_parallel").is_none());
    });
    in_thread("learner", &dispatch, || info_span!("update").in_scope(|| ()));
    let threads = &timers.tree()["children"]["trainer_threads"]["children"];
    assert_eq!(threads["rollout"]["count"], 2);
    assert_eq!(threads["learner"]["count"], 1);
    // Also now that all have ended.
    for kind in ["rollout", "learner"] {
        assert_eq!(threads[kind]["is_parallel"], true, "{threads:#}");
    }
}

#[test]
fn asking_twice_counts_nothing_twice() {
    let (timers, dispatch) = timed();
    in_thread("learner", &dispatch, || info_span!("update").in_scope(|| ()));
    timers.gauge("queue", 2.0);
    timers.tree();
    let tree = timers.tree();
    let threads = &tree["children"]["trainer_threads"];
    assert_eq!((&threads["count"], &threads["children"]["learner"]["count"]), (&1.into(), &1.into()));
    assert_eq!(tree["gauges"]["queue"]["count"], 1);
}

#[test]
fn many_short_threads_leave_nothing_behind_but_their_sum() {
    let (timers, dispatch) = timed();
    for n in 0..500 {
        in_thread(&format!("env-{n}"), &dispatch, || info_span!("step").in_scope(|| ()));
    }
    assert!(lock(&timers.0.threads).running.is_empty());
    let kind = &timers.tree()["children"]["trainer_threads"]["children"]["env"];
    assert_eq!((&kind["count"], &kind["children"]["step"]["count"]), (&500.into(), &500.into()));
}

#[test]
fn spans_left_out_of_order_are_each_counted_once() {
    let (timers, dispatch) = timed();
    within(&dispatch, || {
        let (first, second) = (info_span!("first"), info_span!("second"));
        let in_first = first.enter();
        let in_second = second.enter();
        drop(in_first);
        info_span!("third").in_scope(|| ());
        drop(in_second);
        info_span!("top").in_scope(|| ());
    });
    let tree = timers.tree();
    let first = &tree["children"]["first"];
    assert_eq!((&first["count"], &first["children"]["second"]["count"]), (&1.into(), &1.into()));
    assert_eq!(first["children"]["second"]["children"]["third"]["count"], 1);
    assert_eq!(tree["children"]["top"]["count"], 1);
}

#[test]
fn several_timers_of_one_process_do_not_mix() {
    let (one, in_one) = timed();
    let (two, in_two) = timed();
    let both = Dispatch::new(tracing_subscriber::registry().with(one.layer()).with(two.layer()));
    within(&in_one, || info_span!("one").in_scope(|| within(&in_two, || info_span!("two").in_scope(|| ()))));
    within(&both, || info_span!("both").in_scope(|| ()));
    let keys = |timers: &Timers| -> Vec<String> {
        let tree = timers.tree();
        tree["children"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&one), ["one", "both"]);
    assert_eq!(keys(&two), ["two", "both"]);
}

#[test]
fn nothing_fails_while_a_thread_s_locals_are_destroyed() {
    // Calls what the layer calls: the registry itself can make no span any more at that time.
    struct Late(mpsc::SyncSender<bool>);
    impl Drop for Late {
        fn drop(&mut self) {
            let mut was_there = false;
            with_scopes(|_| was_there = true);
            drop(Timers::new());
            self.0.try_send(was_there).unwrap();
        }
    }
    thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });

    let (timers, dispatch) = timed();
    let (ran, has_run) = mpsc::sync_channel(1);
    let late = Late(ran);
    in_thread("worker", &dispatch, || {
        // Used first and so destroyed last, after the timers' own local.
        LATE.with(|slot| *slot.borrow_mut() = Some(late));
        info_span!("early").in_scope(|| ());
    });
    assert!(!has_run.recv().unwrap(), "the timers' local outlived this one: the test shows nothing");
    let worker = &timers.tree()["children"]["trainer_threads"]["children"]["worker"];
    assert_eq!(worker["children"]["early"]["count"], 1);
}

#[test]
fn the_file_is_written_at_the_end_with_four_spaces_and_replaces_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/timers.json");
    let (timers, dispatch) = timed();
    let mut file = timers.file(&path);
    file.report(&ResultDict::new()).unwrap();
    assert!(!path.exists());
    file.finish().unwrap();
    within(&dispatch, || info_span!("update").in_scope(|| ()));
    timers.add_metadata("algorithm", "IMPALA");
    file.finish().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\n    \"children\": {\n        \"update\": {\n            \"total\": "), "{text}");
    let tree: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(tree["metadata"]["algorithm"], "IMPALA");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let error = Timers::new().file(folder.path()).finish().unwrap_err().to_string();
    assert!(error.contains("timers") && error.contains(&*folder.path().to_string_lossy()), "{error}");
}
