//! What the explainer predicts comes true when the setting is changed.

use std::thread;
use std::time::Duration;

use pronk::bottleneck::{Bottleneck, Limit};
use pronk::envs::CartPole;
use pronk::prelude::*;

use crate::fixtures::{Hooked, alone, small};
use crate::measure;

/// Rate and explanation are those of what follows after this time.
const WARM_UP: Duration = Duration::from_millis(300);

/// CartPole at the end of a slow line: every step takes as long, whatever the processors do.
struct Slow(CartPole, Duration);

impl Env for Slow {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    #[allow(clippy::disallowed_methods)] // What it is slow by is time.
    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        thread::sleep(self.1);
        self.0.step(action, obs)
    }
}

/// Env-steps a second of a run of so many workers, and what the explainer says about it.
fn measure(workers: usize, step: Duration, update: Duration) -> (f64, Bottleneck) {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = workers;
    config.workers.rollout_fragment_length = 10;
    config.learner.train_batch_size = 20;
    config.learner.learner_queue_size = Some(4);
    config.model.fcnet_hiddens = vec![16];
    config.results.min_time_s_per_iteration = WARM_UP.as_secs_f64();
    #[allow(clippy::disallowed_methods)] // What the learner is slow by is time.
    let slow = move |_| {
        thread::sleep(update);
        Ok(())
    };
    let learner = move |learner| Ok(Hooked::boxed(learner, slow));
    let mut trainer = Trainer::builder(config)
        .env(move |_: &EnvContext| Slow(CartPole::new(), step))
        .learner(learner)
        .build()
        .unwrap();
    let first = trainer.next().unwrap().unwrap();
    let last = trainer.by_ref().take(5).map(Result::unwrap).last().unwrap();
    let steps = last.env_steps_trained - first.env_steps_trained;
    let rate = steps as f64 / (last.time_total - first.time_total).as_secs_f64();
    (rate, last.bottleneck.unwrap())
}

/// Changes the setting as advised and holds the rate against the prediction. Time that somebody else took away from the process
/// falsifies what is measured, so it has three tries.
fn prediction_comes_true(limit: Limit, workers: usize, step: Duration, update: Duration) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (rate, bottleneck) = measure(workers, step, update);
        let Some(advice) = bottleneck.advice.filter(|_| bottleneck.limit == limit) else {
            seen.push(format!("{bottleneck:?}"));
            continue;
        };
        assert_eq!((advice.setting, advice.from), ("num_rollout_workers", workers));
        let (changed, _) = measure(advice.to, step, update);
        let error = changed / rate / advice.speedup - 1.0;
        if error.abs() <= 0.2 {
            return;
        }
        seen.push(format!("{bottleneck}: {rate:.0} became {changed:.0} env-steps/s, {:.0} % off", 100.0 * error));
    }
    panic!("{seen:#?}");
}

#[test]
fn more_workers_bring_what_is_predicted_where_environments_are_the_limit() {
    alone("bottleneck::more_workers_bring_what_is_predicted_where_environments_are_the_limit", || {
        prediction_comes_true(Limit::Environments, 2, Duration::from_millis(2), Duration::ZERO);
    });
}

#[test]
fn as_many_workers_as_are_predicted_are_enough_where_the_learner_is_the_limit() {
    alone("bottleneck::as_many_workers_as_are_predicted_are_enough_where_the_learner_is_the_limit", || {
        prediction_comes_true(Limit::Learner, 4, Duration::from_millis(1), Duration::from_millis(20));
    });
}

#[test]
fn more_workers_bring_no_more_than_the_learner_can_take() {
    // Two workers make a batch of 20 in 20 ms, and the learner takes 12 ms for it: 1.7 times as much is all it can take.
    alone("bottleneck::more_workers_bring_no_more_than_the_learner_can_take", || {
        prediction_comes_true(Limit::Environments, 2, Duration::from_millis(2), Duration::from_millis(12));
    });
}

#[test]
fn what_is_measured_names_a_stage_as_the_limit_and_no_thread_that_waits() {
    let mut config = small(1);
    config.results.min_time_s_per_iteration = measure::ITERATION_SECS / 20.0;
    let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let line = measure::measure(trainer, 16).unwrap();
    let limit = line.get("limit").and_then(|limit| limit.as_str()).unwrap();
    let stages = ["environments", "inference", "loading", "learner", "processors", "one_thread", "balance"];
    assert!(stages.contains(&limit), "{limit} is no stage of a run: {}", line.to_json_line());
    // Threads that only wait are shown, as what they are.
    assert!(line.number("threads.supervisor.watching").is_some_and(|share| share > 0.5), "{}", line.to_json_line());
}
