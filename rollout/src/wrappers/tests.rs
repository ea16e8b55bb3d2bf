#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_policy::Space;

use super::*;
use crate::check::check_env;
use crate::env::{ActionRef, CallMonitor, Env, EnvError, ObsMut, VectorContext};
use crate::envs::{CartPole, Masked, Pendulum};
use crate::pool::EnvFactory;
use crate::testing::{Counter, Fault};
use crate::vector::VectorStep;

/// The return and the length of the first episode that ends.
fn first_episode(factory: impl EnvFactory) -> (f64, u32) {
    let context = VectorContext { seed: 1, ..VectorContext::default() };
    let mut envs = factory.make_vector(&context, 1, &CallMonitor::new()).unwrap();
    let obs_len = envs.spec().observation.obs_len();
    let (mut obs, mut episodes) = (vec![0.0; obs_len], Vec::new());
    envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
    while episodes.is_empty() {
        let out = VectorStep {
            t: 0,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut [0.0],
            ends: &mut [End::No],
            final_obs: &mut FinalObs::new(ObsKind::F32, obs_len),
        };
        envs.step(ActionRef::Discrete(&[0]), out).unwrap();
        envs.drain_episodes(&mut episodes);
    }
    (episodes[0].episode_return, episodes[0].episode_len)
}

/// Rewards 1, 2, …, 10.
fn ten() -> Counter {
    Counter::new(&[(10, End::Terminated)])
}

#[test]
fn wrapped_environments_keep_the_rules() {
    check_env(TimeLimit::new(CartPole::new(), 7), 1).unwrap();
    check_env(TransformReward::new(CartPole::new(), |reward| -reward), 1).unwrap();
    check_env(ClipReward::new(Pendulum::new(), -1.0, 0.0).unwrap(), 1).unwrap();
    let space = Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap();
    check_env(TransformObservation::new(CartPole::new(), space, |seen, row| row[0] = seen[2]).unwrap(), 1).unwrap();
    check_env(Chaos::new(CartPole::new(), ChaosConfig::default()).unwrap(), 1).unwrap();
}

#[test]
fn a_time_limit_truncates_and_none_does_not() {
    assert_eq!(first_episode(|_: &_| TimeLimit::new(ten(), 4)), (10.0, 4));
    assert_eq!(first_episode(|_: &_| TimeLimit::new(ten().with_limit(4), None)), (55.0, 10));
}

#[test]
fn returns_are_sums_of_the_rewards_that_come_out() {
    assert_eq!(first_episode(|_: &_| TransformReward::new(ten(), |reward| 2.0 * reward)), (110.0, 10));
    assert_eq!(first_episode(|_: &_| ClipReward::new(ten(), 2.0, 5.0)), (2.0 + 2.0 + 3.0 + 4.0 + 6.0 * 5.0, 10));
}

#[test]
fn a_reward_that_is_none_is_not_clipped_into_one() {
    let mut env = ClipReward::new(TransformReward::new(ten(), |_| f32::NAN), -1.0, 1.0).unwrap();
    let mut obs = [0.0; 3];
    env.reset(0, ObsMut::F32(&mut obs)).unwrap();
    assert!(env.step(ActionRef::Discrete(&[0]), ObsMut::F32(&mut obs)).unwrap().reward.is_nan());
}

#[test]
fn bytes_are_not_transformed_as_floats() {
    let bytes = Space::bytes(vec![2]).unwrap();
    let error =
        TransformObservation::new(CartPole::new(), bytes, |_, _| {}).map(drop).expect_err("refused").to_string();
    assert!(error.contains("but the given space is"), "{error}");
}

#[test]
fn frames_come_through_every_wrapper() {
    fn check<E: Env>(wrap: impl Fn(Box<dyn Env>) -> Result<E, EnvError>) {
        let mut wrapped = wrap(Box::new(CartPole::from_state([0.5, 0.0, 0.1, 0.0]))).unwrap();
        let frame = wrapped.render().unwrap().expect("CartPole draws itself");
        assert_eq!(Some(frame), CartPole::from_state([0.5, 0.0, 0.1, 0.0]).render().unwrap());
        assert_eq!(wrap(Box::new(Masked::new(4, 10))).unwrap().render().unwrap(), None, "Masked has no pictures");
    }
    check(|env| Ok(TimeLimit::new(env, 9)));
    check(|env| Ok(TransformReward::new(env, |reward| reward)));
    check(|env| ClipReward::new(env, 0.0, 1.0));
    check(|env| Chaos::new(env, ChaosConfig::default()));
    let space = Space::boxed(vec![0.0], vec![9.0], vec![1]).unwrap();
    check(move |env| TransformObservation::new(env, space.clone(), |seen, row| row[0] = seen[0]));
}

#[test]
fn masks_and_failures_come_through_every_wrapper() {
    fn check<E: Env>(wrap: impl Fn(Box<dyn Env>) -> Result<E, EnvError>) {
        let mut masked = wrap(Box::new(Masked::new(4, 10))).unwrap();
        let mut bare = Masked::new(4, 10);
        let mut obs = vec![0.0; masked.spec().observation.obs_len()];
        masked.reset(5, ObsMut::F32(&mut obs)).unwrap();
        bare.reset(5, ObsMut::F32(&mut [0.0])).unwrap();
        let mut masks = [[true; 4]; 2];
        masked.action_mask(&mut masks[0]).unwrap();
        bare.action_mask(&mut masks[1]).unwrap();
        assert_eq!(masks[0], masks[1]);

        let mut failing = wrap(Box::new(ten().with_fault(Fault::StepErr(1)))).unwrap();
        let mut obs = vec![0.0; failing.spec().observation.obs_len()];
        failing.reset(0, ObsMut::F32(&mut obs)).unwrap();
        let error = failing.step(ActionRef::Discrete(&[0]), ObsMut::F32(&mut obs)).expect_err("planted");
        assert_eq!(error.to_string(), "planted step error");
    }
    check(|env| Ok(TimeLimit::new(env, 9)));
    check(|env| Ok(TransformReward::new(env, |reward| reward)));
    check(|env| ClipReward::new(env, 0.0, 1.0));
    check(|env| Chaos::new(env, ChaosConfig::default()));
    let space = Space::boxed(vec![0.0], vec![9.0], vec![1]).unwrap();
    check(move |env| TransformObservation::new(env, space.clone(), |seen, row| row[0] = seen[0]));
}
