//! Atari games and games of several agents, in processes of their own.

use pronk::env_process::{AtariVector, Gymnasium};
use pronk::policy::ObsDtype;
use pronk::prelude::*;
use pronk::rollout::{CallMonitor, MultiAgentFactory};
use pronk::{MultiAgentConfig, PolicyMapping, Space, check_env, check_multi_agent_env};
use serde_json::json;

use super::{Stepped, object, pettingzoo, python, quiet};
use crate::fixtures::{iterations, small, without_hanging};

fn pong() -> Gymnasium {
    Gymnasium { python: python(), ..Gymnasium::atari("Pong") }
}

/// A digest of what is seen in so many steps.
fn seen(stepped: &mut Stepped, steps: u32) -> Vec<u64> {
    let n = stepped.ends.len() as u32;
    let mut seen = Vec::new();
    for t in 0..steps {
        let actions: Vec<u32> = (0..n).map(|env| (t / 7 + env) % 6).collect();
        stepped.step(ActionRef::Discrete(&actions)).unwrap();
        let pronk::buffer::ObsView::U8(obs) = stepped.obs.view() else { panic!("observations are floats") };
        let digest = obs.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        seen.push(digest);
    }
    seen
}

#[test]
fn atari_is_preprocessed_as_in_the_literature_and_reproducible() {
    let envs = quiet(pong());
    let mut stepped = Stepped::reset(&envs, 2).unwrap();
    let spec = stepped.envs.spec().clone();
    assert_eq!((spec.name.as_str(), &spec.action), ("ALE/Pong-v5", &Space::discrete(6).unwrap()));
    assert_eq!(spec.observation, Space::bytes(vec![4, 84, 84]).unwrap());
    let first = seen(&mut stepped, 60);
    assert!(first.windows(2).any(|pair| pair[0] != pair[1]), "something moves");
    assert_eq!(first, seen(&mut Stepped::reset(&envs, 2).unwrap(), 60));
}

#[test]
fn an_atari_game_keeps_the_rules_whatever_was_played_before() {
    // Cut off early, as whole games take minutes.
    let envs = quiet(Gymnasium { max_episode_steps: Some(240), ..pong() });
    check_env(envs.env().unwrap(), 1).unwrap();
}

/// Steps a game of Gymnasium itself, without pronk, from the lower 31 bits of seeds, and prints the sum of
/// all pixels after each step.
const GYMNASIUM_ALONE: &str = "
import sys, ale_py, gymnasium
gymnasium.register_envs(ale_py)
env = gymnasium.make('ALE/Seaquest-v5', frameskip=1, repeat_action_probability=0.0)
env = gymnasium.wrappers.FrameStackObservation(gymnasium.wrappers.AtariPreprocessing(env), 4)
for seed in map(int, sys.argv[1:]):
    print('sum', int(env.reset(seed=seed % 2**31)[0].sum(dtype='u8')))
    for t in range(40):
        print('sum', int(env.step(t // 7 % 6)[0].sum(dtype='u8')))
";

#[test]
fn an_episode_of_a_seed_is_the_one_that_gymnasium_gives() {
    let seeds = [7, 123_456_789_012_345, 0, 7];
    let alone = std::process::Command::new(python())
        .args(["-c", GYMNASIUM_ALONE])
        .args(seeds.map(|seed| seed.to_string()))
        .output()
        .unwrap();
    let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
    let theirs: Vec<u64> = alone.lines().filter_map(|line| line.strip_prefix("sum ")?.parse().ok()).collect();
    assert_eq!(theirs.len(), 4 * 41, "{alone}");

    let mut env = quiet(Gymnasium { python: python(), ..Gymnasium::atari("Seaquest") }).env().unwrap();
    let mut pixels = vec![0; 4 * 84 * 84];
    let sum = |pixels: &[u8]| pixels.iter().map(|pixel| u64::from(*pixel)).sum::<u64>();
    let mut ours = Vec::new();
    for seed in seeds {
        env.reset(seed, ObsMut::U8(&mut pixels)).unwrap();
        ours.push(sum(&pixels));
        for t in 0..40 {
            env.step(ActionRef::Discrete(&[t / 7 % 6]), ObsMut::U8(&mut pixels)).unwrap();
            ours.push(sum(&pixels));
        }
    }
    assert_eq!(ours, theirs);
}

#[test]
fn simulators_of_physics_keep_the_rules() {
    for id in ["LunarLander-v3", "InvertedPendulum-v5"] {
        let envs = quiet(Gymnasium { python: python(), max_episode_steps: Some(100), ..Gymnasium::new(id) });
        let checked = check_env(envs.env().unwrap(), 1);
        assert!(checked.is_ok(), "{id}: {}", checked.unwrap_err());
    }
}

#[test]
fn the_vectoriser_of_ale_makes_the_same_run_again() {
    let vectoriser = |kwargs| {
        let env = AtariVector { python: python(), kwargs: object(kwargs), ..AtariVector::new("pong") };
        let mut stepped = Stepped::reset(&quiet(env), 3).unwrap();
        let spec = stepped.envs.spec().clone();
        assert_eq!((spec.observation.obs_dtype(), spec.observation.obs_len()), (ObsDtype::U8, 4 * 84 * 84));
        assert_eq!(spec.action, Space::discrete(6).unwrap());
        seen(&mut stepped, 80)
    };
    // Games of at most 25 steps, so that some end in both ways to begin anew.
    let limits = json!({ "max_num_frames_per_episode": 100 });
    assert_eq!(vectoriser(limits.clone()), vectoriser(limits.clone()));
    let mut with_seeds = object(limits);
    with_seeds.insert("autoreset_mode".into(), json!("Disabled"));
    let with_seeds = json!(with_seeds);
    assert_eq!(vectoriser(with_seeds.clone()), vectoriser(with_seeds));
}

#[test]
fn agents_of_a_parallel_environment_keep_the_rules() {
    let context = EnvContext { worker: 1, seed: 1, ..EnvContext::default() };
    for kwargs in [json!({}), json!({ "lasts": true })] {
        let mut envs = pettingzoo("pronk_test_parallel", kwargs.clone());
        if kwargs != json!({}) {
            envs.program.config["max_episode_steps"] = json!(9);
        }
        let env = envs.make(&context, &CallMonitor::new()).unwrap();
        let spec = env.spec();
        let names: Vec<_> = spec.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["runner", "chaser"]);
        assert_eq!(spec.agents[0].action, Space::discrete(3).unwrap());
        assert_eq!(spec.agents[1].observation, Space::bytes(vec![2, 2]).unwrap());
        check_multi_agent_env(env, 1).unwrap();
    }
}

#[test]
fn agents_see_images_with_their_channels_first() {
    let context = EnvContext { worker: 1, seed: 1, ..EnvContext::default() };
    let envs = pettingzoo("pronk_test_parallel", json!({ "camera": true }));
    let env = envs.make(&context, &CallMonitor::new()).unwrap();
    assert_eq!(env.spec().agents[0].observation, Space::bytes(vec![3, 6, 5]).unwrap());
    check_multi_agent_env(env, 1).unwrap();
}

#[test]
fn agents_with_masks_keep_the_rules() {
    let context = EnvContext { worker: 1, seed: 1, ..EnvContext::default() };
    for place in ["observation", "info"] {
        let mut envs = pettingzoo("pronk_test_parallel", json!({ "mask": place }));
        envs.program.config["action_mask"] = json!(true);
        let env = envs.make(&context, &CallMonitor::new()).unwrap();
        assert!(env.spec().agents.iter().all(|agent| agent.action_mask), "{place}");
        check_multi_agent_env(env, 1).unwrap();
    }
}

#[test]
fn an_agent_that_is_cut_off_unseen_is_an_error() {
    let context = EnvContext { worker: 1, seed: 1, ..EnvContext::default() };
    let env = pettingzoo("pronk_test_parallel", json!({ "blind": true })).make(&context, &CallMonitor::new()).unwrap();
    let text = check_multi_agent_env(env, 1).unwrap_err().to_string();
    assert!(text.contains("agent chaser") && text.contains("who is truncated needs an observation"), "{text}");
}

#[test]
fn what_agents_earn_and_how_they_end_reaches_the_run() {
    let agents = || MultiAgentConfig::separate([("runner", "runner"), ("chaser", "chaser")]);
    let envs = pettingzoo("pronk_test_parallel", json!({}));
    without_hanging("a run of two agents", move || {
        let run =
            Trainer::builder(small(1)).multi_agent_env(envs, agents()).build().unwrap().run(iterations(40)).unwrap();
        assert!(run.ledger_closed(), "{:?}", run.steps);
        // The runner earns 1, 2, 3, 4 and is caught; the chaser pays a quarter of the step for six steps.
        let mean = |policy: &str| run.result.policy_returns[policy].mean();
        assert_eq!((mean("runner"), mean("chaser")), (10.0, -5.25));
        assert_eq!(run.result.episode_len_mean, Some(6.0));
    });
}

#[test]
fn a_game_of_pettingzoo_runs_with_one_policy_for_all_agents() {
    let envs = pettingzoo("mpe2.simple_spread_v3", json!({ "N": 3 }));
    without_hanging("a run of three agents", move || {
        let team =
            MultiAgentConfig { policy_mapping: PolicyMapping::shared("team"), ..MultiAgentConfig::shared("team") };
        let run = Trainer::builder(small(1)).multi_agent_env(envs, team).build().unwrap().run(iterations(10)).unwrap();
        assert!(run.ledger_closed(), "{:?}", run.steps);
        assert_eq!(run.steps.sampled.agent, 3 * run.steps.sampled.env);
    });
}
