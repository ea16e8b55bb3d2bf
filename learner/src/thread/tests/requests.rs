//! Asking a running learner for its state.

use std::sync::mpsc;

use pronk_metrics::DEFAULT_POLICY;

use super::fakes::*;
use super::*;
use crate::StateError;

#[test]
fn a_starved_learner_gives_its_state_and_goes_on() {
    let config = LearnerLoopConfig { learner_queue_timeout: LONG, ..config(1) };
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config, 4, content());
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    for update in 1..=3 {
        sender.push(bench.sampled(update)).unwrap();
        thread.outqueue().take(LONG).unwrap();
        let state = &thread.state(LONG).unwrap()[DEFAULT_POLICY];
        assert_eq!(
            (state.updates, state.global_step, state.params.values()),
            (update, update * STEPS, &[update as f32][..])
        );
    }
    drop(sender);
    assert!(thread.join(LONG).failure.is_none());
}

#[test]
fn copying_the_state_is_not_starving() {
    let (bench, (learner_loop, _sender, outqueue)) =
        Bench::set_up(LearnerLoopConfig { learner_queue_timeout: LONG, ..config(1) }, 4, content());
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    thread.state(LONG).unwrap();
    let time = &bench.time.read()[0];
    let reporting = time.states.iter().find(|(name, _)| *name == "reporting");
    assert!(reporting.is_some_and(|(_, secs)| *secs > 0.0), "{time:?}");
}

#[test]
fn a_learner_deep_in_a_pass_is_waited_for_until_the_deadline_and_no_longer() {
    let (release, hang) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let learner = FakeLearner::boxed(move |_, _| {
        entered.send(()).unwrap();
        let _ = hang.recv();
        Ok(loss_info(1.0))
    });
    let config = LearnerLoopConfig { learner_queue_timeout: LONG, ..config(1) };
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config, 4, learner);
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    sender.push(bench.sampled(0)).unwrap();
    inside.recv().unwrap();
    assert!(matches!(thread.state(Duration::from_millis(10)), Err(StateError::TimedOut { .. })));
    drop(release);
    // The request nobody waits for any more does not stand in the way of the next.
    assert_eq!(thread.state(LONG).unwrap()[DEFAULT_POLICY].updates, 1);
}

#[test]
fn a_learner_that_has_ended_says_so() {
    let (_bench, (learner_loop, sender, outqueue)) = Bench::set_up(config(1), 4, content());
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    drop(sender);
    assert!(thread.outqueue().take(LONG).is_err());
    assert_eq!(thread.state(LONG).map(drop), Err(StateError::Ended));
}
