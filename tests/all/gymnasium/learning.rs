//! Environments in processes are learned like any other.

use std::num::NonZeroUsize;

use pronk::env_process::ProcessEnvs;
use pronk::policy::Torso;
use pronk::prelude::*;
use pronk::{ActionSelection, PpoConfig, Schedule, evaluate};
use serde_json::json;

use super::gymnasium;
use crate::fixtures::{only, without_hanging};

fn ppo(seed: u64) -> TrainerConfig {
    let mut config = TrainerConfig {
        seed,
        algorithm: PpoConfig {
            gamma: 0.98,
            lambda: 0.95,
            clip_param: 0.2,
            vf_loss_coeff: 0.5,
            vf_clip_param: None,
            kl_coeff: 0.0,
            entropy_coeff: Schedule::Constant(0.0),
            ..PpoConfig::default()
        }
        .into(),
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 8;
    config.workers.rollout_fragment_length = 128;
    config.learner.train_batch_size = 1024;
    config.learner.num_sgd_iter = 10;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.lr = 0.001;
    config.learner.grad_clip = Some(0.5);
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.torso = Torso::Separate;
    config.results.min_time_s_per_iteration = 0.0;
    config
}

#[test]
fn cartpole_of_gymnasium_is_learned() {
    let envs = || ProcessEnvs { envs_per_process: 4, ..gymnasium("CartPole-v1", json!({})) };
    without_hanging("CartPole of Gymnasium", move || {
        let stop = StopWhen { episode_return_mean: Some(475.0), env_steps: Some(400_000), ..StopWhen::default() };
        let run = Trainer::new(ppo(0), envs()).unwrap().run(stop).unwrap();
        println!("CartPole-v1: {} env-steps in {:.1?}", run.steps.sampled.env, run.time);
        assert!(run.reached(), "{:?} after {} env-steps", run.result.episode_return_mean, run.steps.sampled.env);
        // The policy plays as well where it is only looked at.
        let mut policy = only(&run).policy().unwrap();
        let evaluation = evaluate(&mut policy, &mut ActionSelection::Mode, &envs(), 10, 7).unwrap();
        assert!(evaluation.return_mean() > Some(400.0), "{evaluation:?}");
    });
}

#[test]
fn the_same_seed_gives_the_same_weights() {
    let trained = || {
        let envs = ProcessEnvs { envs_per_process: 3, ..gymnasium("CartPole-v1", json!({})) };
        let stop = StopWhen { iterations: Some(3), ..StopWhen::default() };
        let run = Trainer::new(ppo(5), envs).unwrap().run(stop).unwrap();
        only(&run).state.params.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    without_hanging("two runs of one seed", move || {
        assert_eq!(trained(), trained());
    });
}
