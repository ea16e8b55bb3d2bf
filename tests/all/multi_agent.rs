//! Several agents, several policies: whole runs of games.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, mpsc};

use pronk::config::ModelConfig;
use pronk::envs::{Rendezvous, TicTacToe};
use pronk::learner::{Impala, Ppo};
use pronk::policy::{CpuNetwork, Encoder, Gaussian, NetworkSpec, Torso};
use pronk::prelude::*;
use pronk::{
    Activation, Algorithm, ByPolicy, Checkpoint, ImpalaConfig, MultiAgentConfig, PolicyId, PolicyMapping, PpoConfig,
    Run, Schedule, TrainError,
};
use tempfile::TempDir;

use crate::fixtures::{Hooked, iterations, small, without_hanging};

fn game(_: &EnvContext) -> TicTacToe {
    TicTacToe::new()
}

pub(crate) fn config(seed: u64) -> TrainerConfig {
    let mut config = TrainerConfig {
        seed,
        algorithm: PpoConfig {
            gamma: 0.97,
            lambda: 0.95,
            clip_param: 0.2,
            kl_coeff: 0.0,
            vf_clip_param: None,
            entropy_coeff: Schedule::Constant(0.01),
            ..PpoConfig::default()
        }
        .into(),
        ..TrainerConfig::default()
    };
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 32;
    config.workers.rollout_fragment_length = 32;
    config.learner.train_batch_size = 1024;
    config.learner.num_sgd_iter = 6;
    config.learner.sgd_minibatch_size = NonZeroUsize::new(256);
    config.learner.lr = 0.001;
    config.learner.grad_clip = Some(0.5);
    config.model.fcnet_hiddens = vec![64, 64];
    config.model.torso = Torso::Separate;
    config.results.min_time_s_per_iteration = 0.05;
    config
}

fn to_train(policy: &str) -> Option<BTreeSet<pronk::PolicyId>> {
    Some(BTreeSet::from([policy.into()]))
}

/// Agents that meet at once earn 1 each; those who walk at random meet in about half of the episodes.
fn meet(what: &str, agents: MultiAgentConfig) -> Run {
    let stop = StopWhen { episode_return_mean: Some(1.6), env_steps: Some(3_000_000), ..StopWhen::default() };
    let run = without_hanging("a game of meeting", move || {
        let make = |_: &EnvContext| Rendezvous::new();
        Trainer::builder(config(0)).multi_agent_env(make, agents).build().unwrap().run(stop).unwrap()
    });
    println!("{what}: {}", run.summary());
    assert!(run.reached() && run.ledger_closed(), "{what}: {}", run.summary());
    run
}

#[test]
fn two_agents_learn_to_meet_with_one_policy_or_with_two() {
    let shared = meet("shared", MultiAgentConfig::shared("walker"));
    assert_eq!(shared.checkpoints.len(), 1);
    // Both act in every step.
    assert_eq!(shared.steps.sampled.agent, 2 * shared.steps.sampled.env);
    let separate = meet("separate", MultiAgentConfig::separate([("agent_0", "left"), ("agent_1", "right")]));
    assert_eq!(separate.checkpoints.len(), 2);
    for policy in ["left", "right"] {
        assert!(separate.result.learner_info.number(policy, "learner_stats.total_loss").is_some());
        assert!(separate.checkpoints[policy].state.updates > 0);
    }
}

#[test]
fn a_game_against_a_frozen_opponent_is_won() {
    // Crosses against noughts that move at random win two games for each that they lose, without learning
    // anything.
    let agents = MultiAgentConfig {
        policies_to_train: to_train("learner"),
        ..MultiAgentConfig::separate([("x", "learner"), ("o", "opponent")])
    };
    let stop = StopWhen {
        policy_return_mean: Some(("learner".into(), 0.85)),
        env_steps: Some(3_000_000),
        ..StopWhen::default()
    };
    let run = without_hanging("a game of noughts and crosses", move || {
        Trainer::builder(config(1)).multi_agent_env(game, agents).build().unwrap().run(stop).unwrap()
    });
    println!("tic-tac-toe: {}", run.summary());
    assert!(run.reached() && run.ledger_closed(), "{}", run.summary());
    let means = run.result.dict.get("policy_reward_mean").unwrap();
    assert_eq!(
        means["learner"].as_f64(),
        means["opponent"].as_f64().map(|mean| -mean),
        "what one wins the other loses"
    );
    // They take turns: each step has one agent, and what the opponent did is counted and not trained on.
    let steps = &run.steps;
    assert_eq!(steps.sampled.env, steps.sampled.agent);
    let others = steps.dropped["not_trained"];
    assert!(others.env == 0 && others.agent > steps.sampled.agent / 3, "{steps:?}");
    assert_eq!(run.checkpoints.keys().map(|policy| &**policy).collect::<Vec<_>>(), ["learner"]);
    assert!(run.result.dict.get("workers.restarts").and_then(|n| n.as_u64()) == Some(0), "an impossible move was made");
}

#[test]
fn turns_on_threads_and_behind_stacks_are_counted_to_the_last_step() {
    for stacks in [0, 2] {
        let mut config = small(3);
        config.learner.num_multi_gpu_tower_stacks = stacks;
        config.learner.num_sgd_iter = 2;
        let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
        let run = without_hanging("a game on threads", move || {
            Trainer::builder(config).multi_agent_env(game, agents).build().unwrap().run(iterations(30)).unwrap()
        });
        assert!(run.ledger_closed() && run.not_joined.is_empty(), "{:?}", run.steps);
        // In this game an env-step is always one agent's.
        assert_eq!(run.steps.sampled.env, run.steps.sampled.agent);
        assert!(run.steps.trained_once.agent > 0 && run.checkpoints.values().all(|policy| policy.state.updates > 0));
    }
}

/// A short run of both sides.
fn both_sides(stop: u64) -> Run {
    let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    Trainer::builder(small(0)).multi_agent_env(game, agents).build().unwrap().run(iterations(stop)).unwrap()
}

fn weights(checkpoint: &Checkpoint) -> Vec<u32> {
    checkpoint.state.params.values().iter().map(|value| value.to_bits()).collect()
}

#[test]
fn policies_are_saved_apart_and_go_on_or_play_along_as_they_were() {
    let dir = TempDir::new().unwrap();
    let run = both_sides(3);
    assert!(run.ledger_closed(), "{:?}", run.steps);
    assert_eq!(weights(&run.checkpoints["crosses"]), weights(&both_sides(3).checkpoints["crosses"]), "the same seed");
    run.save(dir.path()).unwrap();
    let load = |policy: &str| Checkpoint::load(dir.path().join(policy)).unwrap();
    assert_eq!(weights(&load("noughts")), weights(&run.checkpoints["noughts"]));
    assert!(load("noughts").policy().is_ok());

    // Both go on.
    let separate = || MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    let agents = || {
        let mut agents = separate();
        agents.policies.insert("crosses".into(), Some(load("crosses")));
        agents.policies.insert("noughts".into(), Some(load("noughts")));
        agents
    };
    let updates = run.checkpoints["crosses"].state.updates;
    let on = Trainer::builder(small(0)).multi_agent_env(game, agents()).build().unwrap().run(iterations(3)).unwrap();
    assert!(on.checkpoints["crosses"].state.updates > updates);
    let resumed = Trainer::builder(small(0))
        .multi_agent_env(game, separate())
        .resume(Checkpoint::load_all(dir.path()).unwrap())
        .build()
        .unwrap()
        .run(iterations(3))
        .unwrap();
    assert_eq!(weights(&resumed.checkpoints["noughts"]), weights(&on.checkpoints["noughts"]), "the same in short");

    // One goes on against the other as it was. Against other weights it learns something else.
    let frozen = |agents: MultiAgentConfig| {
        let agents = MultiAgentConfig { policies_to_train: to_train("crosses"), ..agents };
        let run = Trainer::builder(small(0)).multi_agent_env(game, agents).build().unwrap().run(iterations(4)).unwrap();
        assert!(run.ledger_closed() && run.checkpoints.len() == 1);
        weights(&run.checkpoints["crosses"])
    };
    let mut other = agents();
    let mut noughts = load("noughts");
    noughts.state.params.values_mut().iter_mut().for_each(|value| *value *= -30.0);
    other.policies.insert("noughts".into(), Some(noughts));
    assert_eq!(frozen(agents()), frozen(agents()));
    assert_ne!(frozen(agents()), frozen(other));
}

#[test]
fn a_policy_that_is_seldom_played_begins_with_a_checkpoint() {
    let run = both_sides(1);
    let mapping = PolicyMapping::new(|agent, _| if agent == "x" { "crosses".into() } else { "noughts".into() });
    let mut agents = MultiAgentConfig {
        policy_mapping: mapping,
        policies_to_train: to_train("crosses"),
        ..MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")])
    };
    // Nobody plays it, as far as anybody can see beforehand.
    agents.policies.insert("champion".into(), None);
    let refused =
        Trainer::builder(small(0)).multi_agent_env(game, agents.clone()).build().map(drop).unwrap_err().to_string();
    assert!(refused.contains("champion") && refused.contains("checkpoint"), "{refused}");
    agents.policies.insert("champion".into(), run.checkpoints.into_values().next());
    assert!(
        Trainer::builder(small(0))
            .multi_agent_env(game, agents)
            .build()
            .unwrap()
            .run(iterations(1))
            .unwrap()
            .ledger_closed()
    );
}

#[test]
fn numbers_are_acted_with_as_they_were_learned() {
    use pronk::envs::Pendulum;
    let squashed = |gaussian| {
        let config = small(0);
        TrainerConfig { model: ModelConfig { gaussian, ..config.model.clone() }, ..config }
    };
    let make = |_: &EnvContext| Pendulum::new();
    let run = Trainer::new(squashed(Gaussian::Squashed), make).unwrap().run(iterations(1)).unwrap();
    let checkpoint = run.checkpoints.into_values().next().unwrap();
    let refused = Trainer::builder(squashed(Gaussian::Diagonal))
        .env(make)
        .resume(&checkpoint)
        .build()
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("model.gaussian"), "{refused}");
    assert!(Trainer::builder(squashed(Gaussian::Squashed)).env(make).resume(&checkpoint).build().is_ok());
}

#[test]
fn what_cannot_work_with_policies_is_refused_with_the_reason() {
    let pairs = [("x", "crosses"), ("o", "noughts")];
    let cases: [(MultiAgentConfig, &str, &str); 4] = [
        (
            MultiAgentConfig { policies_to_train: to_train("nobody"), ..MultiAgentConfig::separate(pairs) },
            "policies_to_train",
            "no such policy",
        ),
        (
            MultiAgentConfig { policies_to_train: Some(BTreeSet::new()), ..MultiAgentConfig::separate(pairs) },
            "policies_to_train",
            "nothing would be learned",
        ),
        (
            MultiAgentConfig { policy_mapping: PolicyMapping::shared("other"), ..MultiAgentConfig::separate(pairs) },
            "policy_mapping",
            "not in `policies`",
        ),
        (
            MultiAgentConfig { policy_mapping: PolicyMapping::shared("crosses"), ..MultiAgentConfig::separate(pairs) },
            "policies",
            "no agent",
        ),
    ];
    for (agents, field, words) in cases {
        let error = Trainer::builder(small(0)).multi_agent_env(game, agents).build().map(drop).unwrap_err();
        let TrainError::Config(error) = error else { panic!("{error} is not about a setting") };
        assert!(error.field == field && error.reason.contains(words), "{error}");
    }
    for name in ["", "..", "a/b", "batch_count", "default_policy"] {
        let error = Trainer::builder(small(0))
            .multi_agent_env(game, MultiAgentConfig::shared(name))
            .build()
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains("another name"), "{error}");
    }
    let panics = PolicyMapping::new(|agent, _| panic!("who is {agent}?"));
    let agents = MultiAgentConfig { policy_mapping: panics, ..MultiAgentConfig::separate(pairs) };
    let error = Trainer::builder(small(0)).multi_agent_env(game, agents).build().map(drop).unwrap_err().to_string();
    assert!(error.contains("policy_mapping") && error.contains("panics"), "{error}");

    let mut agents = MultiAgentConfig::separate(pairs);
    let cartpole = Trainer::new(small(0), |_: &EnvContext| pronk::envs::CartPole::new()).unwrap();
    let run = cartpole.run(iterations(1)).unwrap();
    agents.policies.insert("noughts".into(), run.checkpoints.into_values().next());
    let error = Trainer::builder(small(0)).multi_agent_env(game, agents).build().map(drop).unwrap_err().to_string();
    assert!(error.contains("noughts") && error.contains("observation space"), "{error}");
}

#[test]
fn every_policy_has_a_network_and_an_algorithm_of_its_own_beside_a_learner_and_goes_on_with_them() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let agents = || MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    let start = || {
        let asked = Arc::clone(&asked);
        Trainer::builder(small(0))
            .multi_agent_env(game, agents())
            .network(|env: &EnvSpec, _| {
                let encoder = Encoder::Mlp { hidden: vec![5], activation: Activation::Relu };
                let spec = NetworkSpec { encoder, ..NetworkSpec::for_spaces(&env.observation, &env.action)? };
                Ok(Box::new(CpuNetwork::new(&spec)?))
            })
            .algorithm(move |policy: &PolicyId| {
                asked.lock().unwrap().push(policy.to_string());
                Ok(match &**policy {
                    "crosses" => Box::new(Ppo::new(PpoConfig::default())?) as Box<dyn Algorithm>,
                    _ => Box::new(Impala::new(ImpalaConfig::default())?),
                })
            })
    };
    let (passes, seen) = mpsc::channel();
    let hook = move |pass| {
        let _ = passes.send(pass);
        Ok(())
    };
    let run = start().learner(move |inner| Ok(Hooked::boxed(inner, hook))).build().unwrap().run(iterations(2)).unwrap();
    assert!(run.ledger_closed() && seen.try_iter().count() > 1);
    assert_eq!(*asked.lock().unwrap(), ["crosses", "noughts"]);
    let (crosses, noughts) = (&run.checkpoints["crosses"], &run.checkpoints["noughts"]);
    assert_eq!((crosses.algorithm.as_str(), noughts.algorithm.as_str()), ("ppo", "impala"));
    assert!(crosses.network.is_none() && noughts.network.is_none(), "the user's own");

    let updates = crosses.state.updates;
    let on = start().resume(run.checkpoints.clone()).build().unwrap().run(iterations(1)).unwrap();
    assert!(on.checkpoints["crosses"].state.updates > updates);
    let swapped = ByPolicy::from([("crosses".into(), noughts.clone()), ("noughts".into(), crosses.clone())]);
    let refused = start().resume(swapped).build().map(drop).unwrap_err().to_string();
    assert!(refused.contains("policy 'crosses'") && refused.contains("algorithm"), "{refused}");
}
