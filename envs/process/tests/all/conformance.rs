//! A child in another language makes the very steps that an environment in Rust makes.

use pronk_buffer::{End, FinalObs, ObsKind, ObsView};
use pronk_env_process::ProcessEnvs;
use pronk_policy::{Rng, Space};
use pronk_rollout::{
    ActionRef, CallMonitor, EnvContext, EnvError, EnvFactory, EpisodeStat, MultiAgentFactory, ObsMut, Restarted,
    VectorEnv, VectorStep, check_env, check_env_twice, check_multi_agent_env, check_multi_agent_env_twice,
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

/// Plays with random actions that are possible, to the right three times of four: some episodes reach the
/// door, some their limit.
struct Player {
    envs: Box<dyn VectorEnv>,
    rng: Rng,
    obs: [f32; 2 * N_ENVS],
    final_obs: FinalObs,
    played: Played,
}

impl Player {
    fn of(envs: Box<dyn VectorEnv>) -> Self {
        let final_obs = FinalObs::new(ObsKind::F32, 2);
        Self { envs, rng: Rng::seed_from(5), obs: [f32::NAN; 2 * N_ENVS], final_obs, played: Played::default() }
    }

    fn begin(&mut self) {
        self.envs.reset_all(ObsMut::F32(&mut self.obs)).unwrap();
        self.played.obs.push(self.obs);
    }

    fn step(&mut self) {
        let Self { envs, rng, obs, final_obs, played } = self;
        let mut masks = [false; 2 * N_ENVS];
        envs.action_masks(&mut masks).unwrap();
        played.masks.push(masks);
        let actions: Vec<u32> = masks.chunks(2).map(|mask| u32::from(!mask[0] || rng.below(8) < 5)).collect();
        let (mut rewards, mut ends) = ([0.0; N_ENVS], [End::No; N_ENVS]);
        let (t, obs_mut) = (played.rewards.len(), ObsMut::F32(obs));
        let step = VectorStep { t, obs: obs_mut, rewards: &mut rewards, ends: &mut ends, final_obs };
        envs.step(ActionRef::Discrete(&actions), step).unwrap();
        played.obs.push(*obs);
        played.rewards.push(rewards);
        played.ends.push(ends);
    }

    fn end(mut self) -> Played {
        let row = |(t, env, row): (u32, u32, ObsView<'_>)| {
            let ObsView::F32(row) = row else { panic!("{row:?}") };
            (t as usize, env as usize, row.to_vec())
        };
        self.played.final_obs = self.final_obs.iter().map(row).collect();
        self.envs.drain_episodes(&mut self.played.episodes);
        self.played
    }
}

fn play(envs: Box<dyn VectorEnv>, steps: usize) -> Played {
    let mut player = Player::of(envs);
    player.begin();
    (0..steps).for_each(|_| player.step());
    player.end()
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
    let context = EnvContext { worker: 1, seed: 1, ..EnvContext::default() };
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

#[test]
fn a_lost_life_ends_what_is_learned_from_and_not_the_episode() {
    let (mortal, immortal) = (play(made(&liars("lives")), 200), play(made(&corridors(json!({}))), 200));
    for (ends, whole) in mortal.ends.iter().zip(&immortal.ends) {
        for (env, (end, whole)) in ends.iter().zip(whole).enumerate() {
            // The first of each process, of which there are three environments, loses a life in every step.
            let expected = if env % 3 == 0 && *whole == End::No { End::Terminated } else { *whole };
            assert_eq!(*end, expected, "environment {env}");
        }
    }
    assert_eq!(Played { ends: immortal.ends.clone(), ..mortal }, immortal);
    // Alone, an environment plays whole episodes.
    check_env(liars("lives").env().unwrap(), 1).unwrap();
}

/// After so many steps, goes on with other processes, and returns the environments that began a new episode.
fn go_on_elsewhere(player: &mut Player, envs: &ProcessEnvs) -> Vec<Restarted> {
    let saved = player.envs.save(ObsView::F32(&player.obs)).unwrap().unwrap();
    player.envs = made(envs);
    player.envs.keep_for_save();
    player.envs.load(&saved, ObsMut::F32(&mut player.obs)).unwrap()
}

#[test]
fn episodes_go_on_in_other_processes() {
    for envs in [corridors(json!({})), liars("lives")] {
        let whole = play(made(&envs), 120);
        let mut player = Player::of(made(&envs));
        player.envs.keep_for_save();
        player.begin();
        for step in 0..120 {
            // Also in the middle of episodes that were played again before.
            if [0, 37, 38, 90].contains(&step) {
                let restarted = go_on_elsewhere(&mut player, &envs);
                assert_eq!(restarted, [], "before step {step}");
            }
            player.step();
        }
        assert_eq!(player.end(), whole);
    }
}

#[test]
fn episodes_that_cannot_be_played_again_begin_anew_and_are_named() {
    let honest = || corridors(json!({}));
    for (before, after, steps, reason) in [
        // Its second reset shows that it is the second.
        (liars("leak"), liars("leak"), 0, "led to another observation after 0 steps"),
        (honest(), liars("together"), 4, "no orders for one environment alone"),
        (honest(), corridors(json!({ "max_episode_steps": 3 })), 4, "its episode ended with step 3: Truncated"),
    ] {
        let mut player = Player::of(made(&before));
        player.envs.keep_for_save();
        player.begin();
        player.begin();
        (0..steps).for_each(|_| player.step());
        let (obs, saved) = (player.obs, player.envs.save(ObsView::F32(&player.obs)).unwrap().unwrap());
        let restarted = go_on_elsewhere(&mut player, &after);
        assert!(!restarted.is_empty(), "{reason}");
        let now = player.envs.save(ObsView::F32(&player.obs)).unwrap().unwrap();
        for Restarted { index, why } in &restarted {
            assert!(why.contains(reason), "{index}: {why}");
            let index = *index as usize;
            let (episodes, begun) = (saved.envs[index].episodes, now.envs[index].episodes);
            assert_eq!((begun.n_begun, begun.len), (episodes.n_begun + 1, 0), "the next episode, not an earlier one");
            assert_ne!(player.obs[2 * index..][..2], obs[2 * index..][..2], "its first observation is there");
        }
        player.step();
    }
}
