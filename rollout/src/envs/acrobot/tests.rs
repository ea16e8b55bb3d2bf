#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;

use super::*;
use crate::check::check_env;

fn turn(env: &mut Acrobot, action: u32) -> Step {
    env.step(ActionRef::Discrete(&[action]), ObsMut::F32(&mut [0.0; 6])).unwrap()
}

#[test]
fn acrobot_keeps_the_rules_of_an_environment() {
    check_env(Acrobot::new(), 1).unwrap();
}

#[test]
fn a_reset_hangs_the_links_down_in_numbers_of_f32() {
    let mut env = Acrobot::from_state([1.0; 4]);
    let mut values = Vec::new();
    for seed in 0..300 {
        env.reset(seed, ObsMut::F32(&mut [0.0; 6])).unwrap();
        values.extend(env.state());
    }
    assert!(values.iter().all(|value| value.abs() <= 0.1 && *value == f64::from(*value as f32)));
    let mean_size = values.iter().map(|value| value.abs()).sum::<f64>() / values.len() as f64;
    assert!((mean_size - 0.05).abs() < 0.005, "uniform values are half as large on average: {mean_size}");
}

#[test]
fn without_torque_energy_is_kept_and_with_torque_it_is_not() {
    // Twice the kinetic energy is v · M v with the mass matrix of the book's dynamics; angles are from
    // hanging down.
    let energy = |[theta1, theta2, v1, v2]: [f64; 4]| {
        let (m11, m12, m22) = (3.5 + theta2.cos(), 1.25 + 0.5 * theta2.cos(), 1.25);
        let kinetic = (m11 * v1 * v1 + 2.0 * m12 * v1 * v2 + m22 * v2 * v2) / 2.0;
        kinetic - GRAVITY * (1.5 * theta1.cos() + 0.5 * (theta1 + theta2).cos())
    };
    let after = |action| {
        let mut env = Acrobot::from_state([0.3, -0.2, 0.0, 0.0]);
        let before = energy(env.state());
        for _ in 0..5 {
            turn(&mut env, action);
        }
        (energy(env.state()) - before).abs()
    };
    // What is lost is the error of steps of 0.2 s.
    assert!(after(1) < 0.02, "{}", after(1));
    assert!(after(2) > 0.2, "{}", after(2));
}

#[test]
fn the_step_that_lifts_the_tip_is_free_and_the_last() {
    let mut env = Acrobot::from_state([PI, 0.0, 0.0, 0.0]);
    assert_eq!(turn(&mut env, 1), Step { reward: 0.0, end: End::Terminated });
    let mut env = Acrobot::from_state([0.0, 0.0, 0.0, 0.0]);
    assert_eq!(turn(&mut env, 1), Step { reward: -1.0, end: End::No });
}

#[test]
fn angles_are_wrapped_however_far_they_went() {
    for turns in [-3.0, -1.0, 0.0, 1.0, 2.0] {
        for angle in [-3.0, -0.5, 0.0, 1.0, 3.1] {
            assert!((wrap(angle + turns * TAU) - angle).abs() < 1e-12);
        }
    }
    assert_eq!((wrap(PI), wrap(-PI)), (PI, -PI));
}

#[test]
fn an_action_that_does_not_exist_is_an_error() {
    let error = Acrobot::new().step(ActionRef::Discrete(&[3]), ObsMut::F32(&mut [0.0; 6])).unwrap_err();
    assert_eq!(error.to_string(), "Acrobot has the actions 0 to 2, got 3");
}
