//! Runs that break what is checked, so that checks of whole processes are seen to fail.

use std::fs::File;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::reporter_fn;

use crate::arguments::Job;
use crate::envs::{Counted, cartpole};
use crate::trainings::{Ended, begin, config, to_the_end, train};

/// A run that does something with each of its results.
fn with(job: &Job, mut act: impl FnMut() + Send + 'static) -> anyhow::Result<Ended> {
    let reporter = reporter_fn("saboteur", move |_: &_| {
        act();
        Ok(())
    });
    to_the_end(job, begin(job, config(job), cartpole).reporter(reporter).build()?)
}

pub(crate) fn leaks_descriptors(job: &Job) -> anyhow::Result<Ended> {
    let mut kept = Vec::new();
    with(job, move || kept.extend((0..40).map(|_| File::open("/dev/null"))))
}

pub(crate) fn leaks_threads(job: &Job) -> anyhow::Result<Ended> {
    with(job, || {
        for _ in 0..10 {
            let kept = || loop {
                std::thread::park();
            };
            drop(std::thread::Builder::new().name("leaked".to_owned()).spawn(kept));
        }
    })
}

pub(crate) fn leaks_memory(job: &Job) -> anyhow::Result<Ended> {
    let mut kept = Vec::new();
    with(job, move || kept.push(vec![1_u8; 64 << 20]))
}

/// CartPole that makes a step in some resets, which no ledger counts.
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

pub(crate) fn skips_a_step(job: &Job) -> anyhow::Result<Ended> {
    train(job, config(job), |_: &EnvContext| Counted::new(Unbooked(CartPole::new())))
}

pub(crate) fn stalls(job: &Job) -> anyhow::Result<Ended> {
    let mut results = 0;
    with(job, move || {
        results += 1;
        if results == 2 {
            loop {
                std::thread::park();
            }
        }
    })
}

/// A run that begins again when a signal has ended it.
pub(crate) fn ignores_signals(job: &Job) -> anyhow::Result<Ended> {
    loop {
        train(job, config(job), cartpole)?;
    }
}

pub(crate) fn fails(job: &Job) -> anyhow::Result<Ended> {
    let mut config = config(job);
    config.learner.lr = 1e38;
    train(job, config, cartpole)
}
