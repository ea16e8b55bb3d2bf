//! Environments with habits: of older interfaces, of global random numbers, of other kinds of agents.

use std::collections::BTreeSet;

use pronk::env_process::{AtariVector, Gymnasium, ProcessEnvs};
use pronk::prelude::*;
use pronk::rollout::{CallMonitor, MultiAgentFactory, VectorContext};
use pronk::{EnvFactory, MultiAgentConfig, check_env, check_env_twice, check_multi_agent_env};
use serde_json::{Value, json};

use super::{Stepped, gymnasium, object, pettingzoo, python, quiet};
use crate::fixtures::small;

fn habit(habit: &str) -> ProcessEnvs {
    gymnasium("pronk_test_envs:Habits-v0", json!({ "habit": habit }))
}

/// What a run says that cannot be begun, or environments that fail within four steps.
fn complaint(envs: &ProcessEnvs) -> String {
    let stepped = Stepped::reset(envs, 1);
    let failed = stepped.and_then(|mut stepped| (0..4).try_for_each(|_| stepped.step(ActionRef::Discrete(&[0]))));
    failed.expect_err("nothing is wrong").to_string()
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[test]
fn what_an_older_interface_gives_is_named_with_what_is_expected() {
    let five = "expected five values: (observation, reward, terminated, truncated, info)";
    let cases: [(&str, &[&str]); 5] = [
        ("four", &["at step 1", "`step` gave 4 values: (ndarray of shape (3,), float, bool, dict)", five, "0.26"]),
        ("alone", &["in reset", "`reset` gave ndarray of shape (3,), expected two values: (observation, info)"]),
        ("text", &["at step 1", "`step` gave str as the reward, expected a number"]),
        ("dones", &["`step` gave dict as `truncated`, expected True or False"]),
        ("cut_unseen", &["at step 3", "observation is None, expected (3,)"]),
    ];
    for (name, words) in cases {
        says(&complaint(&habit(name)), words);
    }
    let seedless = gymnasium("pronk_test_envs:Seedless-v0", json!({}));
    let words =
        ["`reset` of Seedless does not take `seed` and `options`", "def reset(self, *, seed=None, options=None)"];
    says(&complaint(&seedless), &words);
}

#[test]
fn what_can_be_understood_is_no_failure() {
    for name in ["array", "list", "unseen", "bits", "fps", "forks"] {
        check_env(habit(name).env().unwrap(), u64::MAX).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut stepped = Stepped::reset(&habit(name), 2).unwrap();
        for step in 1..=6 {
            stepped.step(ActionRef::Discrete(&[0, 0])).unwrap();
            assert_eq!(stepped.rewards, [1.0, 1.0], "{name}");
            let end = if step % 3 == 0 { End::Terminated } else { End::No };
            assert_eq!(stepped.ends, [end; 2], "{name}");
        }
    }
}

#[test]
fn frames_whose_rate_is_a_text_are_drawn_at_that_rate() {
    let context = VectorContext { worker: 1, seed: 3, ..VectorContext::default() };
    let mut envs = habit("fps").make_vector_to_render(&context, 1, &CallMonitor::new()).unwrap();
    envs.reset_all(ObsMut::F32(&mut [0.0; 3])).unwrap();
    assert_eq!(envs.render(0).unwrap().map(|frame| frame.fps()), Some(30));
}

#[test]
fn a_reset_that_fails_is_not_tried_with_another_seed() {
    says(&complaint(&habit("joint")), &["in reset", "ValueError: the joint is stuck"]);
}

#[test]
fn what_comes_from_global_generators_repeats_and_differs_between_workers() {
    let envs = ProcessEnvs { envs_per_process: 2, ..habit("global") };
    let seen = |worker: u32, incarnation: u32| {
        let context = VectorContext { worker, incarnation, seed: 3, ..VectorContext::default() };
        let made = envs.make_vector(&context, 4, &CallMonitor::new()).unwrap();
        let mut stepped = Stepped::of(made).unwrap();
        let mut seen = vec![stepped.floats().to_vec()];
        for _ in 0..8 {
            stepped.step(ActionRef::Discrete(&[0; 4])).unwrap();
            seen.push(stepped.floats().to_vec());
        }
        seen
    };
    let first = seen(1, 0);
    assert_eq!(first, seen(1, 0));
    // What is drawn at the construction is another number in each environment, and in each incarnation of it.
    let drawn = |seen: &[Vec<f32>]| seen[0].iter().step_by(3).map(|number| number.to_bits()).collect::<BTreeSet<_>>();
    let all: BTreeSet<u32> = [first, seen(2, 0), seen(1, 1)].iter().flat_map(|seen| drawn(seen)).collect();
    assert_eq!(all.len(), 12);
    // An episode is that of its seed, whatever was played before.
    check_env_twice(|_: &EnvContext| envs.env().map_err(EnvError::new), 3).unwrap();
}

#[test]
fn a_mask_in_the_observation_is_told_where_it_is_read() {
    let spaces = |observation: &str| {
        let mut envs =
            gymnasium("pronk_test_envs:Spaces-v0", json!({ "observation": observation, "action": "discrete" }));
        envs.program.config["action_mask"] = json!(true);
        envs
    };
    let advice = "the mask is read from `info[\"action_mask\"]` of every reset and step, not from the observation";
    says(&complaint(&spaces("with_mask")), &["in reset", "there is no `action_mask`", advice]);
    says(&complaint(&spaces("with_text_mask")), &["observation['action_mask'] is Text", advice]);
}

fn refused(module: &str) -> String {
    let team = MultiAgentConfig::shared("team");
    let built = Trainer::builder(small(1)).multi_agent_env(pettingzoo(module, json!({})), team).build();
    built.err().unwrap().to_string()
}

#[test]
fn what_is_no_parallel_environment_is_named_with_what_to_do() {
    let aec = ["an AEC environment, in which agents take turns", "aec_to_parallel", "def parallel_env(**kwargs)"];
    says(&refused("pronk_test_aec"), &aec);
    says(&refused("pronk_test_aec:Heap"), &["Heap is not parallel"]);
    says(&refused("pronk_test_aec:Heap"), &aec);
    says(
        &refused("pronk_test_class"),
        &["no function `parallel_env`", "return Game(**kwargs)", "as in `pronk_test_class:Game`"],
    );
    says(&refused("pronk_test_envs:Spaces"), &["what was made is Spaces, which has no `possible_agents`"]);
    says(&refused("json"), &["no function `parallel_env`", "which returns a `ParallelEnv`"]);
}

fn agents(module: &str, kwargs: Value, limit: Option<u32>) -> ProcessEnvs {
    let has_mask = kwargs.get("mask").is_some();
    let mut envs = pettingzoo(module, kwargs);
    envs.program.config["max_episode_steps"] = json!(limit);
    envs.program.config["action_mask"] = json!(has_mask);
    envs
}

#[test]
fn agents_that_take_no_part_or_leave_unsaid_keep_no_episode_from_its_end() {
    let context = EnvContext { worker: 1, seed: 1, ..EnvContext::default() };
    let kinds = [
        (json!({}), Some(9)),
        (json!({ "absent": true }), None),
        (json!({ "absent": true }), Some(3)),
        (json!({ "absent": true, "lasts": true }), Some(9)),
        (json!({ "unseen": true }), None),
        (json!({ "unseen": true, "mask": "observation" }), None),
        (json!({ "leaves": true }), None),
        (json!({ "leaves": true, "absent": true }), Some(5)),
    ];
    for (kwargs, limit) in kinds {
        let env = agents("pronk_test_class:Game", kwargs.clone(), limit).make(&context, &CallMonitor::new()).unwrap();
        check_multi_agent_env(env, 1).unwrap_or_else(|error| panic!("{kwargs}, {limit:?}: {error}"));
    }
}

#[test]
fn a_run_with_an_agent_that_takes_no_part_counts_whole_episodes() {
    let policies = || MultiAgentConfig::separate([("runner", "runner"), ("chaser", "chaser"), ("ghost", "runner")]);
    let envs = agents("pronk_test_parallel", json!({ "absent": true }), None);
    let stop = crate::fixtures::iterations(20);
    let run = Trainer::builder(small(1)).multi_agent_env(envs, policies()).build().unwrap().run(stop).unwrap();
    assert!(run.ledger_closed(), "{:?}", run.steps);
    assert_eq!(run.result.policy_returns["runner"].mean(), 10.0);
    assert_eq!(run.result.episode_len_mean, Some(6.0));
}

#[test]
fn a_game_that_there_is_not_is_named_with_what_may_be_meant() {
    let game = |name: &str| {
        let envs = quiet(AtariVector { python: python(), ..AtariVector::new(name) });
        Stepped::reset(&envs, 1).map(|stepped| stepped.envs.spec().name.clone()).map_err(|failure| failure.to_string())
    };
    let id = "this is an id of Gymnasium, and here a game is named alone: `pong`";
    for name in ["PongNoFrameskip-v4", "ALE/Pong-v5", "PongDeterministic-v0", "Pong-ram-v4"] {
        says(&game(name).unwrap_err(), &[id]);
    }
    says(&game("Pnog").unwrap_err(), &["ale-py has no game of this name, did you mean `pong`?"]);
    assert_eq!(game("TicTacToe3D"), Ok("tic_tac_toe_3d".to_owned()));
    assert_eq!(game("Pitfall2"), Ok("pitfall2".to_owned()));
    // Of Gymnasium, an id needs its module.
    let old = quiet(Gymnasium { python: python(), kwargs: object(json!({})), ..Gymnasium::new("PongNoFrameskip-v4") });
    says(&complaint(&old), &["NameNotFound", "their module before a colon"]);
}
