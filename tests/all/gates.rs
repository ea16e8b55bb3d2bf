//! Runs whose inqueue is filled and drained by turns.

use std::time::Duration;

use pronk::buffer::Gate;
use pronk::envs::CartPole;
use pronk::prelude::*;

use crate::fixtures::{Fault, Faulty, are_refused, iterations, small, without_hanging};
use crate::learning;

fn filled_and_drained(learner_queue_size: impl Into<Option<usize>>, mut config: TrainerConfig) -> TrainerConfig {
    config.learner.inqueue_gate = Gate::FillThenDrain;
    config.learner.learner_queue_size = learner_queue_size.into();
    config
}

#[test]
fn a_run_that_fills_and_drains_by_turns_learns() {
    let run = without_hanging("learning by turns", || {
        let config = filled_and_drained(None, learning::config(1, 2));
        let stop = StopWhen { episode_return_mean: Some(300.0), env_steps: Some(10_000_000), ..StopWhen::default() };
        Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap().run(stop).unwrap()
    });
    assert!(run.reached(), "{}", run.summary());
    assert!(run.ledger_closed() && run.not_joined.is_empty());
}

#[test]
fn its_books_close_at_every_result_whatever_the_queue_holds() {
    // (workers, queue, env-steps of a train batch, passes, slots of the ring, stacks); a fragment is of 16
    // env-steps
    let runs =
        [(1, 1, 16, 1, 1, 0), (3, 2, 32, 3, 2, 0), (2, 5, 48, 2, 1, 0), (4, 3, 16, 1, 1, 2), (2, 7, 33, 2, 3, 4)];
    for (workers, queue, train_batch_size, num_sgd_iter, ring, stacks) in runs {
        let mut config = filled_and_drained(queue, small(workers));
        config.learner.train_batch_size = train_batch_size;
        config.learner.num_sgd_iter = num_sgd_iter;
        config.learner.minibatch_buffer_size = ring;
        config.learner.num_multi_gpu_tower_stacks = stacks;
        let run = without_hanging("books by turns", move || {
            let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
            for result in trainer.by_ref().take(30) {
                let result = result.unwrap();
                assert!(result.ledger_closed(), "{workers} workers, a queue of {queue}: {result}");
            }
            trainer.finish().unwrap()
        });
        assert!(run.ledger_closed() && run.not_joined.is_empty(), "{:?} {:?}", run.steps, run.thread_times);
        assert!(run.steps.trained_once.env > 0);
    }
}

#[test]
fn it_goes_on_while_environments_die() {
    let run = without_hanging("failures by turns", || {
        let mut config = filled_and_drained(3, small(3));
        config.supervision.num_consecutive_worker_failures_tolerance = 1_000;
        config.supervision.worker_restart_backoff_max = Duration::from_millis(1);
        // How often they die until the run has its iterations depends on how busy the machine is.
        config.supervision.max_num_worker_restarts = 1_000_000;
        let make = |_: &EnvContext| Faulty::new(Fault::Panic, 6);
        Trainer::new(config, make).unwrap().run(iterations(100)).unwrap()
    });
    assert!(run.ledger_closed() && run.not_joined.is_empty(), "{:?}", run.steps);
    assert!(run.steps.lost.keys().any(|cause| &**cause == "env_panic"));
}

#[test]
fn what_cannot_work_with_the_gate_is_refused_with_the_reason() {
    let mut batch_of_three = small(2);
    batch_of_three.learner.train_batch_size = 33;
    let cases = [
        (filled_and_drained(2, small(0)), "inqueue_gate", "without threads"),
        (filled_and_drained(2, batch_of_three.clone()), "learner_queue_size", "set at least 3"),
    ];
    are_refused(cases);
    assert_eq!(filled_and_drained(3, batch_of_three).check(), Ok(()));
}
