use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tracing::{Dispatch, info_span};
use tracing_subscriber::layer::SubscriberExt;

use super::*;

fn traced(max_events: usize) -> (TempDir, PathBuf, Timeline, Dispatch) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/trace.json");
    let timeline = Timeline::create(&path, max_events).unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(timeline.layer()));
    (folder, path, timeline, dispatch)
}

fn within<R>(dispatch: &Dispatch, body: impl FnOnce() -> R) -> R {
    tracing::dispatcher::with_default(dispatch, body)
}

/// The events of a finished file, after checking that every lane's begins and ends match and nest in time.
fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut lanes: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
    for event in &events {
        let (phase, lane) = (event["ph"].as_str().unwrap(), event["tid"].as_u64().unwrap());
        if phase == "M" {
            assert!(lanes.insert(lane, (0, 0.0)).is_none(), "lane {lane} is named twice");
        } else if phase == "B" || phase == "E" {
            let (depth, last) = lanes.get_mut(&lane).unwrap();
            let at = event["ts"].as_f64().unwrap();
            assert!(at >= *last, "time goes back in lane {lane}");
            *last = at;
            *depth = if phase == "B" { *depth + 1 } else { depth.checked_sub(1).unwrap() };
        }
    }
    assert!(lanes.values().all(|(depth, _)| *depth == 0), "spans stay open: {lanes:?}");
    events
}

/// Names of begins and a dash for each end, in the order of the file.
fn outline(path: &Path) -> String {
    let events = events(path);
    let words = events.iter().filter_map(|event| match event["ph"].as_str().unwrap() {
        "B" => event["name"].as_str(),
        "E" => Some("-"),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn nested_spans_are_nested_pairs_and_names_are_escaped() {
    let (_folder, path, mut timeline, dispatch) = traced(100);
    within(&dispatch, || {
        let outer = info_span!("a \"quoted\"\n\\ name").entered();
        info_span!("inner").in_scope(|| info_span!("innermost").in_scope(|| ()));
        drop(outer);
    });
    timeline.finish().unwrap();
    assert_eq!(outline(&path), "a \"quoted\"\n\\ name inner innermost - - -");
}

#[test]
fn each_thread_has_a_lane_of_its_own_with_its_name() {
    let (_folder, path, mut timeline, dispatch) = traced(1_000);
    std::thread::scope(|threads| {
        for name in ["rollout-1", "roll\"out-2"] {
            let dispatch = &dispatch;
            let work = move || {
                within(dispatch, || (0..50).for_each(|_| info_span!("step").in_scope(|| ())));
            };
            std::thread::Builder::new().name(name.to_owned()).spawn_scoped(threads, work).unwrap();
        }
    });
    timeline.finish().unwrap();
    let events = events(&path);
    let mut names: Vec<&str> = events.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["roll\"out-2", "rollout-1"]);
    assert_eq!(events.len(), 2 * (1 + 100));
}

#[test]
fn spans_left_out_of_order_end_the_later_ones_and_begin_them_anew() {
    let (_folder, path, mut timeline, dispatch) = traced(100);
    within(&dispatch, || {
        let (outer, inner) = (info_span!("outer"), info_span!("inner"));
        let in_outer = outer.enter();
        let in_inner = inner.enter();
        drop(in_outer);
        drop(in_inner);
    });
    timeline.finish().unwrap();
    assert_eq!(outline(&path), "outer inner - - inner -");
}

#[test]
fn at_the_limit_open_spans_still_end_and_the_rest_is_counted() {
    let (_folder, path, mut timeline, dispatch) = traced(5);
    within(&dispatch, || {
        let outer = info_span!("outer");
        let _in_outer = outer.enter();
        info_span!("inner").in_scope(|| info_span!("too many").in_scope(|| ()));
        outer.in_scope(|| ());
        for _ in 0..7 {
            info_span!("too many").in_scope(|| ());
        }
    });
    std::thread::spawn({
        let dispatch = dispatch.clone();
        move || within(&dispatch, || info_span!("too many").in_scope(|| ()))
    })
    .join()
    .unwrap();
    timeline.finish().unwrap();
    assert_eq!(outline(&path), "outer inner - -");
    let events = events(&path);
    assert_eq!(events.last().unwrap()["args"]["spans"], 10);
    // The second time inside `outer` was left out, so the end of that one must not end the first.
    let ends: Vec<f64> = events.iter().filter(|e| e["ph"] == "E").map(|e| e["ts"].as_f64().unwrap()).collect();
    assert!(ends[1] > ends[0]);
}

#[test]
fn an_end_that_was_left_out_does_not_end_an_earlier_begin() {
    let (_folder, path, timeline, dispatch) = traced(2);
    within(&dispatch, || {
        let outer = info_span!("outer");
        let in_outer = outer.enter();
        outer.in_scope(|| ());
        timeline.shared.trace.lock().unwrap().flush().unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("\"E\""));
        drop(in_outer);
    });
    drop(timeline);
    assert_eq!(outline(&path), "outer -");
}

#[test]
fn spans_open_at_the_end_of_a_thread_or_of_the_file_end_there() {
    let (_folder, path, mut timeline, dispatch) = traced(100);
    let in_thread = dispatch.clone();
    std::thread::spawn(move || {
        within(&in_thread, || {
            // Entered by hand, and never left.
            let span = info_span!("of the thread");
            in_thread.enter(&span.id().unwrap());
        });
    })
    .join()
    .unwrap();
    within(&dispatch, || {
        let open = info_span!("of the file").entered();
        timeline.finish().unwrap();
        drop(open);
        info_span!("later").in_scope(|| ());
    });
    timeline.finish().unwrap();
    drop(timeline);
    assert_eq!(outline(&path), "of the thread - of the file -");
}

#[test]
fn dropping_finishes_the_file_and_a_file_without_spans_is_an_empty_list() {
    let (_folder, path, timeline, dispatch) = traced(100);
    within(&dispatch, || info_span!("step").in_scope(|| ()));
    drop(timeline);
    assert_eq!(outline(&path), "step -");

    let (_folder, path, timeline, _) = traced(100);
    drop(timeline);
    assert!(events(&path).is_empty());
}

#[test]
fn two_timelines_of_one_process_do_not_mix() {
    let (_folder, path, mut timeline, dispatch) = traced(100);
    let (_other_folder, other_path, mut other, other_dispatch) = traced(100);
    within(&dispatch, || {
        info_span!("one").in_scope(|| within(&other_dispatch, || info_span!("two").in_scope(|| ())));
    });
    timeline.finish().unwrap();
    other.finish().unwrap();
    assert_eq!((outline(&path), outline(&other_path)), ("one -".to_owned(), "two -".to_owned()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_once_and_ends_the_writing() {
    let mut timeline = Timeline::create("/dev/full", 1_000_000).unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(timeline.layer()));
    // More than the buffer holds, so that writing fails inside the layer.
    within(&dispatch, || (0..5_000).for_each(|_| info_span!("step").in_scope(|| ())));
    assert!(timeline.shared.trace.lock().unwrap().out.is_none());
    let error = timeline.report(&ResultDict::new()).unwrap_err().to_string();
    assert!(error.contains("timeline") && error.contains("/dev/full"), "{error}");
    timeline.report(&ResultDict::new()).unwrap();
    timeline.finish().unwrap();

    let mut unbuffered = Timeline::create("/dev/full", 100).unwrap();
    assert!(unbuffered.finish().is_err());
}
