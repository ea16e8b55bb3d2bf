//! Frames of a child in C, as of the same corridor in Rust; and of children that draw none, or wrongly.

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_env_process::ProcessEnvs;
use pronk_rollout::{
    ActionRef, CallMonitor, Env, EnvContext, EnvFactory, EnvFailure, FailurePlace, Frame, ObsMut, VectorEnv, VectorStep,
};
use serde_json::json;

use crate::corridor::{CONTEXT, Corridor, corridors, liars};

/// Three in one process, two in another.
const N_ENVS: usize = 5;

fn made(factory: &impl EnvFactory) -> Box<dyn VectorEnv> {
    let mut envs = factory.make_vector_to_render(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap();
    envs.keep_last_frames(3);
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * N_ENVS])).unwrap();
    envs
}

/// All go to the right, but for the last one.
fn step(envs: &mut dyn VectorEnv) -> Result<[End; N_ENVS], EnvFailure> {
    let mut ends = [End::No; N_ENVS];
    let out = VectorStep {
        t: 0,
        obs: ObsMut::F32(&mut [0.0; 2 * N_ENVS]),
        rewards: &mut [0.0; N_ENVS],
        ends: &mut ends,
        final_obs: &mut FinalObs::new(ObsKind::F32, 2),
    };
    envs.step(ActionRef::Discrete(&[1, 1, 1, 1, 0]), out)?;
    Ok(ends)
}

/// The frames of every environment in 50 steps, and the last ones of environment 3.
fn frames(mut envs: Box<dyn VectorEnv>) -> (Vec<Frame>, Vec<Frame>) {
    let (mut all, mut last) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        all.extend((0..N_ENVS).map(|index| envs.render(index).unwrap().expect("a frame")));
        let ends = step(&mut *envs).unwrap();
        let frame = envs.take_last_frame();
        assert_eq!(frame.is_some(), ends[3] != End::No);
        last.extend(frame);
    }
    (all, last)
}

#[test]
fn a_child_in_c_draws_what_the_same_corridor_in_rust_draws() {
    let in_processes = frames(made(&corridors(json!({}))));
    let in_rust = frames(made(&|_: &EnvContext| Corridor::default()));
    assert!(in_processes == in_rust);
    assert!(in_rust.1.len() > 5 && in_rust.1.iter().all(|frame| frame != &in_rust.0[3]), "those at the door");
    assert_eq!(in_rust.0[0].fps(), 5);
}

#[test]
fn an_environment_alone_in_its_process_is_drawn_until_its_end() {
    let mut env = corridors(json!({})).env_to_render().unwrap();
    let mut rust = Corridor::default();
    env.reset(2, ObsMut::F32(&mut [0.0; 2])).unwrap();
    rust.reset(2, ObsMut::F32(&mut [0.0; 2])).unwrap();
    for step in 0..3 {
        assert!(env.render().unwrap() == rust.render().unwrap(), "step {step}");
        env.step(ActionRef::Discrete(&[1]), ObsMut::F32(&mut [0.0; 2])).unwrap();
        rust.step(ActionRef::Discrete(&[1]), ObsMut::F32(&mut [0.0; 2])).unwrap();
    }
    assert!(env.render().unwrap() == rust.render().unwrap(), "at the door");
}

#[test]
fn processes_that_were_not_asked_for_frames_draw_none() {
    let mut env = corridors(json!({})).env().unwrap();
    env.reset(2, ObsMut::F32(&mut [0.0; 2])).unwrap();
    assert_eq!(env.render().unwrap(), None);
    let mut envs = corridors(json!({})).make_vector(&CONTEXT, N_ENVS, &CallMonitor::new()).unwrap();
    envs.keep_last_frames(0);
    envs.reset_all(ObsMut::F32(&mut [0.0; 2 * N_ENVS])).unwrap();
    assert_eq!(envs.render(0).unwrap(), None);
    for _ in 0..10 {
        step(&mut *envs).unwrap();
    }
    assert_eq!(envs.take_last_frame(), None);
}

#[test]
fn programs_that_know_nothing_of_frames_step_as_ever() {
    let mut envs = made(&liars("together"));
    assert_eq!(envs.render(0).unwrap(), None);
    for _ in 0..10 {
        step(&mut *envs).unwrap();
    }
    assert_eq!(envs.take_last_frame(), None);
}

#[test]
fn a_child_may_have_nothing_to_draw() {
    assert_eq!(made(&liars("blank")).render(0).unwrap(), None);
}

#[test]
fn frames_that_are_too_large_are_named() {
    let failure = made(&liars("huge")).render(4).unwrap_err();
    assert!(matches!(failure.place, FailurePlace::Render { step: 0, .. }), "{failure}");
    let text = failure.to_string();
    for words in ["environment 4 of rollout-3", "in render after step 0", "it drew 100000 × 100000 pixels", "at most"]
    {
        assert!(text.contains(words), "`{words}` is missing in: {text}");
    }
}

#[test]
fn a_drawing_that_fails_is_named_with_its_environment_and_step() {
    let long = corridors(json!({ "length": 100_000, "max_episode_steps": 2 }));
    let failure = made(&long).render(4).unwrap_err();
    assert!(failure.to_string().contains("a corridor of length 100000 is too long to be drawn"), "{failure}");

    // Environment 3 is drawn within the step that reaches the limit.
    let mut envs = made(&ProcessEnvs { envs_per_process: 2, ..long });
    step(&mut *envs).unwrap();
    let failure = step(&mut *envs).unwrap_err();
    assert!(matches!(failure.place, FailurePlace::Render { step: 2, .. }), "{failure}");
    assert_eq!((failure.index, failure.steps_made), (3, 4));
}
