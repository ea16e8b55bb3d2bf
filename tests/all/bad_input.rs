//! Bad input gets a clear error: what, where, and what to do.

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{LearnError, Space, TrainError};

use crate::fixtures::{Fault, Faulty, iterations, small, without_hanging};

/// An environment with any spaces, which never goes far.
struct AnySpaces(Space, Space);

impl Env for AnySpaces {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "AnySpaces".to_owned(),
            observation: self.0.clone(),
            action: self.1.clone(),
            max_episode_steps: Some(5),
            action_mask: false,
        }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&[0.5, 0.5])
    }

    fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        obs.write(&[0.5, 0.5])?;
        Ok(Step { reward: 1.0, end: pronk::End::No })
    }
}

fn boxed(len: usize) -> Space {
    Space::boxed(vec![0.0; len], vec![1.0; len], vec![len]).unwrap()
}

/// The error of a trainer that must not start, which has to say each of `words`.
fn refused<E: Env + 'static>(
    workers: usize,
    make: fn(&EnvContext) -> Result<E, EnvError>,
    words: &[&str],
) -> TrainError {
    let Err(error) = Trainer::new(small(workers), make) else { panic!("it was to be refused: {words:?}") };
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
    error
}

#[test]
fn a_config_that_cannot_work_starts_nothing() {
    let mut config = small(1);
    config.learner.train_batch_size = 0;
    let Err(error) = Trainer::new(config, |_: &EnvContext| CartPole::new()) else { panic!("it was to be refused") };
    assert!(matches!(error, TrainError::Config(_)), "{error:?}");
    assert!(error.to_string().contains("train_batch_size"), "{error}");
}

#[test]
fn an_action_space_that_contradicts_itself_is_named() {
    for workers in [0, 2] {
        let make = |_: &EnvContext| Ok(AnySpaces(boxed(2), Space::MultiDiscrete { nvec: vec![2, 0] }));
        refused(workers, make, &["MultiDiscrete([2, 0])", "choice 1"]);
    }
}

#[test]
fn an_environment_that_writes_another_length_than_it_says_is_named() {
    let make = |_: &EnvContext| AnySpaces(boxed(3), Space::discrete(2).unwrap());
    for workers in [0, 1] {
        let result = Trainer::new(small(workers), make).and_then(|trainer| Ok(trainer.run(iterations(5))?));
        let text = result.expect_err("2 values are not 3").to_string();
        assert!(text.contains("2 observation values") && text.contains('3'), "{text}");
    }
}

#[test]
fn an_environment_that_cannot_be_made_starts_nothing() {
    for workers in [0, 3] {
        let failing = |_: &EnvContext| Err::<CartPole, _>(EnvError::new("no display"));
        refused(workers, failing, &["no display"]);
        let panicking = |_: &EnvContext| -> Result<CartPole, EnvError> { panic!("no licence") };
        refused(workers, panicking, &["no licence"]);
    }
    let third = |context: &EnvContext| match context.worker {
        3 => Err(EnvError::new("only two licences")),
        _ => Ok(CartPole::new()),
    };
    let error = refused(3, third, &["rollout-3", "only two licences"]);
    assert!(matches!(error, TrainError::Start(_)), "{error:?}");
}

#[test]
fn non_finite_observations_and_rewards_are_named_and_never_trained_on() {
    for (fault, words) in
        [(Fault::NanObservation, ["observation element 1", "NaN"]), (Fault::InfiniteReward, ["reward", "inf"])]
    {
        for workers in [0, 2] {
            let error = without_hanging("non-finite", move || {
                let trainer = Trainer::new(small(workers), move |_: &EnvContext| Faulty::new(fault, 1)).unwrap();
                trainer.run(iterations(1_000_000)).expect_err("every episode goes wrong")
            });
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert!(error.cause.thread().is_some_and(|thread| thread.starts_with("rollout-")), "{error:?}");
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run_with_that_error_and_no_nan_weights() {
    // The first update throws the weights so far away that every later loss overflows.
    for workers in [0, 2] {
        let error = without_hanging("overflow", move || {
            let mut config = small(workers);
            config.learner.lr = 1e30;
            config.learner.grad_clip = None;
            config.learner.max_consecutive_quarantined = 3;
            let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
            trainer.run(iterations(1_000_000)).expect_err("1e30 is no learning rate")
        });
        let text = error.to_string();
        assert!(text.contains("not finite") || text.contains("non-finite"), "{text}");
    }
}

#[test]
fn a_learner_that_cannot_be_built_is_an_error() {
    let replaced = Trainer::builder(small(1))
        .env(|_: &EnvContext| CartPole::new())
        .learner(|_| Err(LearnError::Config { reason: "no learner today".to_owned() }.into()))
        .build();
    let Err(error) = replaced else { panic!("it was to be refused") };
    assert!(error.to_string().contains("no learner today"), "{error}");
}
