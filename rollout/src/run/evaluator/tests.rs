#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc;

use super::*;
use crate::testing::LONG;

/// The orders that were evaluated.
#[derive(Debug, Default, PartialEq)]
struct Done(Vec<u32>);

impl Fold for Done {
    fn fold(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

/// An evaluator that says when it has begun an order, and then waits until it may finish.
struct Waiting {
    evaluator: Evaluator<u32, Done>,
    begun: mpsc::Receiver<u32>,
    go_on: mpsc::Sender<()>,
}

fn start(token: &ShutdownToken, time: &TimeLedger, state: EvaluatorState) -> Waiting {
    let (begins, begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let evaluate = move |order, clock: &mut StateClock<EvaluatorState>| {
        clock.enter(state);
        begins.send(order).unwrap();
        let _ = may_go_on.recv();
        Done(vec![order])
    };
    let evaluator = Evaluator::start(token, &Notifier::new(), time, evaluate).unwrap();
    Waiting { evaluator, begun, go_on }
}

#[test]
fn one_order_waits_at_most_and_reports_fold() {
    let (guard, token) = shutdown();
    let time = TimeLedger::new();
    let Waiting { evaluator, begun, go_on } = start(&token, &time, EvaluatorState::Evaluating);
    evaluator.order(1).unwrap();
    assert_eq!(begun.recv().unwrap(), 1);
    evaluator.order(2).unwrap();
    assert_eq!(evaluator.order(3), Err(3), "nothing queues up");
    assert_eq!(time.read()[0].current, Some("evaluating"));
    go_on.send(()).unwrap();
    assert_eq!(begun.recv().unwrap(), 2);
    go_on.send(()).unwrap();
    crate::testing::until("the second report", || time.read()[0].current == Some("waiting"));
    drop(guard);
    assert_eq!(evaluator.order(4), Err(4), "the run has ended");
    let (reports, has_ended) = evaluator.join(LONG, LONG);
    assert_eq!((reports, has_ended), (vec![Done(vec![1, 2])], true));
    assert!(time.is_closed() && time.read()[0].current.is_none());
}

#[test]
fn an_evaluation_that_hangs_is_not_waited_for_beyond_the_deadline() {
    let (guard, token) = shutdown();
    let Waiting { evaluator, begun, go_on } = start(&token, &TimeLedger::new(), EvaluatorState::Evaluating);
    evaluator.order(1).unwrap();
    begun.recv().unwrap();
    drop(guard);
    let (reports, has_ended) = evaluator.join(Duration::ZERO, LONG);
    assert_eq!((reports, has_ended), (vec![], false));
    drop(go_on);
}

#[test]
fn a_policy_that_is_being_saved_is_waited_for() {
    let (guard, token) = shutdown();
    let Waiting { evaluator, begun, go_on } = start(&token, &TimeLedger::new(), EvaluatorState::Saving);
    evaluator.order(1).unwrap();
    begun.recv().unwrap();
    drop(guard);
    // It is saved once the deadline of evaluations has passed.
    let clock = evaluator.clock.clone();
    let disk = thread::spawn(move || {
        crate::testing::until("the deadline", || clock.read().since_secs > 0.01);
        drop(go_on);
    });
    let (reports, has_ended) = evaluator.join(Duration::ZERO, LONG);
    assert_eq!((reports, has_ended), (vec![Done(vec![1])], true));
    disk.join().unwrap();
}
