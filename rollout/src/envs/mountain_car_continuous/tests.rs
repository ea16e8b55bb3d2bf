#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;

use super::*;
use crate::check::check_env;

fn drive(env: &mut MountainCarContinuous, force: f32) -> Step {
    env.step(ActionRef::Continuous(&[force]), ObsMut::F32(&mut [0.0; 2])).unwrap()
}

#[test]
fn mountain_car_continuous_keeps_the_rules_of_an_environment() {
    check_env(MountainCarContinuous::new(), 1).unwrap();
}

#[test]
fn a_force_out_of_bounds_moves_as_the_bound_does_and_costs_what_was_asked_for() {
    let (mut bound, mut beyond) = (MountainCarContinuous::new(), MountainCarContinuous::new());
    let (at_bound, past_it) = (drive(&mut bound, -1.0), drive(&mut beyond, -3.0));
    assert!((bound.state()[0] - beyond.state()[0]).abs() < 1e-7);
    assert_eq!((at_bound.reward, past_it.reward), (-0.1, -0.9));
}

#[test]
fn the_goal_is_worth_a_hundred_less_the_force() {
    let mut env = MountainCarContinuous::from_state([0.44, 0.05]);
    assert_eq!(drive(&mut env, 1.0), Step { reward: 99.9, end: End::Terminated });
}

#[test]
fn the_wall_stops_the_car() {
    let mut env = MountainCarContinuous::from_state([-1.1, -0.07]);
    for _ in 0..2 {
        drive(&mut env, -1.0);
    }
    assert_eq!(env.state(), [f64::from(MIN_POSITION as f32), 0.0]);
}

#[test]
fn the_state_is_f32_from_the_first_step_on_and_new_after_a_reset() {
    let mut env = MountainCarContinuous::from_state([-0.123_456_789_012, 0.0]);
    drive(&mut env, 0.5);
    assert!(env.state().iter().all(|value| *value == to_f32(*value)));
    env.reset(3, ObsMut::F32(&mut [0.0; 2])).unwrap();
    assert_eq!(env.state(), start(3));
    assert_eq!(env.state[2], F64);
}

#[test]
fn an_action_that_is_no_number_is_an_error() {
    let act = |action: ActionRef<'_>| MountainCarContinuous::new().step(action, ObsMut::F32(&mut [0.0; 2]));
    let error = act(ActionRef::Continuous(&[f32::NAN])).unwrap_err();
    assert_eq!(error.to_string(), "MountainCarContinuous takes one number, got [NaN]");
    assert!(act(ActionRef::Continuous(&[0.0, 0.0])).is_err());
    assert!(act(ActionRef::Discrete(&[0])).is_err());
}
