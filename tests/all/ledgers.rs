//! The ledgers close at every result and after every run, whatever happens to the environments.

use std::sync::atomic::{AtomicU64, Ordering};

use pronk::TrainResult;
use pronk::envs::CartPole;
use pronk::prelude::*;

use crate::fixtures::{Fault, Faulty, iterations, small, without_hanging};

#[test]
fn they_close_at_every_result_and_nothing_is_in_flight_at_the_end() {
    for workers in [0, 1, 3] {
        let run = without_hanging("ledger", move || {
            let mut config = small(workers);
            config.learner.num_sgd_iter = 3;
            let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
            for result in trainer.by_ref().take(50) {
                let result = result.unwrap();
                assert!(result.ledger_closed(), "{workers} workers: {result}");
            }
            trainer.finish().unwrap()
        });
        assert!(run.ledger_closed(), "{workers} workers: {:?} {:?}", run.steps, run.thread_times);
        assert!(run.steps.trained_once.env > 0);
        assert!(!run.steps.dropped.keys().any(|reason| &**reason == "discarded"), "{:?}", run.steps);
        assert!(run.steps.trained_passes.env >= run.steps.trained_once.env);
    }
}

#[test]
fn they_close_while_environments_die_at_random() {
    // Every environment fails in its own way, one episode in six, differently in every incarnation.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let run = without_hanging("chaos", || {
        let faults = [Fault::Error, Fault::Panic, Fault::NanObservation, Fault::InfiniteReward];
        let make = move |_: &EnvContext| {
            let made = MADE.fetch_add(1, Ordering::Relaxed);
            Faulty::new(faults[made as usize % faults.len()], 6)
        };
        let mut config = small(3);
        config.supervision.num_consecutive_worker_failures_tolerance = 1_000;
        config.supervision.max_num_worker_restarts = 1_000_000;
        let mut trainer = Trainer::new(config, make).unwrap();
        for result in trainer.by_ref().take(300) {
            let result = result.unwrap();
            assert!(result.ledger_closed(), "{result}");
        }
        trainer.finish().unwrap()
    });
    assert!(run.ledger_closed(), "{:?}", run.steps);
    let causes: Vec<&str> = run.steps.lost.keys().map(|cause| &**cause).collect();
    assert_eq!(causes, ["env_error", "env_panic", "non_finite_observation", "non_finite_reward"]);
}

#[test]
fn a_run_that_is_stopped_at_once_closes_too() {
    for workers in [0, 2] {
        let trainer = Trainer::new(small(workers), |_: &EnvContext| CartPole::new()).unwrap();
        let run = trainer.finish().unwrap();
        assert!(run.ledger_closed(), "{:?}", run.steps);
    }
    let run = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap().run(iterations(1)).unwrap();
    assert!(run.ledger_closed());
}

#[test]
fn workers_that_wait_help_the_learner_if_threads_share_its_updates() {
    let helped = |threads: usize| {
        let mut config = small(2);
        // Batches of several shares, of a learner that is slower than two workers.
        config.workers.num_envs_per_worker = 64;
        config.learner.train_batch_size = 64 * config.workers.rollout_fragment_length;
        config.learner.num_sgd_iter = 4;
        config.learner.num_learner_threads = std::num::NonZeroUsize::new(threads);
        let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
        let secs = |result: &TrainResult| -> f64 {
            let state = |worker| format!("ledger.time.rollout-{worker}.states.helping");
            (1..=2).map(|worker| result.dict.number(&state(worker)).unwrap()).sum()
        };
        let result = trainer.by_ref().take(200).map(|result| result.unwrap()).find(|result| secs(result) > 0.0);
        assert!(trainer.finish().unwrap().ledger_closed());
        result.is_some()
    };
    assert!(without_hanging("help", move || helped(2)));
    assert!(without_hanging("no help", move || !helped(1)));
}
