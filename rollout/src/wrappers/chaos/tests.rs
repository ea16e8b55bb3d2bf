#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Instant;

use pronk_buffer::{End, FinalObs, ObsKind};

use super::*;
use crate::env::{CallMonitor, EnvFailure, VectorContext};
use crate::envs::CartPole;
use crate::pool::EnvFactory;
use crate::vector::VectorStep;

const ALL: ChaosConfig = ChaosConfig {
    seed: 3,
    panic: 0.05,
    error: 0.1,
    non_finite: 0.15,
    hang: 0.02,
    slow: 0.2,
    slow_for: Duration::ZERO,
    hang_for: Some(Duration::ZERO),
};

fn faults(config: ChaosConfig, n_steps: usize) -> Vec<Option<Fault>> {
    let mut env = Chaos::new(CartPole::new(), config).unwrap();
    (0..n_steps).map(|_| env.draw()).collect()
}

#[test]
fn faults_come_as_often_as_was_said() {
    let n_steps = 100_000;
    let faults = faults(ALL, n_steps);
    for (fault, name, share) in ALL.shares() {
        let seen = faults.iter().filter(|seen| **seen == Some(fault)).count() as f64 / n_steps as f64;
        assert!((seen - share).abs() < 0.005, "{name}: {seen}, not {share}");
    }
    assert!(self::faults(ChaosConfig::default(), 1000).iter().all(Option::is_none));
}

#[test]
fn the_same_seed_fails_at_the_same_steps_and_another_one_at_others() {
    assert_eq!(faults(ALL, 500), faults(ALL, 500));
    assert_ne!(faults(ALL, 500), faults(ChaosConfig { seed: 4, ..ALL }, 500));
}

#[test]
fn probabilities_that_are_none_are_refused_with_their_name() {
    for (config, words) in [
        (ChaosConfig { panic: -0.1, ..ALL }, "`panic` is -0.1"),
        (ChaosConfig { hang: 1.5, ..ALL }, "`hang` is 1.5"),
        (ChaosConfig { slow: f64::NAN, ..ALL }, "`slow` is NaN"),
        (ChaosConfig { slow: 0.9, ..ALL }, "which is more than 1"),
    ] {
        let error = Chaos::new(CartPole::new(), config).map(drop).expect_err("refused").to_string();
        assert!(error.starts_with("Chaos: ") && error.contains(words), "{error}");
    }
    let tenths = ChaosConfig { panic: 0.1, error: 0.2, non_finite: 0.3, hang: 0.1, slow: 0.3, ..ALL };
    assert!(Chaos::new(CartPole::new(), tenths).is_ok(), "what sums to one but for rounding is fine");
}

/// The first failure of three environments, and how many steps of all of them were made before.
fn first_failure(config: ChaosConfig, incarnation: u32) -> (EnvFailure, usize) {
    let context = VectorContext { worker: 2, incarnation, seed: 9, ..VectorContext::default() };
    let mut envs = config.wrap(|_| CartPole::new()).make_vector(&context, 3, &CallMonitor::new()).unwrap();
    let mut obs = [0.0; 12];
    envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
    for t in 0..10_000 {
        let out = VectorStep {
            t,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut [0.0; 3],
            ends: &mut [End::No; 3],
            final_obs: &mut FinalObs::new(ObsKind::F32, 4),
        };
        if let Err(failure) = envs.step(ActionRef::Discrete(&[0, 1, 0]), out) {
            return (failure, t);
        }
    }
    unreachable!("10,000 steps without a fault")
}

#[test]
fn every_fault_is_seen_as_the_failure_that_it_is() {
    let none = ChaosConfig { hang_for: Some(Duration::from_millis(3)), ..ChaosConfig::default() };
    for (config, key, words) in [
        (ChaosConfig { panic: 0.05, ..none }, "env_panic", "it panicked: Chaos made this panic"),
        (ChaosConfig { error: 0.05, ..none }, "env_error", "Chaos made this error"),
        (ChaosConfig { hang: 0.05, ..none }, "env_error", "Chaos made this hang"),
    ] {
        let (failure, _) = first_failure(config, 0);
        assert_eq!(failure.cause.key(), key);
        assert!(failure.to_string().contains(words), "{failure}");
        assert_eq!(failure.env, "CartPole-v1 with Chaos");
    }
    let keys: std::collections::BTreeSet<_> = (0..20)
        .map(|incarnation| first_failure(ChaosConfig { non_finite: 0.05, ..none }, incarnation).0.cause.key())
        .collect();
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["non_finite_observation", "non_finite_reward"]);
}

#[test]
fn a_slow_step_takes_longer_and_a_hang_as_long_as_was_said() {
    let mut obs = [0.0; 4];
    let mut step = |config| {
        let mut env = Chaos::new(CartPole::new(), config).unwrap();
        env.reset(0, ObsMut::F32(&mut obs)).unwrap();
        let began = Instant::now();
        let step = env.step(ActionRef::Discrete(&[0]), ObsMut::F32(&mut obs));
        (step, began.elapsed())
    };
    let time = Duration::from_millis(4);
    let (slow, slow_took) = step(ChaosConfig { slow: 1.0, slow_for: time, ..ChaosConfig::default() });
    assert_eq!((slow.unwrap().reward, slow_took >= time), (1.0, true));
    let (hang, hang_took) = step(ChaosConfig { hang: 1.0, hang_for: Some(time), ..ChaosConfig::default() });
    assert!(hang.is_err() && hang_took >= time);
}

#[test]
fn an_environment_that_was_rebuilt_does_not_fail_at_the_same_step() {
    let config = ChaosConfig { error: 0.01, ..ChaosConfig::default() };
    let at = |incarnation| {
        let (failure, t) = first_failure(config, incarnation);
        (failure.index, t)
    };
    assert_eq!(at(0), at(0));
    assert_ne!(at(0), at(1));
}
