use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{InqueueSender, MultiAgentBatch, PopError, ShutdownGuard};
use pronk_metrics::Steps;
use pronk_model::thread::JoinHandle;
use pronk_model::time::FOREVER;
use pronk_model::{check, sometimes, thread};

use super::{Run, SCHEDULES, Second, sample, start, updates};
use crate::{LearnerEnd, LearnerFailureCause, LearnerLoopError, LearnerThread, StateError};

/// How a learner ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// No more batches come.
    Source,
    /// The run's guard is dropped.
    Guard,
    /// By itself, in or after its second update.
    Itself(Second),
}

/// Those that need no asker.
const UNASKED: [Way; 4] = [Way::Source, Way::Guard, Way::Itself(Second::Fails), Way::Itself(Second::Panics)];

/// One model for each way, which all have as many schedules as another model.
fn for_each(ways: &[Way], what: &str, model: fn(Way)) {
    for way in ways.iter().copied() {
        check(&format!("{what}, {way:?}"), SCHEDULES / ways.len(), move || model(way));
    }
}

impl Way {
    fn start(self) -> (Run, LearnerThread) {
        start(if let Self::Itself(second) = self { second } else { Second::Succeeds }, 1)
    }

    /// Has a run end while it is sampled.
    fn end(self, run: Run) -> Ending {
        let Run { guard, fragments, steps } = run;
        let open = (self != Self::Source).then(|| fragments.clone());
        let sampling = thread::spawn(move || sample(0, if self == Self::Source { 2 } else { 4 }, &fragments, &steps));
        // Dropped here, while updates are made, or kept.
        let guard = (self != Self::Guard).then_some(guard);
        Ending { sampling, _kept: (guard, open) }
    }

    /// Checks what is left of the learner: all of it, unless an update was interrupted.
    fn assert_ended(self, end: &LearnerEnd) {
        let cause = end.failure.as_ref().map(|failure| &failure.cause);
        let saved = || end.learner.as_ref().map(|learner| updates(&learner.save(Default::default())));
        match (self, cause) {
            (Self::Source, None) => assert_eq!(saved(), Some(2)),
            (Self::Guard, None) => {
                sometimes("the end comes before the first update", saved() == Some(0));
                sometimes("the end comes between updates", saved().is_some_and(|updates| updates > 0));
                assert!(saved().is_some());
            }
            (
                Self::Itself(Second::Fails),
                Some(LearnerFailureCause::Failed(LearnerLoopError::Learn { update: 2, .. })),
            )
            | (
                Self::Itself(Second::Panics),
                Some(LearnerFailureCause::Failed(LearnerLoopError::Panicked { update: 2, .. })),
            )
            | (Self::Itself(Second::CannotBeSaved), Some(LearnerFailureCause::Panicked(_))) => {
                assert!(end.learner.is_none());
            }
            (way, cause) => panic!("{way:?}: {cause:?}"),
        }
    }
}

/// What goes on while a learner ends.
struct Ending {
    sampling: JoinHandle<()>,
    /// What would end the learner, unless it is this way that drops it.
    _kept: (Option<ShutdownGuard>, Option<InqueueSender<MultiAgentBatch>>),
}

/// However the learner ends, an asker gets its state until then, and afterwards is told that it has ended,
/// which is true.
#[test]
fn an_asker_is_told_of_an_end_that_is_true() {
    let ways: Vec<_> = UNASKED.into_iter().chain([Way::Itself(Second::CannotBeSaved)]).collect();
    for_each(&ways, "requests", |way| {
        let (run, learner) = way.start();
        let (steps, learner) = (run.steps.clone(), Arc::new(learner));
        let asking = thread::spawn({
            let learner = Arc::clone(&learner);
            move || {
                let mut newest = 0;
                loop {
                    let state = learner.state(FOREVER);
                    sometimes("an asker gets the state", state.is_ok());
                    match state {
                        Ok(states) => newest = newest.max(updates(&states)),
                        Err(StateError::Ended) => return newest,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
        let ending = way.end(run);
        let newest = asking.join().unwrap();
        let end = Arc::into_inner(learner).unwrap().join(FOREVER);
        way.assert_ended(&end);
        assert!(newest <= steps.snapshot().trained_once.env);
        ending.sampling.join().unwrap();
    });
}

/// However the learner ends, its outqueue closes behind the last report, its sampler ends, every step has a
/// place, and a join returns the learner if it is whole.
#[test]
fn a_join_returns_what_is_left_of_the_learner() {
    for_each(&UNASKED, "the end of the learner", |way| {
        let (run, learner) = way.start();
        let steps = run.steps.clone();
        let ending = way.end(run);
        let mut reported = Steps::default();
        loop {
            match learner.outqueue().take(FOREVER) {
                Ok(report) => reported += report.trained_once,
                Err(PopError::Closed) => break,
                Err(PopError::TimedOut) => panic!("neither a report nor an end"),
            }
        }
        way.assert_ended(&learner.join(FOREVER));
        ending.sampling.join().unwrap();
        let totals = steps.snapshot();
        assert!(totals.is_closed() && totals.in_flight == Steps::default(), "{totals:?}");
        assert_eq!(totals.trained_once, reported);
    });
}

/// A join whose deadline passes says so, and one whose deadline does not returns the learner.
#[test]
fn a_join_returns_the_learner_or_says_that_it_has_not_ended() {
    for_each(&UNASKED, "the end of the learner, a deadline", |way| {
        let (run, learner) = way.start();
        let ending = way.end(run);
        let end = learner.join(Duration::from_millis(20));
        let cause = end.failure.as_ref().map(|failure| &failure.cause);
        let is_late = matches!(cause, Some(LearnerFailureCause::NotJoined { .. }));
        sometimes("the deadline passes", is_late);
        sometimes("the learner ends in time", !is_late);
        match is_late {
            true => assert!(end.learner.is_none()),
            false => way.assert_ended(&end),
        }
        ending.sampling.join().unwrap();
    });
}
