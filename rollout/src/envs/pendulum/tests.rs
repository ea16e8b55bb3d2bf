#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::End;

use super::*;
use crate::check::check_env;

fn turn(env: &mut Pendulum, torque: f32) -> Step {
    env.step(ActionRef::Continuous(&[torque]), ObsMut::F32(&mut [0.0; 3])).unwrap()
}

#[test]
fn pendulum_keeps_the_rules_of_an_environment() {
    check_env(Pendulum::new(), 1).unwrap();
}

#[test]
fn a_reset_begins_anywhere_and_slowly() {
    let mut env = Pendulum::new();
    let states: Vec<[f64; 2]> = (0..300)
        .map(|seed| {
            env.reset(seed, ObsMut::F32(&mut [0.0; 3])).unwrap();
            env.state()
        })
        .collect();
    assert!(states.iter().all(|[angle, velocity]| angle.abs() <= PI && velocity.abs() <= 1.0));
    let mean_size = |i: usize| states.iter().map(|state| state[i].abs()).sum::<f64>() / 300.0;
    assert!((mean_size(0) - PI / 2.0).abs() < 0.2 && (mean_size(1) - 0.5).abs() < 0.06);
}

#[test]
fn standing_upright_costs_nothing_and_hanging_down_the_most() {
    assert_eq!(turn(&mut Pendulum::from_state([0.0, 0.0]), 0.0), Step { reward: 0.0, end: End::No });
    let down = turn(&mut Pendulum::new(), 0.0).reward;
    assert!((down + (PI * PI) as f32).abs() < 1e-5, "{down}");
    let turned = turn(&mut Pendulum::from_state([3.0 * TAU, 0.0]), 0.0).reward;
    assert!(turned.abs() < 1e-20, "a full turn more is the same angle: {turned}");
}

#[test]
fn a_torque_out_of_bounds_is_clipped_and_costs_as_the_bound_does() {
    let (mut bound, mut beyond) = (Pendulum::new(), Pendulum::new());
    assert_eq!(turn(&mut bound, 2.0), turn(&mut beyond, f32::INFINITY));
    assert_eq!(bound.state(), beyond.state());
}

#[test]
fn an_action_that_is_no_number_is_an_error() {
    let error = Pendulum::new().step(ActionRef::Continuous(&[f32::NAN]), ObsMut::F32(&mut [0.0; 3])).unwrap_err();
    assert_eq!(error.to_string(), "Pendulum takes one number, got [NaN]");
}
