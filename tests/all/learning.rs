//! Learning is proven by learning.

use std::num::NonZeroUsize;

use pronk::config::{InferencePlacement, ModelConfig, ObservationFilter};
use pronk::envs::{CartPole, Masked, MountainCarContinuous, Pendulum, Recall};
use pronk::learner::InitialState;
use pronk::policy::Torso;
use pronk::prelude::*;
use pronk::{AlgorithmConfig, AppoConfig, EnvFactory, Gather, ImpalaConfig, PpoConfig, Run, Schedule};

use crate::cartpole;
use crate::fixtures::{only, without_hanging};

/// Much as the `cartpole` example: many env-steps a second.
pub(crate) fn config(seed: u64, workers: usize) -> TrainerConfig {
    let mut config = TrainerConfig { seed, ..cartpole::config(workers, 32) };
    // Falls as the policy gets good: at full speed it would now and then throw a solved policy away.
    config.learner.lr_schedule = Some(Schedule::piecewise_linear([(0.0, 0.001), (5_000_000.0, 0.000_02)]).unwrap());
    config
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

#[test]
fn cartpole_is_solved_by_environments_on_threads_of_their_own_whatever_the_rule() {
    let four = NonZeroUsize::new(4).unwrap();
    for (seed, num_env_groups, gather) in
        [(1, 2, Gather::InTurn), (2, 4, Gather::All), (3, 8, Gather::AtLeast(four)), (4, 8, Gather::Adaptive)]
    {
        let run = without_hanging("learning", move || {
            let mut config = config(seed, 1);
            config.workers.num_env_groups = num_env_groups;
            config.workers.gather = gather;
            let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
            let stop =
                StopWhen { episode_return_mean: Some(475.0), env_steps: Some(10_000_000), ..StopWhen::default() };
            trainer.run(stop).unwrap()
        });
        println!("{num_env_groups} groups, {gather:?}: {}", run.summary());
        assert!(run.reached(), "seed {seed}, {gather:?}: {}", run.summary());
        assert!(run.ledger_closed() && run.not_joined.is_empty());
        let of_groups = run.thread_times.iter().filter(|time| time.thread.starts_with("rollout-1-envs-"));
        assert_eq!(of_groups.count(), num_env_groups);
    }
}

#[test]
fn cartpole_is_solved_with_one_thread_that_infers_for_all_workers() {
    let run = without_hanging("learning", move || {
        let inference = InferencePlacement::Shared;
        let mut config = config(1, 4);
        config.workers.inference = inference;
        config.workers.num_envs_per_worker = 16;
        let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
        let stop = StopWhen { episode_return_mean: Some(475.0), env_steps: Some(10_000_000), ..StopWhen::default() };
        trainer.run(stop).unwrap()
    });
    println!("shared inference: {}", run.summary());
    assert!(run.reached(), "{}", run.summary());
    assert!(run.ledger_closed() && run.not_joined.is_empty());
    assert!(run.thread_times.iter().any(|time| time.thread == "inference"));
}

/// The settings of the `classic_control` example where batches are used many times.
fn many_passes(algorithm: AlgorithmConfig, seed: u64, workers: usize) -> TrainerConfig {
    let mut config = TrainerConfig { seed, algorithm, ..TrainerConfig::default() };
    config.workers.num_rollout_workers = workers;
    config.workers.num_envs_per_worker = 16;
    config.workers.rollout_fragment_length = 64;
    config.learner.train_batch_size = 1024;
    config.learner.num_sgd_iter = 10;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.lr = 0.001;
    config.learner.grad_clip = Some(0.5);
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.torso = Torso::Separate;
    config.results.min_time_s_per_iteration = 0.1;
    config
}

fn ppo(gamma: f64) -> AlgorithmConfig {
    PpoConfig { gamma, lambda: 0.95, clip_param: 0.2, vf_clip_param: None, kl_coeff: 0.0, ..PpoConfig::default() }
        .into()
}

/// Runs until the mean return over 100 episodes is `goal`.
fn learns(what: &str, config: TrainerConfig, env: impl EnvFactory + 'static, goal: f64, most_env_steps: u64) -> Run {
    let run = without_hanging("learning", move || {
        let stop = StopWhen { episode_return_mean: Some(goal), env_steps: Some(most_env_steps), ..StopWhen::default() };
        Trainer::new(config, env).unwrap().run(stop).unwrap()
    });
    println!("{what}: {}", run.summary());
    assert!(run.reached(), "{what}: {}", run.summary());
    assert!(run.ledger_closed(), "{what}");
    run
}

#[test]
fn cartpole_is_solved_by_ppo_and_by_appo() {
    let make = |_: &EnvContext| CartPole::new();
    for seed in [1, 2] {
        learns("ppo", many_passes(ppo(0.98), seed, 0), make, 475.0, 1_000_000);
        let appo = AppoConfig { gamma: 0.98, entropy_coeff: Schedule::Constant(0.0), ..AppoConfig::default() };
        let mut config = many_passes(appo.into(), seed, 1);
        config.learner.num_sgd_iter = 1;
        config.learner.grad_clip = Some(40.0);
        config.learner.sgd_minibatch_size = None;
        learns("appo", config, make, 475.0, 5_000_000);
    }
}

#[test]
fn actions_that_are_numbers_are_learned_in_the_bounds_of_the_environment() {
    // Doing nothing, or anything, earns about -1200; swinging up and staying there -150.
    let make = |_: &EnvContext| Pendulum::new();
    learns("ppo", many_passes(ppo(0.95), 4, 0), make, -500.0, 2_000_000);
}

#[test]
fn actions_that_are_numbers_are_learned_from_old_data_by_appo_with_vtrace() {
    let make = |_: &EnvContext| Pendulum::new();
    let appo = AppoConfig {
        gamma: 0.95,
        vtrace_lambda: 0.95,
        clip_param: 0.2,
        entropy_coeff: Schedule::Constant(0.0),
        standardize_advantages: true,
        ..AppoConfig::default()
    };
    let run = learns("appo", many_passes(appo.into(), 1, 2), make, -300.0, 2_000_000);
    // On a busy machine the last iteration may have trained on nothing: it has no lag then.
    assert!(run.result.policy_lag.mean() != Some(0.0), "two workers act while the learner learns");
}

#[test]
fn a_goal_that_chance_hardly_finds_is_learned_on_one_scale_and_with_a_far_horizon() {
    // At first one episode in a hundred gets out of the valley. Without scales, or with a nearer horizon,
    // standing still is learned before that, which earns 0.
    for seed in [1, 2] {
        let mut config = many_passes(ppo(0.999), seed, 0);
        config.workers.observation_filter = ObservationFilter::MeanStdFilter;
        config.workers.normalize_rewards = true;
        learns("ppo", config, |_: &EnvContext| MountainCarContinuous::new(), 90.0, 200_000);
    }
}

#[test]
fn what_a_mask_rules_out_is_never_taken_and_the_best_of_the_rest_is_learned() {
    // The environment fails on an impossible action, and a failure would be counted.
    let make = |_: &EnvContext| Masked::new(6, 20);
    let impala = ImpalaConfig { gamma: 0.5, ..ImpalaConfig::default() }.into();
    let appo = AppoConfig { gamma: 0.5, use_kl_loss: true, kl_coeff: 0.1, ..AppoConfig::default() }.into();
    for (what, algorithm) in [("impala", impala), ("appo", appo), ("ppo", ppo(0.5))] {
        let mut config = many_passes(algorithm, 0, 1);
        config.learner.num_sgd_iter = 2;
        let run = learns(what, config, make, 19.0, 3_000_000);
        let failures = run.result.dict.get("workers.restarts").and_then(|n| n.as_u64());
        assert_eq!(failures, Some(0), "{what}");
    }
}

#[test]
fn replayed_fragments_are_passes_and_no_new_steps() {
    // What is replayed is old by design, so a limit of lag does not drop it.
    for max_lag in [None, Some(0)] {
        let impala = ImpalaConfig::default().into();
        let mut config = many_passes(impala, 0, 0);
        config.learner.num_sgd_iter = 1;
        config.learner.replay_proportion = 1.0;
        config.learner.replay_buffer_num_slots = 8;
        config.learner.max_lag = max_lag;
        let run = learns("impala with replay", config, |_: &EnvContext| CartPole::new(), 60.0, 3_000_000);
        let steps = &run.result.steps;
        let share = steps.trained_passes.env as f64 / steps.trained_once.env as f64;
        assert!((1.7..2.3).contains(&share), "{steps:?}");
        assert!(steps.trained_once.env <= steps.sampled.env && !steps.dropped.contains_key("too_old"), "{steps:?}");
        // The time of schedules is that of new data.
        assert_eq!(only(&run).state.global_step, steps.trained_once.env);
    }
}

#[test]
fn a_checkpoint_goes_on_with_its_own_algorithm_only() {
    let make = |_: &EnvContext| CartPole::new();
    // A target network that stays as the first weights were.
    let target_update_frequency = std::num::NonZeroU64::new(1_000_000);
    let appo = || AppoConfig { use_kl_loss: true, target_update_frequency, ..AppoConfig::default() }.into();
    let run = learns("appo", many_passes(appo(), 0, 0), make, 20.0, 100_000);
    let checkpoint = only(&run);
    let target = checkpoint.state.algorithm.target.as_ref().unwrap();
    assert_ne!(target.params.values(), checkpoint.state.params.values());
    let refused =
        Trainer::builder(many_passes(ppo(0.98), 0, 0)).env(make).resume(&checkpoint).build().map(drop).unwrap_err();
    assert!(refused.to_string().contains("algorithm"), "{refused}");

    let resumed = Trainer::builder(many_passes(appo(), 0, 0)).env(make).resume(&checkpoint).build().unwrap();
    let again = only(&resumed.finish().unwrap()).state.algorithm;
    assert_eq!(again.numbers, checkpoint.state.algorithm.numbers);
    assert_eq!(again.target.unwrap().params.values(), target.params.values());
}

#[test]
fn only_a_network_with_memory_recalls_what_it_saw() {
    let run = |use_lstm: bool, burn_in: usize, algorithm: AlgorithmConfig| {
        let config = many_passes(algorithm, 0, 0);
        let model = ModelConfig {
            fcnet_hiddens: vec![32],
            torso: Torso::Shared,
            use_lstm,
            lstm_cell_size: 32,
            // What is burnt in needs no memory from before.
            initial_state: if burn_in > 0 { InitialState::Zero } else { InitialState::Stored },
            burn_in,
            ..ModelConfig::default()
        };
        let mut config = TrainerConfig { model, ..config };
        config.learner.num_sgd_iter = 4;
        config.learner.lr = 0.003;
        without_hanging("recall", move || {
            let stop = StopWhen { episode_return_mean: Some(0.9), env_steps: Some(400_000), ..StopWhen::default() };
            Trainer::new(config, |_: &EnvContext| Recall::new(6)).unwrap().run(stop).unwrap()
        })
    };
    let impala = || ImpalaConfig { gamma: 0.98, ..ImpalaConfig::default() }.into();
    for (what, burn_in, algorithm) in [("ppo", 0, ppo(0.98)), ("impala", 0, impala()), ("burnt-in ppo", 8, ppo(0.98))] {
        let run = run(true, burn_in, algorithm);
        println!("{what} with memory: {}", run.summary());
        assert!(run.reached() && run.ledger_closed(), "{what}: {}", run.summary());
    }
    // Whatever it does, half its answers are wrong.
    let without = run(false, 0, ppo(0.98));
    assert!(!without.reached(), "{}", without.summary());
    let best = without.result.episode_return_mean.unwrap();
    assert!(best < 0.5, "{best}");
}
