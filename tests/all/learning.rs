//! Learning is proven by learning.

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{Activation, ModelConfig, Schedule};

use crate::fixtures::without_hanging;

/// The settings of the `cartpole` example.
fn config(seed: u64, workers: usize) -> TrainerConfig {
    TrainerConfig {
        seed,
        num_rollout_workers: workers,
        num_envs_per_worker: 32,
        rollout_fragment_length: 20,
        train_batch_size: 640,
        learner_queue_size: 1,
        // Falls as the policy gets good: at full speed it would now and then throw a solved policy away.
        lr_schedule: Some(Schedule::piecewise_linear([(0.0, 0.001), (5_000_000.0, 0.000_02)]).unwrap()),
        model: ModelConfig {
            fcnet_hiddens: vec![64, 64],
            fcnet_activation: Activation::Relu,
            ..ModelConfig::default()
        },
        min_time_s_per_iteration: 0.1,
        ..TrainerConfig::default()
    }
}

#[test]
fn cartpole_is_solved_with_and_without_threads() {
    for (seed, workers) in [(1, 1), (2, 2), (3, 0)] {
        let run = without_hanging("learning", move || {
            let trainer = Trainer::new(config(seed, workers), |_: &EnvContext| CartPole::new()).unwrap();
            let stop =
                StopWhen { episode_return_mean: Some(475.0), env_steps: Some(10_000_000), ..StopWhen::default() };
            trainer.run(stop).unwrap()
        });
        println!("{workers} workers: {}", run.summary());
        assert!(run.reached(), "seed {seed}, {workers} workers: {}", run.summary());
        assert!(run.ledger_closed());
    }
}
