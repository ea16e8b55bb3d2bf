//! Under deterministic admission, runs that normalise repeat too: the moments travel with the fragments.

use pronk::config::{Admission, ObservationFilter};
use pronk::envs::Pendulum;
use pronk::prelude::*;
use pronk::{AlgorithmConfig, AppoConfig, Gather, PpoConfig};

use crate::fixtures::{iterations, only, small, with};

/// Pendulum with both normalised: three fragments make a train batch, two passes are made over each.
fn normalized(workers: usize, lag: usize, algorithm: impl Into<AlgorithmConfig>) -> TrainerConfig {
    let mut config = small(workers);
    config.algorithm = algorithm.into();
    config.workers.observation_filter = ObservationFilter::MeanStdFilter;
    config.workers.normalize_rewards = true;
    config.learner.admission = Admission::Deterministic { lag };
    config.learner.learner_queue_size = None;
    config.learner.train_batch_size = 48;
    config.learner.num_sgd_iter = 2;
    config.results.min_sample_timesteps_per_iteration = 96;
    config
}

/// The bits of the weights and the moments that a run ends with.
fn trained(config: TrainerConfig) -> (Vec<u32>, pronk::metrics::NormalizerMoments) {
    let n_envs = config.workers.num_rollout_workers.max(1) * config.workers.num_envs_per_worker;
    let run = Trainer::new(config, |_: &EnvContext| Pendulum::new()).unwrap().run(iterations(20)).unwrap();
    let checkpoint = only(&run);
    // What was trained on was merged, once: the first observations, and one for each step.
    let seen = checkpoint.normalizer.observations.as_ref().unwrap().count();
    assert_eq!(seen, run.steps.trained_once.env + n_envs as u64);
    let returns = checkpoint.normalizer.returns.as_ref().unwrap().count();
    assert_eq!(returns, run.steps.trained_once.env);
    (checkpoint.state.params.values().iter().map(|value| value.to_bits()).collect(), checkpoint.normalizer)
}

#[test]
fn the_same_run_twice_has_the_same_weights_and_moments() {
    for workers in [2, 4] {
        for lag in [0, 2] {
            let appo = || normalized(workers, lag, AppoConfig::default());
            assert!(trained(appo()) == trained(appo()), "appo with {workers} workers, lag {lag}");
            let ppo = || normalized(workers, lag, PpoConfig::default());
            assert!(trained(ppo()) == trained(ppo()), "ppo with {workers} workers, lag {lag}");
        }
    }
    let raw = with(normalized(2, 0, AppoConfig::default()), |config| config.seed = 1);
    assert!(trained(raw) != trained(normalized(2, 0, AppoConfig::default())), "another seed differs");
}

#[test]
fn groups_of_environments_repeat_too() {
    for gather in [Gather::All, Gather::InTurn] {
        let groups = || {
            with(normalized(2, 1, AppoConfig::default()), |config| {
                config.workers.num_envs_per_worker = 4;
                config.workers.num_env_groups = 2;
                config.workers.gather = gather;
                config.learner.train_batch_size = 96;
            })
        };
        assert!(trained(groups()) == trained(groups()), "{gather:?}");
    }
}

#[test]
fn one_worker_without_lag_is_the_run_without_threads() {
    let [appo, ppo] = [AppoConfig::default().into(), PpoConfig::default().into()];
    for algorithm in [appo, ppo] {
        let with_workers = |workers| trained(normalized(workers, 0, AlgorithmConfig::clone(&algorithm)));
        assert!(with_workers(1) == with_workers(0), "{algorithm:?}");
    }
}
