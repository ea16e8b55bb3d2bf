use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::*;

#[derive(Clone, Default)]
struct Scripted(Rc<Cell<f64>>);

impl TreeClock for Scripted {
    fn monotonic_secs(&self) -> f64 {
        self.0.get()
    }

    fn unix_secs(&self) -> f64 {
        self.0.get()
    }
}

fn scripted() -> (Scripted, TimerTree<Scripted>) {
    let clock = Scripted::default();
    (clock.clone(), TimerTree::with_clock(clock, []))
}

#[test]
fn a_scope_ends_when_a_panic_passes_through_it() {
    let (clock, mut timers) = scripted();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut outer = timers.scope("outer");
        let _inner = outer.scope("inner");
        clock.0.set(2.0);
        std::panic::resume_unwind(Box::new("inside"));
    }));
    assert!(outcome.is_err());
    drop(timers.scope("next"));
    let tree = timers.tree();
    assert_eq!(tree["children"]["outer"]["total"], 2.0);
    assert_eq!(tree["children"]["outer"]["children"]["inner"]["count"], 1);
    assert_eq!(tree["children"]["next"]["count"], 1);
}

#[test]
fn scopes_that_end_out_of_order_keep_their_own_times() {
    let (clock, mut timers) = scripted();
    let outer = timers.enter("outer");
    let inner = timers.enter("inner");
    clock.0.set(1.0);
    timers.exit(outer);
    let later = timers.enter("later");
    clock.0.set(3.0);
    timers.exit(inner);
    timers.exit(later);
    let tree = timers.tree();
    let outer = &tree["children"]["outer"];
    assert_eq!((&outer["total"], &outer["self"]), (&1.0.into(), &0.0.into()));
    assert_eq!(outer["children"]["inner"]["total"], 3.0);
    assert_eq!(outer["children"]["inner"]["children"]["later"]["total"], 2.0);
    timers.enter("top");
    assert_eq!(timers.tree()["children"]["top"]["count"], 0);
}

#[test]
fn a_clock_set_back_makes_no_negative_total() {
    let (clock, mut timers) = scripted();
    clock.0.set(5.0);
    let step = timers.enter("step");
    clock.0.set(-4.0);
    timers.exit(step);
    let tree = timers.tree();
    assert_eq!(tree["children"]["step"]["total"], 0.0);
    assert_eq!((&tree["total"], &tree["self"]), (&0.0.into(), &0.0.into()));
}

#[test]
fn a_scope_open_at_a_reset_counts_nowhere_and_ends_nothing_else() {
    let (clock, mut timers) = scripted();
    let before = timers.enter("before");
    timers.reset();
    let after = timers.enter("after");
    clock.0.set(1.0);
    timers.exit(before);
    clock.0.set(2.0);
    timers.exit(after);
    timers.exit(after);
    let tree = timers.tree();
    assert_eq!(tree["children"].as_object().unwrap().len(), 1);
    assert_eq!(tree["children"]["after"]["total"], 2.0);
    assert_eq!(tree["children"]["after"]["count"], 1);
}

#[test]
fn a_scope_guard_survives_a_reset_inside_it() {
    let (_, mut timers) = scripted();
    let mut scope = timers.scope("gone");
    scope.reset();
    drop(scope.scope("kept"));
    drop(scope);
    let tree = timers.tree();
    assert!(tree["children"].get("gone").is_none());
    assert_eq!(tree["children"]["kept"]["count"], 1);
}

#[test]
fn scopes_that_are_never_ended_do_not_grow_the_tree_beyond_what_parsers_read() {
    let (_, mut worker) = scripted();
    for _ in 0..10_000 {
        worker.enter("leaked");
    }
    let (_, mut main) = scripted();
    drop(main.scope("trainer_threads"));
    let mut threads = main.scope("trainer_threads");
    threads.merge(&mut worker, Some("worker"), Work::Parallel, RootTime::Refreshed);
    drop(threads);
    let text = main.tree().to_string();
    assert_eq!(text.matches("leaked").count(), MAX_OPEN);
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read, main.tree());
}

#[test]
fn default_metadata_names_the_program_and_not_another_language() {
    let tree = TimerTree::new().tree();
    let keys: Vec<&str> = tree["metadata"].as_object().unwrap().keys().map(String::as_str).collect();
    let want =
        ["timer_format_version", "start_time_seconds", "pronk_version", "command_line_arguments", "end_time_seconds"];
    assert_eq!(keys, want);
    assert_eq!(tree["metadata"]["pronk_version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn adopted_gauges_are_shared_and_a_gauge_merged_with_itself_does_not_hang() {
    let (_, mut main) = scripted();
    let (_, mut worker) = scripted();
    worker.set_gauge("queue", 3.0);
    main.merge_gauges(&worker);
    worker.set_gauge("queue", f64::NAN);
    worker.set_gauge("queue", 5.0);
    assert_eq!(main.gauge("queue").unwrap().value(), 5.0);
    main.merge_gauges(&worker);
    assert_eq!(worker.gauge("queue").unwrap().count(), 4);
}
