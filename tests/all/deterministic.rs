//! Under deterministic admission the same run twice has the same weights and results, whatever the timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pronk::config::Admission;
use pronk::envs::{CartPole, Pendulum, Recall, TicTacToe};
use pronk::learner::{Ppo, PpoConfig};
use pronk::prelude::*;
use pronk::{
    AppoConfig, EnvFactory, Gather, MultiAgentConfig, ResultDict, Run, Trainer, Vectorised, reporter_fn,
};
use serde_json::Value;

use crate::fixtures::{Fault, Faulty, small, with};

/// What a run does: every result without what is measured in time, and the digest of the weights.
#[derive(Debug, PartialEq)]
struct Outcome {
    results: Vec<Value>,
    weights: String,
}

/// Keys of results that depend on time, whatever the admission.
const TIMES: [&str; 13] = [
    "time_this_iter_s",
    "time_total_s",
    "progress",
    "timers",
    "throughput",
    "bottleneck",
    "ledger.time",
    "ledger.time_this_iter",
    "info.learner_queue",
    "learner_queue",
    "info.timing_breakdown",
    "loaders",
    "learner_health.starved",
];

fn without_times(mut value: Value, path: &str) -> Value {
    if let Value::Object(entries) = &mut value {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        *entries = std::mem::take(entries)
            .into_iter()
            .filter(|(key, _)| !TIMES.contains(&below(key).as_str()))
            .map(|(key, value)| {
                let path = below(&key);
                (key, without_times(value, &path))
            })
            .collect();
    }
    value
}

fn deterministic(workers: usize, lag: usize) -> TrainerConfig {
    with(small(workers), |config| {
        config.learner.admission = Admission::Deterministic { lag };
        config.learner.learner_queue_size = None;
        config.learner.train_batch_size = 48;
        config.results.min_sample_timesteps_per_iteration = 200;
        config.results.weights_digest = true;
    })
}

fn run(trainer: Trainer, stop: StopWhen) -> (Outcome, Run) {
    let mut trainer = trainer;
    let (results, seen) = std::sync::mpsc::channel();
    trainer.add_reporter(reporter_fn("results", move |result: &ResultDict| {
        let _ = results.send(without_times(serde_json::to_value(result).unwrap(), ""));
        Ok(())
    }));
    let run = trainer.run(stop).unwrap();
    assert!(run.ledger_closed(), "{:?}", run.steps);
    (Outcome { results: seen.try_iter().collect(), weights: run.weights_digest().to_string() }, run)
}

fn env_steps(n: u64) -> StopWhen {
    StopWhen { env_steps: Some(n), ..StopWhen::default() }
}

fn outcome(config: TrainerConfig, env: impl EnvFactory + 'static) -> Outcome {
    run(Trainer::new(config, env).unwrap(), env_steps(1_500)).0
}

/// The first difference between two outcomes, to be read.
fn check_same(what: &str, one: &Outcome, other: &Outcome) {
    assert_eq!(one.results.len(), other.results.len(), "{what}: results");
    for (number, (one, other)) in one.results.iter().zip(&other.results).enumerate() {
        let (Value::Object(one), Value::Object(other)) = (one, other) else { panic!("{what}: no objects") };
        for (key, value) in one {
            assert_eq!(Some(value), other.get(key), "{what}: `{key}` of result {}", number + 1);
        }
        assert_eq!(one.len(), other.len(), "{what}");
    }
    assert_eq!(one.weights, other.weights, "{what}");
    assert_eq!(one.results.last().unwrap()["deterministic"], true, "{what}");
}

/// An environment that takes as long as it likes: no seed decides how long.
struct Moody<E> {
    inner: E,
    steps: u64,
}

static MOOD: AtomicU64 = AtomicU64::new(0);

fn moody<E: Env>(inner: E) -> Moody<E> {
    Moody { inner, steps: MOOD.fetch_add(7, Ordering::Relaxed) }
}

impl<E: Env> Env for Moody<E> {
    fn spec(&self) -> pronk::EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.steps += 1;
        if self.steps.is_multiple_of(17) {
            // Longer than an update, and no two environments or runs at the same steps.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_micros(MOOD.fetch_add(1, Ordering::Relaxed) % 7 * 300));
        }
        self.inner.step(action, obs)
    }
}

#[test]
fn the_same_run_twice_is_the_same_for_any_number_of_workers_and_lag() {
    for workers in [1, 2, 4, 8] {
        for lag in [0, 1, 2, 4] {
            let what = format!("{workers} workers, lag {lag}");
            let config = || deterministic(workers, lag);
            let once = outcome(config(), |_: &EnvContext| CartPole::new());
            let again = outcome(
                with(config(), |config| config.learner.num_learner_threads = std::num::NonZeroUsize::new(2)),
                |_: &EnvContext| moody(CartPole::new()),
            );
            assert!(once.results.len() >= 7, "{what}: {} results", once.results.len());
            check_same(&what, &once, &again);
        }
    }
}
