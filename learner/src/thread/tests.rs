#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ending;
mod fakes;
mod quarantine;
mod requests;

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use pronk_buffer::{MultiAgentBatch, NextError, Source, shutdown};
use pronk_metrics::{DEFAULT_POLICY, ResultDict, StateClock, Steps, thread_states};

use super::*;
use crate::{LearnerLoopConfig, LearnerMetrics, OverwriteLearnerInfo, PolicyLag};
use fakes::*;

fn trained(outcome: StepOutcome) -> TrainedPass {
    match outcome {
        StepOutcome::Trained(pass) => pass,
        other => panic!("expected a completed pass, got {other:?}"),
    }
}

/// A clock that gives the readings it was made with.
struct Readings(std::vec::IntoIter<f64>);

impl Clock for Readings {
    fn now_secs(&mut self) -> f64 {
        self.0.next().unwrap()
    }
}

#[test]
fn a_time_out_changes_nothing_but_the_queue_timer() {
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config(1), 4, content());
    let mut learner_loop = learner_loop.with_clock(Readings(vec![5.0, 5.25, 6.0, 6.5, 7.0, 9.0].into_iter()));
    let before = bench.totals();
    let StepOutcome::NotReady(diagnosis) = learner_loop.step().unwrap() else { panic!("there was nothing to learn") };
    assert_eq!(diagnosis.waited, Duration::from_millis(250));

    let now = learner_loop.metrics().read();
    assert_eq!((now.queue.count(), now.queue.mean_secs()), (1, Some(0.25)));
    assert_eq!((now.grad.count(), now.num_steps, now.queue_size.count()), (0, 0, 0));
    assert!(now.learner_info.is_empty() && outqueue.is_empty());
    assert_eq!((bench.totals(), bench.weights.version()), (before, 0));

    // The next step goes on as if nothing had been.
    sender.push(bench.sampled(0)).unwrap();
    trained(learner_loop.step().unwrap());
    let now = learner_loop.metrics().read();
    assert_eq!((now.queue.mean_secs(), now.grad.mean_secs(), now.num_steps), (Some(0.375), Some(2.0), 1));
}

thread_states! {
    /// A worker's states.
    enum Crawling {
        /// The one it is in.
        Stepping = "stepping",
    }
}

#[test]
fn a_time_out_says_how_long_what_waits_and_who_is_in_which_state() {
    let (bench, (mut learner_loop, _sender, _outqueue)) = Bench::set_up(config(1), 4, content());
    let worker = StateClock::new("rollout-7", Crawling::Stepping);
    bench.time.add(worker.reader());
    for time_out in 1..=3 {
        let StepOutcome::NotReady(diagnosis) = learner_loop.step().unwrap() else { panic!("nothing to learn") };
        assert_eq!(diagnosis.time_outs_in_a_row, time_out);
        assert!(diagnosis.waited_in_a_row >= diagnosis.waited);
        assert_eq!((diagnosis.backlog, diagnosis.passes), (0, 0));
        let text = diagnosis.to_string();
        assert!(text.contains("rollout-7 `stepping` for") && text.contains("learner_queue_timeout"), "{text}");
        assert!(learner_loop.metrics().read().starved.is_some());
    }
}

#[test]
fn a_batch_ends_the_row_of_time_outs() {
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(1), 4, content());
    learner_loop.step().unwrap();
    sender.push(bench.sampled(0)).unwrap();
    trained(learner_loop.step().unwrap());
    assert!(learner_loop.metrics().read().starved.is_none());
    let StepOutcome::NotReady(diagnosis) = learner_loop.step().unwrap() else { panic!("nothing to learn") };
    assert_eq!((diagnosis.time_outs_in_a_row, diagnosis.passes), (1, 1));
}

#[test]
fn a_learner_that_had_to_wait_does_not_starve_while_it_learns() {
    let metrics = Arc::new(OnceLock::<LearnerMetrics>::new());
    let meanwhile = Arc::clone(&metrics);
    let learner = FakeLearner::boxed(move |_, _| {
        assert!(meanwhile.get().unwrap().read().starved.is_none());
        Ok(loss_info(0.0))
    });
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(1), 4, learner);
    metrics.set(learner_loop.metrics().clone()).unwrap();
    assert!(matches!(learner_loop.step().unwrap(), StepOutcome::NotReady(_)));
    sender.push(bench.sampled(0)).unwrap();
    trained(learner_loop.step().unwrap());
}

/// A source that rests before its only batch.
struct Resting(u32, Option<MultiAgentBatch>);

impl Source for Resting {
    type Item = MultiAgentBatch;

    fn next(&mut self, _: Duration) -> Result<MultiAgentBatch, NextError> {
        self.0 = self.0.saturating_sub(1);
        if self.0 > 0 { Err(NextError::Resting) } else { self.1.take().ok_or(NextError::Closed) }
    }

    fn backlog(&self) -> usize {
        0
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        Vec::new()
    }
}

#[test]
fn a_learner_does_not_starve_while_the_run_rests() {
    let config = LearnerLoopConfig { on_starved: OnStarved::Fail, ..config(1) };
    let source = Resting(100, Some(batch(0)));
    let (_bench, mut learner_loop, _outqueue) = Bench::over(config, shutdown(), source, content());
    trained(learner_loop.step().unwrap());
}

#[test]
fn starving_ends_the_run_when_that_was_asked_for() {
    let config = LearnerLoopConfig { on_starved: OnStarved::Fail, ..config(1) };
    let (_bench, (mut learner_loop, _sender, _outqueue)) = Bench::set_up(config, 4, content());
    let error = learner_loop.step().unwrap_err();
    assert!(matches!(&error, LearnerLoopError::Starved(diagnosis) if diagnosis.time_outs_in_a_row == 1), "{error}");
}

#[test]
fn every_pass_is_reported_and_data_counts_as_trained_once() {
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config(3), 4, content());
    sender.push(bench.sampled(0)).unwrap();
    for number in 1..=3 {
        let pass = trained(learner_loop.step().unwrap());
        assert_eq!(pass.number, number);
        // Settled by the first completed pass, not the last.
        assert_eq!(bench.totals().trained_once.env, STEPS);
        assert_eq!(bench.totals().trained_passes.env, u64::from(number) * STEPS);
    }
    let reports = outqueue.drain();
    assert_eq!(reports.len(), 3);
    let mut once = Steps::default();
    for (index, report) in reports.iter().enumerate() {
        assert_eq!((report.env_steps, report.agent_steps), (STEPS, STEPS));
        assert_eq!((report.pass as usize, report.passes, report.updates), (index + 1, 1, 1));
        assert_eq!(report.info.number("default_policy", "learner_stats.total_loss"), Some((index + 1) as f64));
        once += report.trained_once;
    }
    assert_eq!(once, Steps { env: STEPS, agent: STEPS });
    assert_eq!(state_of(learner_loop.learner()).global_step, STEPS);
    bench.final_totals();
}

#[test]
fn no_snapshot_has_more_steps_trained_once_than_in_passes() {
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config(1), 4, content());
    let ledger = bench.ledger.clone();
    let reading = std::thread::spawn(move || {
        loop {
            let totals = ledger.snapshot();
            assert!(totals.trained_once.env <= totals.trained_passes.env, "{totals:?}");
            if totals.trained_once.env == 3000 * STEPS {
                return;
            }
        }
    });
    for sequence in 0..3000 {
        sender.push(bench.sampled(sequence)).unwrap();
        trained(learner_loop.step().unwrap());
    }
    reading.join().unwrap();
}

#[test]
fn lag_is_the_learners_version_less_the_columns_at_the_first_pass() {
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config(2), 4, content());
    for sequence in 0..2 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    let mut mixed = sample(2);
    for (i, version) in mixed.versions_mut().iter_mut().enumerate() {
        *version = [1, 3][i % 2];
    }
    sender.push(bench.sampled_from(mixed)).unwrap();
    for _ in 0..6 {
        trained(learner_loop.step().unwrap());
    }
    let lags: Vec<PolicyLag> = outqueue.drain().iter().map(|report| report.lag).collect();
    let none = PolicyLag::default();
    // Two passes, hence two publications, a batch.
    let lag = |learner, pair: [u64; 2]| PolicyLag::of(learner, pair.repeat(T * B / 2));
    assert_eq!(lags, [lag(0, [0, 0]), none, lag(2, [0, 0]), none, lag(4, [1, 3]), none]);
    assert_eq!((lags[4].min(), lags[4].mean(), lags[4].max()), (Some(1), Some(2.0), Some(3)));
}

#[test]
fn weights_are_published_every_broadcast_interval_updates_in_recycled_memory() {
    let config = LearnerLoopConfig { broadcast_interval: NonZeroU64::new(3).unwrap(), ..config(1) };
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config, 4, content());
    let mut places = std::collections::BTreeSet::new();
    for update in 1..=30_u64 {
        sender.push(bench.sampled(update)).unwrap();
        let pass = trained(learner_loop.step().unwrap());
        assert_eq!((pass.version, bench.weights.version()), (update / 3, update / 3));
        let versioned = bench.weights.load();
        let weights = versioned.weights[DEFAULT_POLICY].values();
        assert_eq!(weights, [(update / 3 * 3) as f32]);
        places.insert(weights.as_ptr() as usize);
    }
    assert!(places.len() <= 3, "10 publications used {} buffers", places.len());
}

#[test]
fn the_learner_is_told_each_version_right_after_the_update_that_made_it() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let learner = FakeLearner {
        params: one_weight(),
        calls: 0,
        global_step: 0,
        published: told.clone(),
        update: |_, _: &MultiAgentBatch| Ok(loss_info(0.0)),
    };
    let config = LearnerLoopConfig { broadcast_interval: NonZeroU64::new(2).unwrap(), ..config(1) };
    let (bench, (mut learner_loop, sender, _outqueue)) = Bench::set_up(config, 8, Box::new(learner));
    for update in 1..=6_u64 {
        sender.push(bench.sampled(update)).unwrap();
        trained(learner_loop.step().unwrap());
        assert_eq!(*told.lock().unwrap(), (1..=update / 2).collect::<Vec<_>>());
    }
}

#[test]
fn an_outqueue_nobody_reads_folds_and_keeps_every_total() {
    let config = LearnerLoopConfig { outqueue_capacity: slots(2), ..config(2) };
    let (bench, (mut learner_loop, sender, outqueue)) = Bench::set_up(config, 8, content());
    for sequence in 0..8 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    for _ in 0..16 {
        trained(learner_loop.step().unwrap());
    }
    let reports = outqueue.drain();
    assert_eq!(reports.len(), 2);
    let folded = &reports[1];
    assert_eq!((folded.passes, folded.pass, folded.updates, folded.version), (15, 2, 15, 16));
    assert_eq!(reports.iter().map(|report| report.env_steps).sum::<u64>(), 16 * STEPS);
    assert_eq!(reports.iter().map(|report| report.trained_once.agent).sum::<u64>(), 8 * STEPS);
    assert_eq!(reports.iter().map(|report| report.lag.steps()).sum::<u64>(), (8 * T * B) as u64);
    // Losses 2 to 16, equally weighted.
    assert_eq!(folded.info.number("default_policy", "learner_stats.total_loss"), Some(9.0));
}

#[test]
fn metrics_are_written_under_rllibs_keys_and_keep_a_drained_info() {
    let (bench, (learner_loop, sender, _outqueue)) = Bench::set_up(config(1), 4, content());
    let mut learner_loop = learner_loop.with_clock(Readings(vec![0.0, 0.125, 1.0, 1.0625].into_iter()));
    for sequence in 0..3 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    trained(learner_loop.step().unwrap());
    let metrics = learner_loop.metrics().clone();

    let mut result = ResultDict::new();
    result.set("info.learner", "drained");
    metrics.add_learner_metrics(&mut result, OverwriteLearnerInfo::No);
    assert_eq!(result.get("info.learner").unwrap(), "drained");
    assert_eq!(result.number("info.learner_queue.size_count"), Some(1.0));
    assert_eq!(result.number("info.learner_queue.size_mean"), Some(2.0));
    let timing = |key: &str| result.number(&format!("info.timing_breakdown.learner_{key}_time_ms"));
    assert_eq!((timing("dequeue"), timing("grad")), (Some(125.0), Some(62.5)));
    assert_eq!((timing("load"), timing("load_wait")), (Some(0.0), Some(0.0)));

    metrics.add_learner_metrics(&mut result, OverwriteLearnerInfo::Yes);
    assert_eq!(result.number("info.learner.default_policy.learner_stats.total_loss"), Some(1.0));
}

#[test]
fn the_time_ledger_knows_the_learner_before_its_thread_and_closes_after_it() {
    let (bench, (learner_loop, sender, outqueue)) = Bench::set_up(config(1), 4, content());
    let time = bench.time.read();
    assert_eq!((time.len(), time[0].thread.as_str(), time[0].current), (1, "learner", Some("starting")));
    let thread = LearnerThread::spawn(learner_loop, outqueue).unwrap();
    for sequence in 0..100 {
        sender.push(bench.sampled(sequence)).unwrap();
    }
    let deadline = Instant::now() + LONG;
    while thread.metrics().read().num_steps < 100 {
        assert!(Instant::now() < deadline && thread.is_running());
        std::thread::yield_now();
    }
    assert!(bench.time.is_closed());
    drop(sender);
    assert!(thread.join(LONG).failure.is_none());
    let time = &bench.time.read()[0];
    assert!(time.is_closed() && time.current.is_none(), "{time:?}");
    let states: Vec<&str> = time.states.iter().map(|(name, _)| *name).collect();
    assert_eq!(states, ["starting", "starved", "learning", "publishing", "reporting"]);
    assert!(time.states.iter().all(|(_, secs)| *secs > 0.0), "{time:?}");
}
