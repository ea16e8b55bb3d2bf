//! Runs that break what is checked, so that each check is seen to fail.

use std::fs::File;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{ResultDict, reporter_fn};
use serde_json::json;

use crate::arguments::Scene;
use crate::envs::{Counted, cartpole};
use crate::tell::say_value;
use crate::trainings::{Ended, config, to_the_end, train};

/// A run that does something with each of its results before it says it.
fn with(scene: &Scene, mut change: impl FnMut(&mut ResultDict) + Send + 'static) -> anyhow::Result<Ended> {
    let reporter = reporter_fn("saboteur", move |result: &ResultDict| {
        let mut result = result.clone();
        change(&mut result);
        Ok(say_value(&json!(result.as_json()))?)
    });
    to_the_end(scene, Trainer::builder(config(scene)).env(cartpole).reporter(reporter).build()?)
}

pub(crate) fn leaks_descriptors(scene: &Scene) -> anyhow::Result<Ended> {
    let mut kept = Vec::new();
    with(scene, move |_| kept.extend((0..40).map(|_| File::open("/dev/null"))))
}

pub(crate) fn leaks_threads(scene: &Scene) -> anyhow::Result<Ended> {
    with(scene, |_| {
        for _ in 0..10 {
            let kept = || loop {
                std::thread::park();
            };
            drop(std::thread::Builder::new().name("leaked".to_owned()).spawn(kept));
        }
    })
}

pub(crate) fn leaks_memory(scene: &Scene) -> anyhow::Result<Ended> {
    let mut kept = Vec::new();
    with(scene, move |_| kept.push(vec![1_u8; 64 << 20]))
}

/// Adds to a figure of the second result.
fn add(scene: &Scene, path: &'static str, number: f64) -> anyhow::Result<Ended> {
    let mut results = 0;
    with(scene, move |result| {
        results += 1;
        if results == 2 {
            let figure = result.number(path).unwrap_or_default() + number;
            let figure = if figure.fract() == 0.0 { json!(figure as u64) } else { json!(figure) };
            result.set(path, figure);
        }
    })
}

pub(crate) fn miscounts(scene: &Scene) -> anyhow::Result<Ended> {
    add(scene, "ledger.steps.trained_once.env", 1.0)
}

pub(crate) fn loses_time(scene: &Scene) -> anyhow::Result<Ended> {
    add(scene, "ledger.time.learner.wall_secs", 0.3)
}

pub(crate) fn goes_back(scene: &Scene) -> anyhow::Result<Ended> {
    add(scene, "counters.num_weight_broadcasts", 1e9)
}

/// CartPole, one of whose steps is beside the books.
struct Unbooked(CartPole);

impl Env for Unbooked {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, mut obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs.reborrow())?;
        if seed.is_multiple_of(1000) {
            Counted::new(self.0.clone()).step(ActionRef::Discrete(&[0]), obs)?;
        }
        Ok(())
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.0.step(action, obs)
    }
}

pub(crate) fn skips_a_step(scene: &Scene) -> anyhow::Result<Ended> {
    train(scene, config(scene), |_: &EnvContext| Counted::new(Unbooked(CartPole::new())))
}

pub(crate) fn stalls(scene: &Scene) -> anyhow::Result<Ended> {
    let mut results = 0;
    with(scene, move |_| {
        results += 1;
        if results == 2 {
            loop {
                std::thread::park();
            }
        }
    })
}

pub(crate) fn fails(scene: &Scene) -> anyhow::Result<Ended> {
    let mut config = config(scene);
    config.learner.lr = 1e38;
    train(scene, config, cartpole)
}
