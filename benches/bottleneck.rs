//! Does the advice of [`Bottleneck`] come true? Each case is run, changed as advised, and run again.
//!
//! ```text
//! cargo bench --bench bottleneck
//! ```
//!
//! Environments and learner are slow by sleeping, so that the machine is never the limit.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "../tests/all/fixtures.rs"]
mod fixtures;

use std::thread;
use std::time::Duration;

use pronk::bottleneck::Bottleneck;
use pronk::envs::CartPole;
use pronk::prelude::*;

use fixtures::Hooked;

/// Warm-up before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// CartPole whose steps sleep, which costs time but no processor.
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

/// Env-steps per second of a run with `workers`, and its bottleneck.
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

fn main() {
    let ms = Duration::from_millis;
    let cases = [
        ("environments are the limit", 2, ms(2), Duration::ZERO),
        ("the learner is the limit", 4, ms(1), ms(20)),
        // Two workers make a batch in 20 ms, and the learner takes 12 ms for it, so the gain is at most 1.7
        // times.
        ("environments, then the learner", 2, ms(2), ms(12)),
    ];
    for (name, workers, step, update) in cases {
        let (rate, bottleneck) = measure(workers, step, update);
        println!("{name}: {rate:.0} env-steps/s\n    {bottleneck}");
        let Some(advice) = bottleneck.advice else { continue };
        let (changed, _) = measure(advice.to, step, update);
        let (is, error) = (changed / rate, 100.0 * (changed / rate / advice.speedup - 1.0));
        println!(
            "    {} workers: {changed:.0} env-steps/s, ×{is:.2} for ×{:.2} predicted ({error:+.0} %)",
            advice.to, advice.speedup
        );
    }
}
