//! The settings for CartPole-v1 that examples, tests and benches share.

use pronk::prelude::*;

/// A small network and one pass over each batch, which is one fragment.
pub(crate) fn config(workers: usize, envs_per_worker: usize) -> TrainerConfig {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = workers;
    config.workers.num_envs_per_worker = envs_per_worker;
    config.workers.rollout_fragment_length = 20;
    config.learner.train_batch_size = 20 * envs_per_worker;
    config.learner.lr = 0.001;
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.fcnet_activation = pronk::Activation::Relu;
    config.results.min_time_s_per_iteration = 0.1;
    config
}
