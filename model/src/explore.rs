#![allow(clippy::print_stdout)] // How many schedules were tried is the result of a model.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

/// More operations than a model has; one that reaches it never ends.
const MAX_STEPS: usize = 200_000;
/// Of a thread: the messages of a panic are formatted on it.
const STACK_BYTES: usize = 512 * 1024;
/// The changes of priority that `PctScheduler` tries, which finds what needs at most as many preemptions.
const PREEMPTIONS: usize = 3;

/// Runs `model` under as many random schedules: half of them with uniform choices, and half with few
/// preemptions in places that are drawn, which finds what uniform choices seldom do. Prints how many that
/// were.
///
/// # Panics
/// If a schedule leads to a panic, a deadlock, or no end, or none to something that happens
/// [`sometimes`].
pub fn check(name: &str, schedules: usize, model: impl Fn() + Clone + Send + Sync + 'static) {
    let half = schedules.div_ceil(2);
    MAY_DRAW.set(true);
    HAPPENED.take();
    let tried = run(RandomScheduler::new(half), model.clone());
    let tried = tried + run(PctScheduler::new(PREEMPTIONS, schedules - half), model);
    println!("model {name}: {tried} schedules drawn");
    assert_happened(name);
}

/// Runs `model` under every schedule there is. A wait with a time limit shorter than
/// [`FOREVER`](crate::time::FOREVER) is no part of such a model: it can time out after any number of looks.
/// Prints how many schedules there were.
///
/// # Panics
/// As [`check`].
pub fn exhaust(name: &str, model: impl Fn() + Send + Sync + 'static) {
    MAY_DRAW.set(false);
    HAPPENED.take();
    let tried = run(DfsScheduler::new(None, false), model);
    println!("model {name}: all {tried} schedules");
    assert_happened(name);
}

/// Notes whether what a model is about `happened`. A model that passes shows nothing if it never comes to
/// what it is about: so [`check`] and [`exhaust`] fail if that never happened, and else print how often it
/// did, in all schedules.
pub fn sometimes(what: &'static str, happened: bool) {
    HAPPENED.with_borrow_mut(|counts| *counts.entry(what).or_default() += usize::from(happened));
}

/// Runs `model` under the schedule that a panic of [`check`] has named.
pub fn replay(schedule: &str, model: impl Fn() + Send + Sync + 'static) {
    MAY_DRAW.set(true);
    run(ReplayScheduler::new_from_encoded(schedule), model);
}

std::thread_local! {
    static MAY_DRAW: Cell<bool> = const { Cell::new(false) };

    /// How often [`sometimes`] was told in this run that it happened.
    static HAPPENED: RefCell<BTreeMap<&'static str, usize>> = const { RefCell::new(BTreeMap::new()) };
}

fn assert_happened(name: &str) {
    for (what, count) in HAPPENED.take() {
        println!("    {what}: {count} times");
        assert!(count > 0, "model {name}: {what} in no schedule, so the model shows nothing about it");
    }
}

/// Whether the schedules of this run may be drawn: an exhaustive run cannot try all numbers.
pub(crate) fn may_draw() -> bool {
    MAY_DRAW.get()
}

fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(model)
}
