//! Environments that hang: they are left behind, named and replaced, and limits hold all the same.

use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{StopReason, TrainResult};

use crate::failures::check;
use crate::fixtures::{iterations, small, with, without_hanging};

/// CartPole that hangs in its first step until the other end of the channel is dropped.
pub(crate) struct Stuck {
    pub(crate) inner: CartPole,
    pub(crate) hang: Option<crossbeam_channel::Receiver<()>>,
}

impl Env for Stuck {
    fn spec(&self) -> EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        if let Some(hang) = &self.hang {
            let _ = hang.recv();
        }
        self.inner.step(action, obs)
    }
}

#[test]
fn an_environment_that_hangs_is_left_behind_and_named() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    let took = without_hanging("a run with a hung environment", move || {
        let make = move |context: &EnvContext| Stuck {
            inner: CartPole::new(),
            hang: (context.worker == 1).then(|| hang.clone()),
        };
        let mut trainer = Trainer::new(small(2), make).unwrap();
        assert!(trainer.by_ref().take(3).all(|result| result.is_ok()));
        let began = Instant::now();
        let run = trainer.finish().unwrap();
        assert_eq!(run.not_joined, ["rollout-1"]);
        assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
        began.elapsed()
    });
    // The deadline is one second. Ten leave a busy machine room and are far from the minute that the learner
    // would get.
    assert!(took < Duration::from_secs(10), "ending took {took:?}");
    drop(let_go);
}

#[test]
fn an_environment_that_hangs_is_replaced_and_the_run_goes_on() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    without_hanging("a run that leaves a hung environment behind", move || {
        let make = move |context: &EnvContext| Stuck {
            inner: CartPole::new(),
            hang: (context.worker == 1 && context.incarnation == 0).then(|| hang.clone()),
        };
        // Far longer than any step takes, on a busy machine too.
        let env_hang_timeout = Some(Duration::from_millis(300));
        let mut trainer =
            Trainer::new(with(small(1), |c| c.supervision.env_hang_timeout = env_hang_timeout), make).unwrap();
        let trained = trainer.by_ref().map(Result::unwrap).find(|result| result.env_steps_trained > 0).unwrap();
        let abandoned = trained.dict.get("workers.abandoned").and_then(|list| list.as_array()).map(Vec::len);
        assert_eq!(abandoned, Some(1));
        assert_eq!(trained.dict.number("num_healthy_workers"), Some(1.0));
        let run = trainer.finish().unwrap();
        assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
        assert_eq!(run.not_joined, ["rollout-1"]);
        assert!(run.abandoned.newest[0].contains("environment 0 of rollout-1 (CartPole-v1"), "{:?}", run.abandoned);
    });
    drop(let_go);
}

#[test]
fn results_do_not_grow_with_the_threads_that_were_left_behind() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    without_hanging("a run that leaves 1,000 threads behind", move || {
        let make = move |_: &EnvContext| Stuck { inner: CartPole::new(), hang: Some(hang.clone()) };
        let mut config = small(8);
        config.workers.num_envs_per_worker = 1;
        config.learner.train_batch_size = 8;
        config.supervision.env_hang_timeout = Some(Duration::from_millis(2));
        config.supervision.num_consecutive_worker_failures_tolerance = u32::MAX;
        config.supervision.max_num_worker_restarts = u32::MAX;
        config.learner.learner_queue_timeout = Duration::from_millis(1);
        let mut trainer = Trainer::new(config, make).unwrap();
        let mut after = |restarts: f64| {
            let late = |result: &TrainResult| result.dict.number("workers.restarts") >= Some(restarts);
            trainer.by_ref().map(Result::unwrap).find(late).unwrap()
        };
        // But for failures of one iteration, of which there may be none.
        let size = |result: &TrainResult| {
            let mut workers = result.dict.as_json()["workers"].clone();
            workers.as_object_mut().unwrap().remove("newest_failures");
            workers.to_string().len()
        };
        let (few, many) = (after(20.0), after(1000.0));
        assert!(size(&many) < size(&few) + 1000, "{} bytes became {}", size(&few), size(&many));
        assert!(many.dict.number("workers.num_abandoned") >= Some(1000.0));
        assert_eq!(many.dict.get("workers.abandoned").and_then(|list| list.as_array()).map(Vec::len), Some(20));
    });
    drop(let_go);
}

#[test]
fn a_run_whose_only_environment_hangs_ends_when_the_budget_is_spent() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    without_hanging("a run of hung environments", move || {
        let make = move |_: &EnvContext| Stuck { inner: CartPole::new(), hang: Some(hang.clone()) };
        let env_hang_timeout = Some(Duration::from_millis(100));
        let mut config = small(1);
        config.supervision.env_hang_timeout = env_hang_timeout;
        config.supervision.max_num_worker_restarts = 2;
        let result = Trainer::new(config, make).unwrap().run(iterations(1_000_000));
        check(result, "rollout-1.2", &["has not returned", "max_num_worker_restarts", "step 1"]);
    });
    drop(let_go);
}

#[test]
fn a_starved_learner_is_in_the_results() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    without_hanging("a run whose learner starves", move || {
        let make = move |_: &EnvContext| Stuck { inner: CartPole::new(), hang: Some(hang.clone()) };
        let mut config = small(1);
        config.learner.learner_queue_timeout = Duration::from_millis(50);
        let mut trainer = Trainer::new(config, make).unwrap();
        let result = trainer.by_ref().take(2).map(Result::unwrap).last().unwrap();
        let starved = result.dict.get("learner_health.starved").and_then(|text| text.as_str());
        assert!(starved.is_some_and(|text| text.contains("rollout-1 `stepping`")), "{result}");
        // Not one result after the other as fast as they can be made.
        assert!(result.time_this_iteration >= Duration::from_secs(1));
    });
    drop(let_go);
}

#[test]
fn a_time_limit_holds_though_nothing_comes_in() {
    let (let_go, hang) = crossbeam_channel::bounded::<()>(0);
    let run = without_hanging("a run whose environments all hang", move || {
        let make = move |_: &EnvContext| Stuck { inner: CartPole::new(), hang: Some(hang.clone()) };
        let stop = StopWhen { time: Some(Duration::from_millis(100)), ..StopWhen::default() };
        Trainer::new(small(2), make).unwrap().run(stop).unwrap()
    });
    assert_eq!(run.reason, Some(StopReason::Time));
    assert_eq!(run.not_joined.len(), 2);
    drop(let_go);
}
