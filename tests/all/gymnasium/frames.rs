//! Frames of Gymnasium's environments and of ALE's, and videos of them.

use pronk::env_process::{AtariVector, Gymnasium, ProcessEnvs, Wrapper};
use pronk::policy::NetworkSpec;
use pronk::prelude::*;
use pronk::rollout::{CallMonitor, Frame, VectorContext};
use pronk::video::{VideoOptions, record_episode};
use pronk::{ActionSelection, EnvFactory, Policy};
use serde_json::{Value, json};

use super::{Stepped, gymnasium, object, python, quiet};

fn drawn(kwargs: Value) -> ProcessEnvs {
    gymnasium("pronk_test_envs:Drawn-v0", kwargs)
}

/// Environments of which frames are asked for, the last ones of environment 1.
fn made(factory: &ProcessEnvs) -> Stepped {
    let context = VectorContext { worker: 1, seed: 3, ..VectorContext::default() };
    let mut envs = factory.make_vector_to_render(&context, 2, &CallMonitor::new()).unwrap();
    envs.keep_last_frames(1);
    Stepped::of(envs).unwrap()
}

/// The step that a frame shows.
fn shown(frame: Option<Frame>) -> Option<u8> {
    frame.map(|frame| {
        assert_eq!((frame.width(), frame.height(), frame.fps(), &frame.rgb()[3..]), (2, 1, 12, &[255; 3][..]));
        frame.rgb()[1]
    })
}

#[test]
fn frames_show_the_state_and_the_last_one_of_an_episode_is_kept() {
    let wrapped = |wrappers: Vec<Wrapper>| {
        let id = "pronk_test_envs:Drawn-v0";
        made(&quiet(Gymnasium { python: python(), wrappers, max_episode_steps: Some(9), ..Gymnasium::new(id) }))
    };
    for mut stepped in [wrapped(vec![]), wrapped(vec![Wrapper::new("gymnasium.wrappers:FlattenObservation")])] {
        for step in 0..3 {
            assert_eq!(shown(stepped.envs.render(1).unwrap()), Some(step));
            assert_eq!(shown(stepped.envs.take_last_frame()), None);
            stepped.step(ActionRef::Discrete(&[0, 0])).unwrap();
        }
        assert_eq!(shown(stepped.envs.take_last_frame()), Some(3));
        assert_eq!(shown(stepped.envs.render(1).unwrap()), Some(0), "the next episode");
    }
}

#[test]
fn frames_that_nobody_asks_for_are_not_drawn() {
    let mut stepped = Stepped::reset(&drawn(json!({})), 1).unwrap();
    assert_eq!(stepped.envs.render(0).unwrap(), None);
}

#[test]
fn environments_without_a_mode_for_frames_have_none() {
    let mut stepped = made(&gymnasium("pronk_test_envs:Faulty-v0", json!({})));
    assert_eq!(stepped.envs.render(0).unwrap(), None);
    // Their own mode is left to them.
    let mut stepped = made(&drawn(json!({ "render_mode": "human" })));
    assert_eq!(stepped.envs.render(0).unwrap(), None);
    assert_eq!(made(&drawn(json!({ "how": "nothing" }))).envs.render(0).unwrap(), None);
}

#[test]
fn what_is_no_frame_is_an_error_that_says_what_it_is() {
    for (how, words) in [
        ("floats", "`render` gave float64 of shape (1, 2, 3), expected uint8 of shape (height, width, 3)"),
        ("grey", "`render` gave uint8 of shape (1, 2), expected uint8 of shape (height, width, 3)"),
        ("huge", "a frame has 4000 × 4000 pixels: draw smaller"),
        ("raises", "ValueError: the brush is stuck"),
    ] {
        let failure = made(&drawn(json!({ "how": how }))).envs.render(1).unwrap_err().to_string();
        assert!(failure.contains("environment 1 of rollout-1 (pronk_test_envs:Drawn-v0"), "{failure}");
        assert!(failure.contains("in render after step 0") && failure.contains(words), "{failure}");
    }
}

/// A video of an untrained policy, and how long the episode was.
fn video(envs: &ProcessEnvs, max_frames: u32) -> (Vec<u8>, u32) {
    let spec = Stepped::reset(envs, 1).unwrap().envs.spec().clone();
    let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
    let mut policy = Policy::new(network.clone(), network.init_params(0).unwrap(), &spec.action).unwrap();
    let options = VideoOptions { max_frames, ..VideoOptions::default() };
    let recorded = record_episode(&mut policy, &mut ActionSelection::Mode, envs, 1, &options);
    let video = recorded.unwrap().expect("it draws itself");
    assert_eq!(video.n_frames(), max_frames.min(video.episode().episode_len + 1));
    (video.as_png().to_vec(), video.episode().episode_len)
}

#[test]
fn an_episode_in_a_process_becomes_a_video() {
    let (png, len) = video(&drawn(json!({})), 100);
    assert_eq!((&png[..8], len), (&b"\x89PNG\r\n\x1a\n"[..], 3));
}

#[test]
fn a_game_of_atari_is_drawn_in_colour() {
    let pong = Gymnasium { python: python(), max_episode_steps: Some(40), ..Gymnasium::atari("Pong") };
    let envs = quiet(pong);
    let mut stepped = made(&envs);
    let first = stepped.envs.render(0).unwrap().unwrap();
    assert_eq!((first.width(), first.height(), first.fps()), (160, 210, 30));
    assert!(first.rgb().chunks(3).any(|rgb| rgb[0] != rgb[1]), "it is not grey");
    (0..30).for_each(|_| stepped.step(ActionRef::Discrete(&[2, 3])).unwrap());
    assert!(stepped.envs.render(0).unwrap().unwrap() != first);
    let (png, _) = video(&envs, 2_000);
    assert_eq!(&png[16..24], &[0, 0, 0, 160, 0, 0, 0, 210]);
}

#[test]
fn the_vectoriser_of_ale_shows_the_newest_image_that_is_observed() {
    for mode in ["SameStep", "Disabled"] {
        let kwargs = object(json!({ "max_num_frames_per_episode": 80, "autoreset_mode": mode }));
        let mut stepped = made(&quiet(AtariVector { python: python(), kwargs, ..AtariVector::new("pong") }));
        let mut ended = false;
        for _ in 0..25 {
            let frame = stepped.envs.render(1).unwrap().unwrap();
            assert_eq!((frame.width(), frame.height(), frame.fps()), (84, 84, 15));
            let pronk::buffer::ObsView::U8(obs) = stepped.obs.view() else { panic!("observations are floats") };
            let newest = &obs[7 * 84 * 84..];
            assert!(frame.rgb().chunks(3).zip(newest).all(|(rgb, grey)| rgb == [*grey; 3]), "{mode}");

            stepped.final_obs.clear();
            stepped.step(ActionRef::Discrete(&[2, 3])).unwrap();
            let last = stepped.envs.take_last_frame();
            assert_eq!(last.is_some(), stepped.ends[1] != End::No, "{mode}");
            if let Some(last) = last {
                ended = true;
                let row = stepped.final_obs.get(0, 1).expect("the limit truncates");
                let pronk::buffer::ObsView::U8(row) = row else { panic!("observations are floats") };
                let newest = &row[3 * 84 * 84..];
                assert!(last.rgb().chunks(3).zip(newest).all(|(rgb, grey)| rgb == [*grey; 3]), "{mode}");
            }
        }
        assert!(ended, "{mode}");
    }
}
