//! Lives of Atari games: losing one ends what is learned from, and not the game.

use pronk::buffer::ObsView;
use pronk::env_process::{AtariVector, Gymnasium, ProcessEnvs};
use pronk::policy::{ActionSelection, NetworkSpec, Policy};
use pronk::prelude::*;
use pronk::rollout::EpisodeStat;
use pronk::{Rng, evaluate};
use serde_json::{Value, json};

use super::{Stepped, object, python, quiet};

/// All that comes out of so many steps with actions that lose games soon.
struct Played {
    seen: Vec<u64>,
    rewards: Vec<Vec<f32>>,
    ends: Vec<Vec<End>>,
    episodes: Vec<EpisodeStat>,
}

fn play(envs: &ProcessEnvs, n_envs: usize, steps: u64) -> Played {
    let mut stepped = Stepped::reset(envs, n_envs).unwrap();
    let mut played = Played { seen: Vec::new(), rewards: Vec::new(), ends: Vec::new(), episodes: Vec::new() };
    let mut rng = Rng::seed_from(5);
    for _ in 0..steps {
        let actions: Vec<u32> = (0..n_envs).map(|_| rng.below(4) as u32).collect();
        stepped.step(ActionRef::Discrete(&actions)).unwrap();
        let ObsView::U8(obs) = stepped.obs.view() else { panic!("observations are floats") };
        played.seen.push(obs.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte))));
        played.rewards.push(stepped.rewards.clone());
        played.ends.push(stepped.ends.clone());
    }
    stepped.envs.drain_episodes(&mut played.episodes);
    played
}

/// Breakout, which has five lives, by ale-py's vectoriser.
fn vectoriser(kwargs: Value) -> ProcessEnvs {
    quiet(AtariVector { python: python(), kwargs: object(kwargs), ..AtariVector::new("breakout") })
}

/// Breakout with Gymnasium's wrappers.
fn wrapped(terminal_on_life_loss: bool) -> ProcessEnvs {
    let mut env = Gymnasium { python: python(), ..Gymnasium::atari("Breakout") };
    env.wrappers[0].kwargs = object(json!({ "terminal_on_life_loss": terminal_on_life_loss }));
    quiet(env)
}

#[test]
fn a_lost_life_ends_what_is_learned_from_and_not_the_game() {
    let mode = |mode: &str, name: &str| vectoriser(json!({ "autoreset_mode": mode, name: true }));
    let pairs = [
        ("vectoriser", mode("SameStep", "episodic_life"), vectoriser(json!({}))),
        ("life_loss_info", mode("SameStep", "life_loss_info"), vectoriser(json!({}))),
        ("seeded", mode("Disabled", "episodic_life"), vectoriser(json!({ "autoreset_mode": "Disabled" }))),
        ("wrapped", wrapped(true), wrapped(false)),
    ];
    for (name, with_lives, whole) in pairs {
        let (with_lives, whole) = (play(&with_lives, 2, 700), play(&whole, 2, 700));
        assert_eq!(with_lives.episodes, whole.episodes, "{name}");
        assert!(whole.episodes.len() >= 2, "{name}: {} games ended", whole.episodes.len());
        assert_eq!(with_lives.seen, whole.seen, "{name}: the game is another");
        assert_eq!(with_lives.rewards, whole.rewards, "{name}");
        let mut lost = [0; 2];
        for (ends, whole) in with_lives.ends.iter().zip(&whole.ends) {
            for (env, lost) in lost.iter_mut().enumerate() {
                match (ends[env], whole[env]) {
                    (End::Terminated, End::No) => *lost += 1,
                    (end, whole) => assert_eq!(end, whole, "{name}"),
                }
                if whole[env] != End::No {
                    assert_eq!(std::mem::take(lost), 4, "{name}: the fifth life is the end of the game");
                }
            }
        }
    }
}

#[test]
fn evaluations_play_whole_games() {
    let evaluated = |envs: &ProcessEnvs| {
        let spec = Stepped::reset(envs, 1).unwrap().envs.spec().clone();
        let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
        let mut policy = Policy::new(network.clone(), network.init_params(0).unwrap(), &spec.action).unwrap();
        evaluate(&mut policy, &mut ActionSelection::Sample(Rng::seed_from(3)), envs, 2, 7).unwrap()
    };
    // Small images, for speed.
    let small = |name: &str| vectoriser(json!({ "img_height": 36, "img_width": 36, "stack_num": 1, name: true }));
    let (with_lives, whole) = (evaluated(&small("episodic_life")), evaluated(&small("maxpool")));
    assert_eq!(with_lives, whole);
    assert!(whole.len_mean() > Some(100.0), "{whole:?}");
}

#[test]
fn an_environment_that_is_stepped_by_hand_plays_whole_games() {
    let mut env = wrapped(true).env().unwrap();
    let mut pixels = vec![0; 4 * 84 * 84];
    env.reset(7, ObsMut::U8(&mut pixels)).unwrap();
    let mut rng = Rng::seed_from(5);
    let ends = (1..2_000).find(|_| {
        let action = [rng.below(4) as u32];
        env.step(ActionRef::Discrete(&action), ObsMut::U8(&mut pixels)).unwrap().end != End::No
    });
    assert!(ends > Some(100), "{ends:?}: a life is shorter");
}
