#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;

use super::*;
use crate::check::check_env;

fn drive(env: &mut MountainCar, action: u32) -> Step {
    env.step(ActionRef::Discrete(&[action]), ObsMut::F32(&mut [0.0; 2])).unwrap()
}

#[test]
fn mountain_car_keeps_the_rules_of_an_environment() {
    check_env(MountainCar::new(), 1).unwrap();
}

#[test]
fn a_reset_stands_in_the_valley_and_by_the_seed_alone() {
    let positions: Vec<f64> = (0..300).map(|seed| start(seed)[0]).collect();
    assert!(positions.iter().all(|position| (-0.6..-0.4).contains(position)));
    let mean = positions.iter().sum::<f64>() / 300.0;
    assert!((mean + 0.5).abs() < 0.01, "{mean}");
    let mut env = MountainCar::from_state([0.5, 0.07]);
    env.reset(7, ObsMut::F32(&mut [0.0; 2])).unwrap();
    assert_eq!(env.state(), [positions[7], 0.0]);
}

#[test]
fn the_wall_stops_the_car() {
    let mut env = MountainCar::from_state([-1.19, -0.07]);
    drive(&mut env, 0);
    assert_eq!(env.state(), [MIN_POSITION, 0.0]);
}

#[test]
fn the_goal_ends_the_episode_and_costs_as_much_as_any_step() {
    assert_eq!(drive(&mut MountainCar::from_state([0.45, 0.07]), 2), Step { reward: -1.0, end: End::Terminated });
    assert_eq!(drive(&mut MountainCar::from_state([0.6, -0.05]), 2), Step { reward: -1.0, end: End::No });
}

#[test]
fn full_throttle_is_not_enough_and_swinging_is() {
    let arrives = |throttle: fn(f64) -> u32| {
        let mut env = MountainCar::new();
        (0..200).any(|_| {
            let action = throttle(env.state()[1]);
            drive(&mut env, action).end == End::Terminated
        })
    };
    assert!(!arrives(|_| 2));
    assert!(arrives(|velocity| if velocity < 0.0 { 0 } else { 2 }));
}

#[test]
fn an_action_that_does_not_exist_is_an_error() {
    let error = MountainCar::new().step(ActionRef::Discrete(&[3]), ObsMut::F32(&mut [0.0; 2])).unwrap_err();
    assert_eq!(error.to_string(), "MountainCar has the actions 0 to 2, got 3");
}
