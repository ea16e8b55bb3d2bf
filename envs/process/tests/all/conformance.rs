//! A child in another language makes the very steps that an environment in Rust makes.

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_env_process::ProcessEnvs;
use pronk_policy::{Rng, Space};
use pronk_rollout::{
    ActionRef, CallMonitor, EnvContext, EnvError, EnvFactory, EpisodeStat, MultiAgentFactory, ObsMut, VectorEnv,
    VectorStep, check_env, check_env_twice, check_multi_agent_env, check_multi_agent_env_twice,
};
use serde_json::json;

use crate::corridor::{CONTEXT, Corridor, corridors, liars};

const N_ENVS: usize = 7;

/// All that comes out of so many steps with random actions that are possible.
#[derive(Debug, Default, PartialEq)]
struct Played {
    obs: Vec<[f32; 2 * N_ENVS]>,
    rewards: Vec<[f32; N_ENVS]>,
    ends: Vec<[End; N_ENVS]>,
    masks: Vec<[bool; 2 * N_ENVS]>,
    final_obs: Vec<(usize, usize, Vec<f32>)>,
    episodes: Vec<EpisodeStat>,
}

fn play(mut envs: Box<dyn VectorEnv>, steps: usize) -> Played {
    let mut rng = Rng::seed_from(5);
    let mut played = Played::default();
    let (mut obs, mut masks) = ([f32::NAN; 2 * N_ENVS], [false; 2 * N_ENVS]);
    let mut final_obs = FinalObs::new(ObsKind::F32, 2);
    envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
    played.obs.push(obs);
    for t in 0..steps {
        envs.action_masks(&mut masks).unwrap();
        played.masks.push(masks);
        // To the right three times of four: some episodes reach the door, some their limit.
        let actions: Vec<u32> = masks.chunks(2).map(|mask| u32::from(!mask[0] || rng.below(8) < 5)).collect();
        let (mut rewards, mut ends) = ([0.0; N_ENVS], [End::No; N_ENVS]);
        let step = VectorStep {
            t,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut rewards,
            ends: &mut ends,
            final_obs: &mut final_obs,
        };
        envs.step(ActionRef::Discrete(&actions), step).unwrap();
        played.obs.push(obs);
        played.rewards.push(rewards);
        played.ends.push(ends);
    }
    let row = |(t, env, row): (u32, u32, pronk_buffer::ObsView<'_>)| {
        let pronk_buffer::ObsView::F32(row) = row else { panic!("{row:?}") };
        (t as usize, env as usize, row.to_vec())
    };
    played.final_obs = final_obs.iter().map(row).collect();
    envs.drain_episodes(&mut played.episodes);
    played
}

fn made(factory: &impl EnvFactory) -> Box<dyn VectorEnv> {
    factory.make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap()
}

#[test]
fn a_child_in_c_makes_the_steps_that_the_same_corridor_in_rust_makes() {
    let envs = corridors(json!({}));
    let in_processes = play(made(&envs), 400);
    let in_rust = play(made(&|_: &EnvContext| Corridor::default()), 400);
    let ends = |end: End| in_rust.ends.iter().flatten().filter(|other| **other == end).count();
    assert!(ends(End::Terminated) > 50 && ends(End::Truncated) > 10, "both kinds of ends are to be compared");
    assert_eq!(in_processes, in_rust);
}

#[test]
fn it_does_not_matter_how_environments_are_spread_over_processes() {
    let alone = ProcessEnvs { envs_per_process: 1, ..corridors(json!({})) };
    let together = ProcessEnvs { envs_per_process: 100, ..corridors(json!({})) };
    assert_eq!(play(made(&alone), 100), play(made(&together), 100));
}

#[test]
fn a_child_in_c_keeps_the_rules_of_an_environment() {
    let envs = corridors(json!({ "length": 4, "max_episode_steps": 15 }));
    let env = envs.env().unwrap();
    check_env(env, 1).unwrap();
    let context = EnvContext { worker: 1, index: 0, incarnation: 0, seed: 1 };
    check_multi_agent_env(envs.make(&context, &CallMonitor::new()).unwrap(), 1).unwrap();
}

#[test]
fn a_child_in_c_plays_the_same_in_a_fresh_process_as_after_other_episodes() {
    let envs = corridors(json!({}));
    check_env_twice(|_: &EnvContext| envs.env().map_err(EnvError::new), 1).unwrap();
    let make = |context: &EnvContext| envs.make(context, &CallMonitor::new());
    check_multi_agent_env_twice(make, 1).unwrap();
}

#[test]
fn what_a_child_in_c_keeps_from_other_episodes_is_found_and_named() {
    let leaking = liars("leak");
    let first = "in reset with seed 0: observation element 1";
    let second = "is 0 in a fresh instance and 1 in one that has played 1 other episode before";
    let found = check_env_twice(|_: &EnvContext| leaking.env().map_err(EnvError::new), 1).unwrap_err().to_string();
    assert!(found.contains(&format!("{first} {second}")), "{found}");
    let make = |context: &EnvContext| leaking.make(context, &CallMonitor::new());
    let found = check_multi_agent_env_twice(make, 1).unwrap_err().to_string();
    assert!(found.contains(&format!("{first} of agent `agent` {second}")), "{found}");
}

#[test]
fn the_spec_is_what_the_child_says() {
    let envs = made(&corridors(json!({ "length": 4, "max_episode_steps": 15 })));
    let spec = envs.spec();
    assert_eq!((spec.name.as_str(), spec.max_episode_steps, spec.action_mask), ("Corridor", Some(15), true));
    assert_eq!(spec.observation, Space::boxed(vec![0.0; 2], vec![4.0, f32::INFINITY], vec![2]).unwrap());
    assert_eq!(envs.n_envs(), N_ENVS);
}

#[test]
fn clipped_rewards_are_learned_from_and_returns_are_whole() {
    let clipped = play(made(&ProcessEnvs { clip_rewards: Some(0.5), ..corridors(json!({})) }), 200);
    let whole = play(made(&corridors(json!({}))), 200);
    assert_eq!(clipped.episodes, whole.episodes);
    let rewards = |played: &Played| played.rewards.iter().flatten().copied().collect::<Vec<_>>();
    assert_eq!(rewards(&clipped), rewards(&whole).iter().map(|reward| reward.min(0.5)).collect::<Vec<_>>());
    assert!(rewards(&whole).contains(&0.9));
}
