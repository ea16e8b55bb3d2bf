//! Every way the learner can end: nothing hangs, nothing is lost, and the cause comes back.

use std::sync::mpsc;
use std::thread;

use pronk_buffer::shutdown;

use super::fakes::*;
use super::*;
use crate::LearnError;

fn failed(failure: LearnerFailure) -> LearnerLoopError {
    assert_eq!(failure.thread, "learner");
    match failure.cause {
        LearnerFailureCause::Failed(error) => error,
        other => panic!("expected the loop's error, got {other}"),
    }
}

#[test]
fn a_closed_source_ends_the_thread_and_gives_the_learner_back() {
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config_waiting(), 4, content());
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    drop(sender);
    while thread.outqueue().take(LONG).is_ok() {}
    assert!(thread.outqueue().is_closed());
    let learner = thread.join(LONG).learner.unwrap();
    assert_eq!((weight_of(&*learner), state_of(&*learner).updates), (3.0, 3));
    assert_eq!(bench.final_totals().trained_once.env, 3 * STEPS);
}

#[test]
fn a_dropped_outqueue_ends_the_loop() {
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config(1), 4, content());
    drop(outqueue);
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    assert!(matches!(learner_loop.step().unwrap(), StepOutcome::Closed(ClosedBy::Outqueue)));
    drop(learner_loop.finish());
    let totals = bench.final_totals();
    assert_eq!((totals.trained_once.env, totals.dropped["shutdown"].env), (STEPS, 2 * STEPS));
}

#[test]
fn a_cut_guard_ends_the_loop_before_its_next_batch() {
    let (mut bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(2), 4, content());
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    trained(learner_loop.step().unwrap());
    drop(bench.shutdown.take());
    assert!(matches!(learner_loop.step().unwrap(), StepOutcome::Closed(ClosedBy::ShutdownGuard)));
    drop(learner_loop.finish());
    // The batch in the ring was trained on once; the two in the queue never were.
    let totals = bench.final_totals();
    assert_eq!((totals.trained_once.env, totals.dropped["shutdown"].env), (STEPS, 2 * STEPS));
}

#[test]
fn a_cut_guard_wakes_a_starved_learner() {
    let (mut bench, (learner_loop, _sender, outqueue)) = Bench::set_up(config_waiting(), 4, content());
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    let began = Instant::now();
    drop(bench.shutdown.take());
    assert!(thread.join(LONG).failure.is_none());
    assert!(began.elapsed() < LONG / 2);
}

#[test]
fn a_learner_that_errs_ends_the_thread_with_its_error_and_the_batch_is_lost() {
    let learner = FakeLearner::boxed(|call, _| match call {
        1 => Ok(loss_info(1.0)),
        _ => Err(LearnError::Config { reason: "the moon is full".to_owned() }),
    });
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config_waiting(), 4, learner);
    for sequence in 0..4 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    let failure = LearnerThread::spawn(learner_loop, outqueue).unwrap().join(LONG).failure.unwrap();
    let text = failure.to_string();
    assert!(text.contains("`learner`") && text.contains("update 2") && text.contains("fragment 1"), "{text}");
    assert!(text.contains("the moon is full"), "{text}");
    assert!(matches!(failed(failure), LearnerLoopError::Learn { update: 2, .. }));
    let totals = bench.final_totals();
    assert_eq!((totals.lost["learner_error"].env, totals.dropped["shutdown"].env), (STEPS, 2 * STEPS));
}

#[test]
fn a_learner_that_panics_ends_the_thread_with_the_panics_text_and_the_batch_is_lost() {
    let learner = FakeLearner::boxed(|_, _| panic!("index {} out of range", 7));
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config_waiting(), 4, learner);
    sender.push(bench.sampled(0)).unwrap();
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    assert!(thread.outqueue().take(LONG).is_err(), "the outqueue closes");
    let failure = thread.join(LONG).failure.unwrap();
    let text = failure.to_string();
    assert!(text.contains("`learner`") && text.contains("index 7 out of range"), "{text}");
    assert!(matches!(failed(failure), LearnerLoopError::Panicked { update: 1, .. }));
    assert_eq!(bench.final_totals().lost["learner_panic"].env, STEPS);
}

#[test]
fn a_worker_blocked_on_a_full_queue_wakes_with_its_batch_when_the_learner_fails() {
    let (started, wait_for_start) = mpsc::channel::<()>();
    let learner = FakeLearner::boxed(move |_, _| {
        wait_for_start.recv().unwrap();
        Err(LearnError::Config { reason: "broken".to_owned() })
    });
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config_waiting(), 1, learner);
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    // Fill the learner and the queue, then block.
    let (one, two) = (bench.sampled(0), bench.sampled(1));
    sender.push(one).unwrap();
    sender.push(two).unwrap();
    let blocked = {
        let ledger = bench.ledger.clone();
        thread::spawn(move || {
            started.send(()).unwrap();
            // The learner takes what is in the queue as it ends, so some pushes may still succeed.
            (2..).find_map(|sequence| {
                let batch = batch(sequence);
                let ticket = ledger.sampled(batch.steps());
                sender.push(batch.with_ticket(ticket)).err()
            })
        })
    };
    let returned = blocked.join().unwrap().expect("pushing ends only with a refusal").0;
    assert!(returned.ticket_steps().is_some());
    drop(returned);
    assert!(thread.join(LONG).failure.is_some());
    let totals = bench.final_totals();
    assert_eq!(totals.lost["learner_error"].env, STEPS);
    // Whether drained, pushed after the drain, or handed back.
    assert!(totals.dropped.keys().all(|reason| &**reason == "shutdown"), "{totals:?}");
}

#[test]
fn a_source_that_fails_or_panics_ends_the_thread_with_its_name_and_cause() {
    for (play, cause) in [(Play::Fail("disk on fire"), "disk on fire"), (Play::Panic("bad source"), "bad source")] {
        let script = Script([Play::Give(batch(0)), play, Play::Give(batch(1))].into());
        let (_bench, learner_loop, outqueue) = Bench::over(config_waiting(), shutdown(), script, content());
        let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
        while thread.outqueue().take(LONG).is_ok() {}
        let failure = thread.join(LONG).failure.unwrap();
        assert!(failure.to_string().contains("`learner`") && failure.to_string().contains(cause), "{failure}");
    }
}

#[test]
fn what_a_panicking_source_held_is_still_counted() {
    let (shutdown, token) = shutdown();
    let (bench, learner_loop, outqueue) =
        Bench::over(config_waiting(), (shutdown, token), Script([].into()), content());
    drop((learner_loop, outqueue));
    let script = Script([Play::Panic("bad source"), Play::Give(bench.sampled(0))].into());
    let (other, learner_loop, outqueue) = Bench::over(config_waiting(), pronk_buffer::shutdown(), script, content());
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    assert!(thread.outqueue().take(LONG).is_err());
    assert!(thread.join(LONG).failure.is_some());
    drop(other);
    assert_eq!(bench.final_totals().dropped["shutdown"].env, STEPS);
}

#[test]
fn joining_a_learner_that_hangs_names_its_state_at_the_deadline() {
    let (release, hang) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let learner = FakeLearner::boxed(move |_, _| {
        entered.send(()).unwrap();
        let _ = hang.recv();
        Ok(loss_info(1.0))
    });
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config_waiting(), 4, learner);
    sender.push(bench.sampled(0)).unwrap();
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    inside.recv().unwrap();
    let failure = thread.join(Duration::from_millis(10)).failure.unwrap();
    assert!(matches!(failure.cause, LearnerFailureCause::NotJoined { state: "learning", .. }), "{failure}");
    drop(release);
}

#[test]
fn a_learner_comes_back_with_its_failure_only_where_no_update_was_broken_off() {
    let refused: fn() -> LearnError = || LearnError::Config { reason: "the moon is full".to_owned() };
    let panicked: fn() -> LearnError = || panic!("index 7 out of range");
    for (second, weight) in [(not_finite as fn() -> LearnError, Some(1.0)), (refused, None), (panicked, None)] {
        let learner = FakeLearner::boxed(move |call, _| if call == 1 { Ok(loss_info(1.0)) } else { Err(second()) });
        let max_consecutive_quarantined = std::num::NonZeroU32::MIN;
        let config = LearnerLoopConfig { max_consecutive_quarantined, ..config_waiting() };
        let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config, 4, learner);
        for sequence in 0..2 {
            sender.push(bench.sampled(sequence)).unwrap();
        }
        let end = LearnerThread::spawn(learner_loop, outqueue).unwrap().join(LONG);
        assert_eq!(end.learner.map(|learner| weight_of(&*learner)), weight, "{:?}", end.failure);
        assert!(end.failure.is_some());
    }
}

fn config_waiting() -> LearnerLoopConfig {
    LearnerLoopConfig { learner_queue_timeout: LONG, ..config(1) }
}
