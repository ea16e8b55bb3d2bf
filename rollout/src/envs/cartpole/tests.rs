#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::check::check_env;

fn push(env: &mut CartPole, action: u32) -> Step {
    env.step(ActionRef::Discrete(&[action]), ObsMut::F32(&mut [0.0; 4])).unwrap()
}

#[test]
fn cartpole_keeps_the_rules_of_an_environment() {
    check_env(CartPole::new(), 1).unwrap();
}

#[test]
fn a_reset_begins_near_the_middle_and_by_the_seed_alone() {
    let reset = |env: &mut CartPole, seed| {
        env.reset(seed, ObsMut::F32(&mut [0.0; 4])).unwrap();
        env.state()
    };
    let mut used = CartPole::from_state([1.0; 4]);
    let mut states: Vec<[f64; 4]> = (0..500).map(|seed| reset(&mut used, seed)).collect();
    assert_eq!(states[0], reset(&mut CartPole::new(), 0), "0 is a seed");
    let values: Vec<f64> = states.iter().flatten().copied().collect();
    assert!(values.iter().all(|value| value.abs() < 0.05));
    let mean_size = values.iter().map(|value| value.abs()).sum::<f64>() / values.len() as f64;
    assert!((mean_size - 0.025).abs() < 0.001, "uniform values are half as large on average: {mean_size}");
    states.dedup();
    assert_eq!(states.len(), 500);
}

#[test]
fn the_failing_step_is_worth_one_and_steps_after_it_nothing() {
    let mut env = CartPole::from_state([2.39, 5.0, 0.0, 0.0]);
    assert_eq!(push(&mut env, 1), Step { reward: 1.0, end: End::Terminated });
    assert_eq!(push(&mut env, 1), Step { reward: 0.0, end: End::Terminated });
    env.reset(0, ObsMut::F32(&mut [0.0; 4])).unwrap();
    assert_eq!(push(&mut env, 1), Step { reward: 1.0, end: End::No });
}

#[test]
fn an_action_that_does_not_exist_is_an_error() {
    let error = CartPole::new().step(ActionRef::Discrete(&[2]), ObsMut::F32(&mut [0.0; 4])).unwrap_err();
    assert_eq!(error.to_string(), "CartPole has the actions 0 to 1, got 2");
    assert!(CartPole::new().step(ActionRef::Continuous(&[0.5]), ObsMut::F32(&mut [0.0; 4])).is_err());
}
