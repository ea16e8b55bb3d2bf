//! Under deterministic admission the same run twice has the same weights and results, whatever the timing.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pronk::config::{Admission, InferencePlacement};
use pronk::envs::{CartPole, Pendulum, Recall, TicTacToe};
use pronk::prelude::*;
use pronk::{
    AppoConfig, EnvFactory, Gather, MultiAgentConfig, PpoConfig, ResultDict, Run, StopReason, Vectorised, reporter_fn,
};
use serde_json::Value;

use crate::fixtures::{Fault, Faulty, are_refused, small, with, without_hanging};

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

pub(crate) fn without_times(mut value: Value, path: &str) -> Value {
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

pub(crate) fn deterministic(workers: usize, lag: usize) -> TrainerConfig {
    with(small(workers), |config| {
        config.learner.admission = Admission::Deterministic { lag };
        config.learner.learner_queue_size = None;
        config.learner.train_batch_size = 48;
        config.results.min_sample_timesteps_per_iteration = 200;
        config.results.weights_digest = true;
    })
}

#[test]
fn a_run_that_was_iterated_before_ends_at_its_limit_too() {
    let run = without_hanging("a run to its limit", || {
        let mut trainer = Trainer::new(deterministic(2, 1), |_: &EnvContext| CartPole::new()).unwrap();
        trainer.next().unwrap().unwrap();
        trainer.run(StopWhen { env_steps: Some(3_000), ..StopWhen::default() }).unwrap()
    });
    assert_eq!(run.reason, Some(StopReason::EnvSteps));
    assert!(run.ledger_closed() && run.steps.sampled.env >= 3_000, "{:?}", run.steps);
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
                with(config(), |config| config.learner.num_learner_threads = NonZeroUsize::new(2)),
                |_: &EnvContext| moody(CartPole::new()),
            );
            assert!(once.results.len() >= 7, "{what}: {} results", once.results.len());
            check_same(&what, &once, &again);
        }
    }
}

/// A CartPole that remembers: with an LSTM.
pub(crate) fn recurrent(config: &mut TrainerConfig) {
    config.model.use_lstm = true;
    config.model.lstm_cell_size = 8;
}

#[test]
fn the_same_run_twice_is_the_same_for_every_algorithm_and_way_of_training() {
    type Change = fn(&mut TrainerConfig);
    let cases: [(&str, Change); 12] = [
        ("appo", |config| config.algorithm = AppoConfig::default().into()),
        ("ppo, minibatches", |config| {
            config.algorithm = PpoConfig::default().into();
            config.learner.num_sgd_iter = 3;
            config.learner.sgd_minibatch_size = NonZeroUsize::new(16);
        }),
        ("a ring of 2, 3 passes", |config| {
            config.learner.minibatch_buffer_size = 2;
            config.learner.num_sgd_iter = 3;
        }),
        ("lstm", recurrent),
        ("replay", |config| {
            config.learner.replay_proportion = 0.7;
            config.learner.replay_buffer_num_slots = 5;
        }),
        ("stacks", |config| {
            config.learner.num_multi_gpu_tower_stacks = 2;
            config.learner.num_sgd_iter = 2;
        }),
        ("two devices", |config| config.learner.devices = vec![pronk::DeviceSpec::Cpu; 2]),
        ("broadcast_interval 3", |config| config.learner.broadcast_interval = 3),
        ("groups, all", |config| config.workers.num_env_groups = 2),
        ("groups in turn", |config| {
            config.workers.num_env_groups = 2;
            config.workers.gather = Gather::InTurn;
        }),
        ("groups in turn, lstm", |config| {
            config.workers.num_env_groups = 2;
            config.workers.gather = Gather::InTurn;
            recurrent(config);
        }),
        ("rmsprop", |config| config.learner.opt_type = pronk::config::OptType::RmsProp),
    ];
    for (what, change) in cases {
        let config = || with(deterministic(2, 2), change);
        let once = outcome(config(), |_: &EnvContext| CartPole::new());
        let again = outcome(config(), |_: &EnvContext| moody(CartPole::new()));
        check_same(what, &once, &again);
    }
}

#[test]
fn environments_of_every_kind_repeat() {
    let config = || deterministic(2, 1);
    let pendulum = || outcome(config(), |_: &EnvContext| moody(Pendulum::new()));
    check_same("continuous actions", &pendulum(), &pendulum());
    let vectorised = || outcome(config(), Vectorised::<CartPole>::new());
    check_same("vectorised", &vectorised(), &vectorised());
    check_same("vectorised as serial", &vectorised(), &outcome(config(), |_: &EnvContext| CartPole::new()));
    let recall = || outcome(with(config(), recurrent), |_: &EnvContext| moody(Recall::new(5)));
    check_same("an environment that needs memory", &recall(), &recall());
}

#[test]
fn several_agents_repeat() {
    // Workers end with agent-steps that are in no fragment: in the middle of a round, and where one ends.
    for (workers, limit) in [(3, 1_500), (8, 1_500), (8, 1_440)] {
        let once = || {
            let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
            let builder = Trainer::builder(deterministic(workers, 2));
            let trainer = builder.multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents).build().unwrap();
            run(trainer, env_steps(limit)).0
        };
        let first = once();
        (0..3).for_each(|_| check_same(&format!("two policies, {workers} workers, {limit}"), &first, &once()));
    }
}

#[test]
fn failures_that_are_functions_of_the_seed_repeat() {
    for fault in [Fault::Error, Fault::Panic, Fault::NanObservation, Fault::InfiniteReward] {
        for groups in [1, 2] {
            let once = |backoff| {
                let config = with(deterministic(2, 2), |config| {
                    config.workers.num_env_groups = groups;
                    config.supervision.worker_restart_backoff = backoff;
                    config.supervision.num_consecutive_worker_failures_tolerance = 1_000;
                });
                outcome(config, move |_: &EnvContext| Faulty::new(fault, 7))
            };
            let (one, other) = (once(Duration::from_micros(10)), once(Duration::from_micros(900)));
            let failures: u64 = one.results.iter().filter_map(|it| it["workers"]["failures_this_iter"].as_u64()).sum();
            assert!(failures > 3, "{fault:?}: {failures} failures");
            check_same(&format!("{fault:?}, {groups} groups"), &one, &other);
        }
    }
}

#[test]
fn one_worker_without_lag_is_the_run_without_threads_bit_for_bit() {
    for (what, change) in [
        ("impala", (|_| {}) as fn(&mut TrainerConfig)),
        ("ppo", |config| config.algorithm = PpoConfig::default().into()),
        ("passes", |config| config.learner.num_sgd_iter = 3),
        ("lstm", recurrent),
    ] {
        let chain = |workers| {
            let outcome = outcome(with(deterministic(workers, 0), change), |_: &EnvContext| CartPole::new());
            (outcome.results.iter().map(|it| it["digest_chain"].clone()).collect::<Vec<_>>(), outcome.weights)
        };
        assert_eq!(chain(0), chain(1), "{what}");
    }
    let free = with(deterministic(0, 0), |config| config.learner.admission = Admission::Free);
    let inline = outcome(free, |_: &EnvContext| CartPole::new());
    let threads = outcome(deterministic(1, 0), |_: &EnvContext| CartPole::new());
    assert_eq!(inline.results.last().unwrap()["digest_chain"], threads.results.last().unwrap()["digest_chain"]);
}

#[test]
fn a_run_stops_at_its_limit_exactly() {
    for limit in [16, 100, 1_000, 1_001] {
        let (_, run) =
            run(Trainer::new(deterministic(3, 4), |_: &EnvContext| CartPole::new()).unwrap(), env_steps(limit));
        assert_eq!(run.steps.sampled.env, limit.next_multiple_of(16), "whole fragments of 16 env-steps");
    }
}

#[test]
fn what_depends_on_time_is_refused_with_the_reason() {
    let refused = |change: fn(&mut TrainerConfig)| with(deterministic(2, 1), change);
    are_refused([
        (refused(|config| config.workers.inference = InferencePlacement::Shared), "inference", "depend on time"),
        (refused(|config| config.learner.max_lag = Some(3)), "max_lag", "the lag is a constant"),
        (refused(|config| config.learner.learner_queue_size = Some(4)), "learner_queue_size", "lanes"),
        (
            refused(|config| config.results.min_sample_timesteps_per_iteration = 0),
            "min_sample_timesteps_per_iteration",
            "cut by env-steps",
        ),
        (refused(|config| config.workers.num_rollout_workers = 0), "admission", "set lag to 0"),
        (
            refused(|config| {
                config.workers.num_env_groups = 2;
                config.workers.gather = Gather::AtLeast(NonZeroUsize::MIN);
            }),
            "gather",
            "the fastest groups must not decide",
        ),
        (
            refused(|config| {
                config.learner.num_multi_gpu_tower_stacks = 2;
                config.learner.num_data_load_threads = 2;
            }),
            "num_data_load_threads",
            "set 1",
        ),
    ]);
}

#[test]
fn what_ends_the_promise_is_named_in_every_later_result() {
    // An iteration that takes minutes, ended after a moment.
    let long = |config: &mut TrainerConfig| config.results.min_sample_timesteps_per_iteration = 1_000_000_000;
    let stop = StopWhen { time: Some(Duration::from_millis(50)), ..StopWhen::default() };
    let trainer = Trainer::new(with(deterministic(2, 1), long), |_: &EnvContext| CartPole::new()).unwrap();
    let results = run(trainer, stop).0.results;
    let last = results.last().unwrap()["deterministic"].as_str().unwrap();
    assert!(last.contains("the iteration was ended by the clock or a signal"), "{last}");
    let free =
        outcome(with(deterministic(1, 0), |config| config.learner.admission = Admission::Free), |_: &EnvContext| {
            CartPole::new()
        });
    assert!(free.results.iter().all(|result| result["deterministic"] == false));
}

#[test]
fn a_hang_ends_the_promise_and_says_which() {
    struct HangsOnce {
        inner: CartPole,
        left: Option<u32>,
    }
    impl Env for HangsOnce {
        fn spec(&self) -> pronk::EnvSpec {
            self.inner.spec()
        }

        fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
            self.inner.reset(seed, obs)
        }

        fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
            self.left = self.left.map(|left| left.saturating_sub(1));
            if self.left == Some(0) {
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(Duration::from_secs(3));
            }
            self.inner.step(action, obs)
        }
    }
    let make = |context: &EnvContext| HangsOnce {
        inner: CartPole::new(),
        left: ((context.worker, context.index, context.incarnation) == (2, 0, 0)).then_some(150),
    };
    let outcome = {
        let config = with(deterministic(2, 2), |config| {
            config.supervision.env_hang_timeout = Some(Duration::from_secs(1));
        });
        run(Trainer::new(config, make).unwrap(), env_steps(8_000)).0
    };
    let said: Vec<_> = outcome.results.iter().map(|result| &result["deterministic"]).collect();
    let ended = said.iter().position(|it| it.is_string()).expect("the hang is in the results");
    assert!(
        said[..ended].iter().all(|it| **it == true) && said[ended..].iter().all(|it| *it == said[ended]),
        "{said:?}"
    );
    let text = said[ended].as_str().unwrap();
    assert!(text.contains("abandoned rollout-2") && text.starts_with("until iteration "), "{text}");
}
