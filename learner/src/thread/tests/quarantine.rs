//! Batches that are not finite, or lead to updates that are not.

use std::num::NonZeroU32;

use pronk_metrics::{NormalizerMoments, RunningMoments};

use super::fakes::*;
use super::*;

fn quarantined(outcome: StepOutcome) -> Quarantine {
    match outcome {
        StepOutcome::Quarantined(quarantine) => quarantine,
        other => panic!("expected a quarantined batch, got {other:?}"),
    }
}

#[test]
fn an_update_that_is_not_finite_leaves_the_weights_and_is_counted() {
    let learner = FakeLearner::boxed(|call, _| if call == 2 { Err(not_finite()) } else { Ok(loss_info(1.0)) });
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config(1), 4, learner);
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    trained(learner_loop.step().unwrap());
    let quarantine = quarantined(learner_loop.step().unwrap());
    assert!(matches!(quarantine.cause, NonFinite::Update(_)));
    let text = quarantine.to_string();
    assert!(text.contains("update 2") && text.contains("worker 3 incarnation 1 fragment 1"), "{text}");

    assert_eq!(bench.totals().dropped["non_finite_loss"].env, STEPS);
    assert_eq!((bench.weights.version(), weight_of(learner_loop.learner())), (1, 1.0));
    let now = learner_loop.metrics().read();
    assert_eq!((now.num_quarantined, now.num_steps, outqueue.len()), (1, 1, 1));
    assert_eq!(now.last_quarantine, Some(text));

    trained(learner_loop.step().unwrap());
    assert_eq!(bench.final_totals().trained_once.env, 2 * STEPS);
}

#[test]
fn a_batch_that_is_not_finite_never_reaches_the_learner() {
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(1), 4, content());
    let mut poisoned = sample(5);
    poisoned.rewards_mut()[3] = f32::NAN;
    sender.push(bench.sampled_from(poisoned)).unwrap();
    let quarantine = quarantined(learner_loop.step().unwrap());
    let text = quarantine.to_string();
    assert!(text.contains("rewards") && text.contains("step 1") && text.contains("fragment 5"), "{text}");
    assert_eq!(bench.final_totals().dropped["non_finite_batch"].agent, STEPS);
    assert_eq!((learner_loop.metrics().read().grad.count(), weight_of(learner_loop.learner())), (0, 0.0));
}

#[test]
fn a_quarantined_batch_is_not_shown_again_and_its_neighbours_are() {
    let learner = FakeLearner::boxed(|_, batch| match batch.get("default_policy").unwrap().tags()[0].slot {
        0 => Err(not_finite()),
        sequence => Ok(loss_info(sequence as f64)),
    });
    let config = LearnerLoopConfig { minibatch_buffer_size: slots(2), ..config(2) };
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config, 4, learner);
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    quarantined(learner_loop.step().unwrap());
    for _ in 0..4 {
        trained(learner_loop.step().unwrap());
    }
    let shown = outqueue.drain();
    let shown = shown.iter().map(|report| report.info.number("default_policy", "learner_stats.total_loss").unwrap());
    assert_eq!(shown.collect::<Vec<_>>(), [1.0, 2.0, 1.0, 2.0]);
    assert!(matches!(learner_loop.step().unwrap(), StepOutcome::NotReady(_)));
    bench.final_totals();
}

#[test]
fn a_later_pass_that_is_not_finite_does_not_take_back_that_the_data_was_trained_on() {
    let learner = FakeLearner::boxed(|call, _| if call == 2 { Err(not_finite()) } else { Ok(loss_info(1.0)) });
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(3), 4, learner);
    sender.push(bench.sampled(0)).unwrap();
    trained(learner_loop.step().unwrap());
    quarantined(learner_loop.step().unwrap());
    assert!(matches!(learner_loop.step().unwrap(), StepOutcome::NotReady(_)), "the third pass is not made");
    let totals = bench.final_totals();
    assert_eq!((totals.trained_once.env, totals.trained_passes.env), (STEPS, STEPS));
    assert!(totals.dropped.is_empty(), "{totals:?}");
}

#[test]
fn a_pass_whose_later_minibatch_is_not_finite_counts_the_updates_that_were_made() {
    let learner = FakeLearner::boxed(|call, _| match call {
        2 => Err(not_finite().after(3)),
        _ => Ok(loss_info(1.0)),
    });
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config(1), 4, learner);
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    trained(learner_loop.step().unwrap());
    // One update, then three of the pass that fails in the fifth.
    let text = quarantined(learner_loop.step().unwrap()).to_string();
    assert!(text.contains("update 5") && text.contains("after update 3 of the same pass"), "{text}");
    assert_eq!(bench.weights.version(), 2, "weights that were changed are published");
    let report = outqueue.drain().pop().unwrap();
    assert_eq!((report.updates, report.trained_once.env, report.version), (3, STEPS, 2));
    trained(learner_loop.step().unwrap());
    let totals = bench.final_totals();
    assert_eq!((totals.trained_once.env, totals.trained_passes.env), (3 * STEPS, 3 * STEPS));
    assert!(totals.dropped.is_empty(), "{totals:?}");
}

#[test]
fn too_many_in_a_row_end_the_run_and_say_what_which_batch_and_which_update() {
    let learner = FakeLearner::boxed(|call, _| if call > 1 { Err(not_finite()) } else { Ok(loss_info(1.0)) });
    let config = LearnerLoopConfig { max_consecutive_quarantined: NonZeroU32::new(3).unwrap(), ..config(1) };
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config, 8, learner);
    for sequence in 0..5 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    trained(learner_loop.step().unwrap());
    quarantined(learner_loop.step().unwrap());
    quarantined(learner_loop.step().unwrap());
    let error = learner_loop.step().unwrap_err();
    let text = error.to_string();
    for part in ["3 batches in a row", "max_consecutive_quarantined", "total loss", "update 2", "fragment 3"] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    drop(learner_loop);
    let totals = bench.final_totals();
    assert_eq!((totals.dropped["non_finite_loss"].env, totals.dropped["shutdown"].env), (3 * STEPS, STEPS));
}

#[test]
fn a_finite_update_ends_the_row_of_quarantined_ones() {
    let learner = FakeLearner::boxed(|call, _| if call % 2 == 0 { Err(not_finite()) } else { Ok(loss_info(1.0)) });
    let config = LearnerLoopConfig { max_consecutive_quarantined: NonZeroU32::new(2).unwrap(), ..config(1) };
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config, 1, learner);
    for sequence in 0..20 {
        sender.push(bench.sampled(sequence)).unwrap();
        learner_loop.step().unwrap();
    }
    assert_eq!(learner_loop.metrics().read().num_quarantined, 10);
}

#[test]
fn moments_are_merged_once_and_those_of_a_quarantined_batch_never() {
    let of = |number: f64| {
        let mut observations = RunningMoments::new(1);
        observations.add_rows(&[number]);
        NormalizerMoments { observations: Some(observations), returns: None }
    };
    // The first passes over the batches are calls 1, 3 and 4.
    let learner = FakeLearner::boxed(|call, _| if call == 3 { Err(not_finite()) } else { Ok(loss_info(1.0)) });
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(2), 4, learner);
    for number in [1.0, 2.0, 3.0] {
        sender.push(bench.sampled(number as u64).with_moments(of(number)).with_moments(of(10.0 * number))).unwrap();
    }
    let mut poisoned = sample(5);
    poisoned.rewards_mut()[3] = f32::NAN;
    sender.push(bench.sampled_from(poisoned).with_moments(of(4.0))).unwrap();

    let mut expected = NormalizerMoments::default();
    let is_published = |expected: &NormalizerMoments| *bench.weights.load().moments == *expected;
    let merge_batch = |expected: &mut NormalizerMoments, number: f64| {
        expected.merge(&of(number));
        expected.merge(&of(10.0 * number));
    };
    merge_batch(&mut expected, 1.0);
    for _pass in 0..2 {
        trained(learner_loop.step().unwrap());
        assert!(is_published(&expected));
    }
    quarantined(learner_loop.step().unwrap());
    assert!(is_published(&expected));
    trained(learner_loop.step().unwrap());
    merge_batch(&mut expected, 3.0);
    assert!(is_published(&expected));
    trained(learner_loop.step().unwrap());
    quarantined(learner_loop.step().unwrap());
    assert!(is_published(&expected));
}
