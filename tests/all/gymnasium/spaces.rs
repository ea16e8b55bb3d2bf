//! Spaces of Gymnasium become spaces of pronk, values go through both ways, and what cannot is refused by
//! name.

use pronk::buffer::ObsView;
use pronk::env_process::{Gymnasium, ProcessEnvs, Wrapper};
use pronk::policy::ObsDtype;
use pronk::prelude::*;
use pronk::{Space, check_env};
use serde_json::json;

use super::{Stepped, gymnasium, object, python, quiet};

fn envs(observation: &str, action: &str) -> ProcessEnvs {
    gymnasium("pronk_test_envs:Spaces-v0", json!({ "observation": observation, "action": action }))
}

fn boxed(low: &[f32], high: &[f32], shape: &[usize]) -> Space {
    Space::boxed(low.to_vec(), high.to_vec(), shape.to_vec()).unwrap()
}

fn spec(envs: &ProcessEnvs) -> EnvSpec {
    Stepped::reset(envs, 1).unwrap().envs.spec().clone()
}

#[test]
fn observation_spaces_are_what_they_were() {
    let bytes = |shape: &[usize]| Space::bytes(shape.to_vec()).unwrap();
    let expected = [
        ("discrete", Space::discrete(4).unwrap()),
        ("multi_discrete", Space::multi_discrete(vec![3, 2]).unwrap()),
        ("multi_discrete_2d", Space::multi_discrete(vec![3, 2, 2, 4]).unwrap()),
        ("box_f32", boxed(&[-1.0, f32::NEG_INFINITY], &[1.0, f32::INFINITY], &[2])),
        ("box_f64", boxed(&[-1.5; 6], &[2.5; 6], &[2, 3])),
        ("box_u8", bytes(&[2, 2, 3])),
        ("codes", Space::Box { low: vec![0.0; 3], high: vec![4.0; 3], shape: vec![3], dtype: ObsDtype::U8 }),
        // Sorted by its keys: arm, hand, image.
        (
            "dict",
            boxed(
                &[-1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 255.0, 255.0, 255.0, 255.0],
                &[10],
            ),
        ),
        ("nested", boxed(&[0.0; 9], &[1.0; 9], &[9])),
    ];
    for (name, space) in expected {
        assert_eq!(spec(&envs(name, "discrete")).observation, space, "{name}");
    }
    let images = spec(&envs("images", "discrete")).observation;
    assert_eq!((images.obs_dtype(), images.obs_len()), (ObsDtype::U8, 7));
}

#[test]
fn action_spaces_are_what_they_were() {
    let expected = [
        ("discrete", Space::discrete(4).unwrap()),
        ("multi_discrete", Space::multi_discrete(vec![3, 2]).unwrap()),
        ("multi_discrete_2d", Space::multi_discrete(vec![3, 2, 2, 4]).unwrap()),
        ("box_f64", boxed(&[-1.5; 6], &[2.5; 6], &[2, 3])),
        // In the order in which they were given: wheel, arms.
        ("choices", Space::multi_discrete(vec![3, 2, 4, 2]).unwrap()),
        ("numbers", boxed(&[0.0, -1.0, -1.0], &[1.0; 3], &[3])),
    ];
    for (name, space) in expected {
        assert_eq!(spec(&envs("box_f32", name)).action, space, "{name}");
    }
}

#[test]
fn every_pair_of_spaces_keeps_the_rules_and_every_action_is_one_of_its_space() {
    let pairs = [
        ("discrete", "discrete"),
        ("multi_discrete_2d", "multi_discrete"),
        ("box_f64", "box_f64"),
        ("box_u8", "choices"),
        ("dict", "numbers"),
        ("images", "box_u8"),
        ("nested", "multi_discrete_2d"),
        // Bounds of 64 bits that 32 do not have: what lies between them is an action all the same.
        ("scalar", "box_tenth"),
    ];
    for (observation, action) in pairs {
        // The environment refuses actions that are not of its space; the check refuses such observations.
        let checked = check_env(envs(observation, action).env().unwrap(), 1);
        assert!(checked.is_ok(), "{observation}, {action}: {}", checked.unwrap_err());
    }
}

#[test]
fn choices_are_counted_from_where_they_start() {
    let mut discrete = Stepped::reset(&envs("discrete", "discrete"), 1).unwrap();
    // The reward is the action as the environment got it: the first of them is 5.
    for index in 0..4 {
        discrete.step(ActionRef::Discrete(&[index])).unwrap();
        assert_eq!(discrete.rewards, [5.0 + index as f32]);
        let one_hot = discrete.floats();
        assert_eq!((one_hot.iter().sum::<f32>(), one_hot.len()), (1.0, 4));
    }
    let mut several = Stepped::reset(&envs("discrete", "multi_discrete"), 1).unwrap();
    several.step(ActionRef::Discrete(&[2, 1])).unwrap();
    assert_eq!(several.rewards, [3.0 + 1.0], "starts are 1 and 0");
}

/// An image of six rows of five pixels, whose elements count from `k` modulo 8, with its channels first.
fn camera(k: u8) -> Vec<u8> {
    let element = |channel: u8, pixel: u8| (k + 3 * pixel + channel) % 8;
    (0..3).flat_map(|channel| (0..30).map(move |pixel| element(channel, pixel))).collect()
}

#[test]
fn images_are_shown_with_their_channels_first() {
    let envs = envs("camera", "discrete");
    let Space::Box { high, shape, dtype, .. } = spec(&envs).observation else { panic!("a box") };
    assert_eq!((shape, dtype), (vec![3, 6, 5], ObsDtype::U8));
    assert_eq!(high, [vec![255.0; 60], vec![9.0; 30]].concat(), "the bounds are moved as well");
    check_env(envs.env().unwrap(), 1).unwrap();
    let mut stepped = Stepped::reset(&envs, 2).unwrap();
    let ks = stepped.bytes().chunks(90).map(|image| image[0]).collect::<Vec<_>>();
    for step in 1..5 {
        stepped.step(ActionRef::Discrete(&[0, 0])).unwrap();
        let expected: Vec<u8> = ks.iter().flat_map(|k| camera(k + step)).collect();
        assert_eq!(stepped.bytes(), expected, "step {step}");
    }
    stepped.step(ActionRef::Discrete(&[0, 0])).unwrap();
    let last: Vec<_> = stepped.final_obs.iter().collect();
    assert_eq!(last.len(), 2, "the time limit");

    let kwargs = object(json!({ "observation": "camera", "action": "discrete" }));
    let as_it_is =
        Gymnasium { kwargs, python: python(), channels_first: false, ..Gymnasium::new("pronk_test_envs:Spaces-v0") };
    let Space::Box { shape, .. } = spec(&quiet(as_it_is)).observation else { panic!("a box") };
    assert_eq!(shape, [6, 5, 3]);
}

#[test]
fn the_images_of_atari_and_of_box2d_have_their_channels_first() {
    for (id, shape) in [("ALE/Pong-v5", [3, 210, 160]), ("CarRacing-v3", [3, 96, 96])] {
        let envs = quiet(Gymnasium { python: python(), ..Gymnasium::new(id) });
        assert_eq!(spec(&envs).observation, Space::bytes(shape.to_vec()).unwrap(), "{id}");
    }
}

#[test]
fn bools_stand_for_0_and_1_where_a_space_has_whole_numbers() {
    for observation in ["bits", "box_u8", "coin", "coins", "box_f32"] {
        let kwargs = json!({ "observation": observation, "action": "discrete", "wrong": "bool" });
        let mut stepped = Stepped::reset(&gymnasium("pronk_test_envs:Spaces-v0", kwargs), 1).unwrap();
        for _ in 0..2 {
            stepped.step(ActionRef::Discrete(&[0])).unwrap_or_else(|error| panic!("{observation}: {error}"));
        }
        let is_bit = match stepped.obs.view() {
            ObsView::U8(obs) => obs.iter().all(|x| *x < 2) && obs.contains(&1),
            ObsView::F32(obs) => obs.iter().all(|x| [0.0, 1.0].contains(x)),
        };
        assert!(is_bit, "{observation}: {:?}", stepped.obs);
    }
}

#[test]
fn the_parts_of_a_dict_stand_in_the_documented_order() {
    let mut dict = Stepped::reset(&envs("dict", "discrete"), 1).unwrap();
    dict.step(ActionRef::Discrete(&[0])).unwrap();
    let obs = dict.floats().to_vec();
    // Its numbers count on from k in eighths, its choice is k modulo 3, its bytes count on from k.
    let k = obs[6] as usize;
    let count = |i: usize| ((k + i) % 8) as f32;
    assert_eq!(&obs[..3], [count(0) / 8.0, count(1) / 8.0, count(2) / 8.0], "arm");
    // The digit of the seed and one step: k is 1 to 10, and bytes say it modulo 8.
    let hand = |k: usize| -> Vec<f32> { (0..3).map(|i| f32::from(u8::from(i == k % 3))).collect() };
    let possible = [k, k + 8].into_iter().filter(|k| (1..=10).contains(k));
    assert!(possible.map(hand).any(|hand| obs[3..6] == hand), "hand: {obs:?}");
    assert_eq!(&obs[6..], [count(0), count(1), count(2), count(3)], "image");
}

#[test]
fn time_limits_truncate_with_the_final_observation() {
    let mut stepped = Stepped::reset(&envs("box_f32", "discrete"), 2).unwrap();
    assert_eq!(stepped.envs.spec().max_episode_steps, Some(5));
    for step in 1..=5 {
        stepped.step(ActionRef::Discrete(&[0, 0])).unwrap();
        assert_eq!(stepped.ends[0], if step == 5 { End::Truncated } else { End::No });
    }
    assert_eq!(stepped.final_obs.iter().count(), 2, "one for each environment");
    let mut episodes = Vec::new();
    stepped.envs.drain_episodes(&mut episodes);
    assert_eq!(episodes.iter().map(|episode| episode.episode_len).collect::<Vec<_>>(), [5, 5]);
}

#[test]
fn what_is_not_of_these_spaces_is_refused_by_name_and_place() {
    let refused = [
        ("multi_binary", "discrete", ["observation is MultiBinary(3)", "Box of uint8, float32 or float64"]),
        ("deep_text", "discrete", ["observation['a'][1] is Text(", "gymnasium.wrappers"]),
        ("int_box", "discrete", ["int64", "DtypeObservation"]),
        ("f16_box", "discrete", ["float16", "observation is Box("]),
        ("sequence", "discrete", ["observation is Sequence(", "turn it into one with a wrapper"]),
        ("empty", "discrete", ["holds no number", "observation is Box("]),
        ("box_f32", "multi_binary", ["action is MultiBinary(3)", "TransformAction"]),
        ("box_f32", "mixed", ["action['gas'] is Box(", "action['wheel'] is Discrete(3)"]),
    ];
    for (observation, action, words) in refused {
        let text = Stepped::reset(&envs(observation, action), 1).err().expect("it was made").to_string();
        for word in words {
            assert!(text.contains(word), "`{word}` is missing in: {text}");
        }
    }
}

#[test]
fn observations_that_are_not_of_their_space_are_errors() {
    let wrong = [
        ("box_f32", "shape", "observation has shape (1,), expected (2,)"),
        ("discrete", "range", "expected 5 to 8"),
        ("dict", "missing", "there is no observation['arm']"),
        ("box_u8", "text", "expected whole numbers as in Box(0, 255, (2, 2, 3), uint8)"),
    ];
    for (observation, how, words) in wrong {
        let kwargs = json!({ "observation": observation, "action": "discrete", "wrong": how });
        let mut stepped = Stepped::reset(&gymnasium("pronk_test_envs:Spaces-v0", kwargs), 1).unwrap();
        stepped.step(ActionRef::Discrete(&[0])).unwrap();
        let text = stepped.step(ActionRef::Discrete(&[0])).unwrap_err().to_string();
        assert!(text.contains(words) && text.contains("at step 2"), "{text}");
    }
}

#[test]
fn masks_of_the_info_are_those_of_the_environment() {
    for action in ["discrete", "multi_discrete"] {
        let kwargs = json!({ "observation": "box_f32", "action": action, "masked": true });
        let mut envs = gymnasium("pronk_test_envs:Spaces-v0", kwargs);
        envs.program.config["action_mask"] = json!(true);
        check_env(envs.env().unwrap(), 1).unwrap();
        let mut stepped = Stepped::reset(&envs, 3).unwrap();
        let len = stepped.envs.spec().action.dist_len();
        let mut masks = vec![false; 3 * len];
        stepped.envs.action_masks(&mut masks).unwrap();
        for mask in masks.chunks(len) {
            assert_eq!(mask.iter().filter(|possible| !**possible).count(), 1, "one thing is impossible");
        }
    }
    let forgotten = json!({ "observation": "box_f32", "action": "discrete", "masked": "forgotten" });
    let mut envs = gymnasium("pronk_test_envs:Spaces-v0", forgotten);
    envs.program.config["action_mask"] = json!(true);
    let error = Stepped::reset(&envs, 1).unwrap().step(ActionRef::Discrete(&[0])).unwrap_err().to_string();
    assert!(error.contains("there is no `action_mask`: the mask is read from `info[\"action_mask\"]`"), "{error}");
}

#[test]
fn seeds_of_any_size_begin_episodes() {
    let envs = envs("box_f32", "discrete");
    let mut env = envs.env().unwrap();
    let mut first = [[0.0; 2]; 2];
    for (seed, obs) in [0, u64::MAX].into_iter().zip(&mut first) {
        Env::reset(&mut env, seed, ObsMut::F32(obs)).unwrap();
    }
    // The lower 31 bits end in the digits 0 and 7; numbers go up in eighths.
    assert_eq!(first, [[0.0, 0.125], [0.875, 0.0]]);
    // One that takes 32 bits only.
    let wrappers = vec![Wrapper::new("pronk_test_envs:ThirtyTwoBits")];
    let small = quiet(Gymnasium { python: python(), wrappers, ..Gymnasium::new("CartPole-v1") });
    check_env(small.env().unwrap(), u64::MAX).unwrap();
}
