//! A limit in env-steps ends a run at the limit, not an iteration later.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pronk::envs::{CartPole, TicTacToe};
use pronk::prelude::*;
use pronk::{Gather, MultiAgentConfig, Run, StopReason};
use serde_json::Value;

use crate::fixtures::{small, with, without_hanging};
use crate::hangs::Stuck;

/// Longer than any of these runs: what ends them is the limit.
const LONG: Duration = Duration::from_secs(60);

fn at(env_steps: u64) -> StopWhen {
    StopWhen { env_steps: Some(env_steps), time: Some(LONG), ..StopWhen::default() }
}

/// A run whose first iteration would never be over.
fn endless(workers: usize) -> TrainerConfig {
    let mut config = small(workers);
    config.results.min_time_s_per_iteration = 3600.0;
    config
}

/// The promise of [`StopWhen::env_steps`].
fn check(run: &Run, limit: u64) {
    let config = &run.config;
    let most = limit + (config.workers.num_rollout_workers.max(1) * config.learner.train_batch_size) as u64;
    assert_eq!(run.reason, Some(StopReason::EnvSteps), "limit {limit}: {}", run.summary());
    assert!((limit..=most).contains(&run.steps.sampled.env), "limit {limit}: {}", run.summary());
    assert!(run.ledger_closed(), "{:?}", run.steps);
}

#[test]
fn a_limit_in_env_steps_ends_a_run_within_a_train_batch_of_each_worker() {
    for workers in [0, 1, 2] {
        for limit in [1, 16, 1000] {
            let mut config = endless(workers);
            config.learner.num_sgd_iter = 2;
            let run = without_hanging("a limit", move || {
                let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
                // Time in which a program adds its reporters, say. Nothing is sampled in it.
                let _ = crossbeam_channel::after(Duration::from_millis(20)).recv();
                trainer.run(at(limit)).unwrap()
            });
            check(&run, limit);
            // What was sampled was learned from, but for what makes no train batch.
            let untrained = run.steps.sampled.env - run.steps.trained_once.env;
            assert!(untrained < run.config.learner.train_batch_size as u64, "{workers} workers: {:?}", run.steps);
            assert_eq!(run.result.env_steps_sampled, run.steps.sampled.env);
        }
    }
}

#[test]
fn the_last_line_says_over_how_many_episodes_with_how_many_passes_and_how_fast_after_start_up() {
    let mut config = endless(0);
    config.learner.num_sgd_iter = 3;
    // As a slow import would, and twice: a trainer also asks for the spaces.
    let slow_to_make = |_: &EnvContext| {
        let _ = crossbeam_channel::after(Duration::from_millis(200)).recv();
        CartPole::new()
    };
    let run = Trainer::new(config, slow_to_make).unwrap().run(at(5000)).unwrap();
    let line: Value = serde_json::from_str(&run.summary().to_string()).unwrap();
    assert_eq!(line["num_sgd_iter"], 3);
    assert_eq!(line["episodes"].as_u64(), run.result.dict.get("episodes_covered").and_then(Value::as_u64));
    assert!(run.result.episodes_covered >= 10, "{line}");
    let rate = |key: &str| line[key].as_f64().unwrap();
    assert!(rate("env_steps_per_s_after_start_up") > rate("env_steps_per_s"), "{line}");

    // Without an update there is nothing to measure, and no episode has ended.
    let mut config = endless(0);
    config.learner.train_batch_size = 1000;
    let run = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap().run(at(1)).unwrap();
    let line: Value = serde_json::from_str(&run.summary().to_string()).unwrap();
    assert_eq!((&line["env_steps_per_s_after_start_up"], &line["episodes"]), (&Value::Null, &0.into()), "{line}");
}

#[test]
fn the_same_holds_for_groups_stacks_and_several_agents() {
    // Columns of three fragments may be under way where environments do not wait for each other.
    let groups = |gather| {
        with(endless(2), |c| {
            c.workers.num_env_groups = 2;
            c.learner.train_batch_size = 48;
            c.workers.gather = gather
        })
    };
    let mut stacks = endless(2);
    stacks.learner.num_multi_gpu_tower_stacks = 2;
    stacks.learner.num_data_load_threads = 1;
    for config in [groups(Gather::All), groups(Gather::AtLeast(NonZeroUsize::MIN)), stacks] {
        let run = without_hanging("a limit", move || {
            Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap().run(at(500)).unwrap()
        });
        check(&run, 500);
    }
    for workers in [0, 2] {
        let run = without_hanging("a limit", move || {
            let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
            let trainer =
                Trainer::builder(endless(workers)).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents).build();
            trainer.unwrap().run(at(500)).unwrap()
        });
        check(&run, 500);
    }
}

/// Steps once the environments that hang do.
struct Behind {
    env: Stuck,
    is_hanging: Arc<AtomicBool>,
}

impl Env for Behind {
    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.is_hanging.fetch_or(self.env.hang.is_some(), Ordering::Relaxed);
        while !self.is_hanging.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_micros(100));
        }
        self.env.step(action, obs)
    }
}

#[test]
fn a_worker_that_hangs_holds_no_limit_up() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    let run = without_hanging("a limit", move || {
        let mut config = endless(2);
        config.supervision.env_hang_timeout = None;
        config.learner.learner_queue_timeout = Duration::from_millis(300);
        let is_hanging = Arc::new(AtomicBool::new(false));
        let make = move |context: &EnvContext| Behind {
            env: Stuck { inner: CartPole::new(), hang: (context.worker == 2).then(|| hang.clone()) },
            is_hanging: Arc::clone(&is_hanging),
        };
        Trainer::new(config, make).unwrap().run(at(100)).unwrap()
    });
    drop(let_go);
    assert_eq!((run.reason, run.not_joined), (Some(StopReason::EnvSteps), vec!["rollout-2".to_owned()]));
    assert!(run.steps.sampled.env >= 100);
}
