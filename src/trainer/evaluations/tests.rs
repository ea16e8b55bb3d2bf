#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{Notifier, ShutdownGuard, Versioned, shutdown};
use pronk_metrics::{ByPolicy, TimeLedger};

use super::*;

/// Evaluations of a run that has come to `env_steps`, each with an empty report.
fn evaluations(
    every: Every,
    env_steps: u64,
    saved: Option<SavedEvaluations>,
) -> (Evaluations, Notifier, ShutdownGuard) {
    let (guard, token) = shutdown();
    let notifier = Notifier::new();
    let evaluator = Evaluator::start(&token, &notifier, &TimeLedger::new(), |_, _| Report::default()).unwrap();
    (Evaluations::new(every, env_steps, (&Best::default(), saved)).by(evaluator), notifier, guard)
}

fn order(env_steps: u64) -> Order {
    Order { published: Arc::new(Versioned::new(1, ByPolicy::new())), counters: ByPolicy::new(), env_steps }
}

fn end(evaluations: &mut Evaluations, notifier: &Notifier) {
    let ended = notifier.wait_for(Duration::from_secs(60), || {
        evaluations.collect();
        evaluations.running.is_none().then_some(())
    });
    assert!(ended.is_some(), "the evaluation does not end");
}

fn skipped(evaluations: &mut Evaluations, env_steps: u64) -> u64 {
    let mut dict = ResultDict::new();
    evaluations.write_into(&mut dict, env_steps);
    dict.number("evaluation.skipped").unwrap() as u64
}

#[test]
fn one_is_due_after_each_interval_and_one_that_is_late_is_made_once() {
    let (mut of_run, notifier, _guard) = evaluations(Every::EnvSteps(50), 1_000, None);
    assert!(!of_run.is_due(|| 1_049) && of_run.is_due(|| 1_050));
    of_run.begin(order(1_060));
    assert!(!of_run.is_due(|| 9_000), "one at a time");
    // Late, but not skipped, and then one and two are.
    assert_eq!([1_159, 1_160, 1_210].map(|env_steps| skipped(&mut of_run, env_steps)), [0, 1, 2]);
    end(&mut of_run, &notifier);
    assert!(of_run.is_due(|| 1_230));
    of_run.begin(order(1_230));
    end(&mut of_run, &notifier);
    assert_eq!((skipped(&mut of_run, 1_230), of_run.is_due(|| 1_279), of_run.is_due(|| 1_280)), (2, false, true));
}

#[test]
fn an_interval_of_no_time_is_always_over_and_skips_nothing() {
    let (mut of_run, notifier, _guard) = evaluations(Every::Time(Duration::ZERO), 0, None);
    assert!(of_run.is_due(|| 0));
    of_run.begin(order(0));
    end(&mut of_run, &notifier);
    assert_eq!((of_run.is_due(|| 0), skipped(&mut of_run, 0)), (true, 0));
    let (of_run, ..) = evaluations(Every::Time(Duration::from_secs(3600)), 0, None);
    assert!(!of_run.is_due(|| u64::MAX));
}

#[test]
fn a_resumed_run_counts_on_and_makes_what_was_in_progress_again() {
    let (mut before, notifier, _guard) = evaluations(Every::EnvSteps(50), 0, None);
    before.begin(order(60));
    end(&mut before, &notifier);
    before.made = 1;
    let saved = before.saved();
    assert_eq!((saved.made, saved.since_env_steps), (1, 60));
    before.begin(order(115));
    assert_eq!(before.saved().since_env_steps, 60, "in progress, and thus not made");

    let json = serde_json::to_string(&before.saved()).unwrap();
    let (after, _, _guard) = evaluations(Every::EnvSteps(50), 80, Some(serde_json::from_str(&json).unwrap()));
    assert!(!after.is_due(|| 109) && after.is_due(|| 110));
    assert_eq!(after.made, 1);

    let hour_ago = SavedEvaluations { since_secs: 3600.0, ..SavedEvaluations::default() };
    let (of_time, _, _guard) = evaluations(Every::Time(Duration::from_secs(3500)), 0, Some(hour_ago));
    // Unless the clock of a machine that was just started does not go back so far.
    assert!(of_time.is_due(|| 0) || Instant::now().checked_sub(Duration::from_secs(3600)).is_none());
}

#[test]
fn one_that_is_in_progress_or_interrupted_has_not_begun_and_skips_nothing() {
    let (mut of_run, _, _guard) = evaluations(Every::EnvSteps(50), 0, None);
    let as_before = |of_run: &Evaluations| (of_run.saved().since_env_steps, of_run.saved().skipped) == (0, 0);
    of_run.begin(order(170));
    assert!(skipped(&mut of_run, 170) == 2 && as_before(&of_run), "in progress");
    of_run.take_in(Report { is_interrupted: true, ..Report::default() });
    assert!(skipped(&mut of_run, 170) == 2 && as_before(&of_run), "interrupted");
    assert!(of_run.is_due(|| 170), "a resumed run makes it again");
}

#[test]
fn reports_that_were_not_read_in_time_are_one_with_the_sums_of_both() {
    let failed = |text: &str| Report { failed: 1, last_failure: Some(text.to_owned()), ..Report::default() };
    let made = Report { made: 1, episodes: 3, env_steps: 9, ..Report::default() };
    let mut all = failed("first");
    [made, failed("second")].into_iter().for_each(|later| all.fold(later));
    assert_eq!((all.failed, all.made, all.episodes, all.env_steps), (2, 1, 3, 9));
    assert_eq!(all.last_failure.as_deref(), Some("second"));
}
