//! Without threads, the same seed gives the same weights, bit for bit.

use pronk::envs::CartPole;
use pronk::prelude::*;

use crate::fixtures::{Fault, Faulty, iterations, only, small};

fn trained(seed: u64, env: impl pronk::EnvFactory + 'static) -> Vec<u32> {
    let mut config = TrainerConfig { seed, ..small(0) };
    config.learner.num_sgd_iter = 2;
    config.learner.minibatch_buffer_size = 2;
    config.supervision.num_consecutive_worker_failures_tolerance = 1_000;
    let run = Trainer::new(config, env).unwrap().run(iterations(40)).unwrap();
    only(&run).state.params.values().iter().map(|value| value.to_bits()).collect()
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let cartpole = |_: &EnvContext| CartPole::new();
    assert_eq!(trained(7, cartpole), trained(7, cartpole));
    assert_ne!(trained(7, cartpole), trained(8, cartpole));
    assert_ne!(trained(0, cartpole), trained(1, cartpole), "0 is a seed like any other");
}

#[test]
fn failures_are_reproduced_too() {
    let faulty = |_: &EnvContext| Faulty::new(Fault::Error, 5);
    assert_eq!(trained(7, faulty), trained(7, faulty));
}
