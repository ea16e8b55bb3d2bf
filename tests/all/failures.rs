//! The failure matrix: whatever fails, the run ends or goes on as it should, nothing hangs, every thread is
//! joined, and the first cause comes back with the name of its thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::{FailedRun, LearnError, ReportError, Reporter, ResultDict, Run, StopReason, TrainError, TrainResult};

use crate::fixtures::{Fault, Faulty, Hooked, alone, iterations, only, small, with, without_hanging};

const REPEATS: usize = 50;

/// Runs `case` many times for 1 and for 4 workers. It is given a token that everything in the run holds on
/// to: when the run is over and the token is still held, a thread was abandoned.
pub(crate) fn repeat(case: fn(usize, Arc<()>)) {
    for workers in [1, 4] {
        for _ in 0..REPEATS {
            without_hanging("a run of the failure matrix", move || {
                let token = Arc::new(());
                case(workers, token.clone());
                assert_eq!(Arc::strong_count(&token), 1, "a thread outlives the run with {workers} workers");
            });
        }
    }
}

/// CartPole that holds on to the token.
fn cartpole(token: Arc<()>) -> impl Fn(&EnvContext) -> CartPole + Send + Sync {
    move |_| {
        let _held = &token;
        CartPole::new()
    }
}

/// Environments of which those that `which` says go wrong in every episode.
fn faulty(
    token: Arc<()>,
    fault: Fault,
    which: fn(&EnvContext) -> bool,
) -> impl Fn(&EnvContext) -> Faulty + Send + Sync {
    move |context| {
        let _held = &token;
        Faulty::new(fault, if which(context) { 1 } else { u64::MAX })
    }
}

/// A run with a learner that goes wrong at its third pass.
fn sabotaged(workers: usize, token: Arc<()>, at_third: fn() -> Result<(), LearnError>) -> Result<Run, FailedRun> {
    let env = cartpole(token.clone());
    let trainer = Trainer::builder(small(workers))
        .env(env)
        .learner(move |inner| {
            Ok(Hooked::boxed(inner, move |pass| {
                let _held = &token;
                if pass == 3 { at_third() } else { Ok(()) }
            }))
        })
        .build();
    trainer.unwrap().run(iterations(1_000_000))
}

/// The error, which has to name a thread whose name begins with `thread`, and to say each of `words`.
pub(crate) fn check(result: Result<Run, FailedRun>, thread: &str, words: &[&str]) {
    let FailedRun { cause: error, run } = result.expect_err("the run was to fail");
    assert!(run.ledger_closed(), "{:?} {:?}", run.steps, run.thread_times);
    assert!(error.thread().is_some_and(|name| name.starts_with(thread)), "{error:?}");
    let text = error.to_string();
    for word in words.iter().chain([&thread]) {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
}

#[test]
fn the_learner_finishes() {
    repeat(|workers, token| {
        let trainer = Trainer::new(small(workers), cartpole(token)).unwrap();
        let run = trainer.run(iterations(3)).unwrap();
        assert!(run.ledger_closed(), "{:?}", run.steps);
        assert_eq!(run.not_joined, Vec::<String>::new(), "a thread did not end within a second");
    });
}

#[test]
fn the_learner_errs() {
    repeat(|workers, token| {
        let failed = || Err(LearnError::Config { reason: "sabotage".to_owned() });
        check(sabotaged(workers, token, failed), "learner", &["sabotage", "update 3"]);
    });
}

#[test]
fn the_learner_panics() {
    repeat(|workers, token| {
        check(sabotaged(workers, token, || panic!("sabotage")), "learner", &["sabotage", "panicked", "update 3"]);
    });
}

#[test]
fn one_environment_errs_now_and_then() {
    repeat(|workers, token| survive(workers, token, Fault::Error));
}

#[test]
fn one_environment_panics_now_and_then() {
    repeat(|workers, token| survive(workers, token, Fault::Panic));
}

/// A failing environment costs fragments and never the run.
fn survive(workers: usize, token: Arc<()>, fault: Fault) {
    let env = move |context: &EnvContext| {
        let _held = &token;
        let first = context.worker == 1 && context.index == 0 && context.incarnation == 0;
        Faulty::new(fault, if first { 1 } else { u64::MAX })
    };
    let mut trainer = Trainer::new(small(workers), env).unwrap();
    let lost = trainer.by_ref().take(10_000).map(Result::unwrap).find(|result| !result.steps.lost.is_empty());
    assert!(lost.is_some(), "an environment failed and no step was lost");
    let run = trainer.run(iterations(0)).unwrap();
    assert!(run.ledger_closed(), "{:?}", run.steps);
}

#[test]
fn one_environment_errs_for_ever() {
    repeat(|workers, token| {
        let only_one: fn(&EnvContext) -> bool = |context| context.worker == 1 && context.index == 1;
        let mut trainer = Trainer::new(small(workers), faulty(token, Fault::Error, only_one)).unwrap();
        let words = ["environment 1", "rollout-1", "gearbox is stuck", "seed", "step"];
        if workers == 1 {
            check(trainer.run(iterations(1_000_000)), "rollout-1", &words);
            return;
        }
        // The others go on without it.
        let healthy = |result: &TrainResult| result.dict.number("num_healthy_workers");
        let after = trainer.by_ref().map(Result::unwrap).find(|result| healthy(result) == Some(workers as f64 - 1.0));
        assert!(after.is_some());
        assert!(trainer.by_ref().take(3).all(|result| result.is_ok()));
        let run = trainer.finish().unwrap();
        assert!(run.ledger_closed(), "{:?}", run.steps);
        assert_eq!(run.worker_failures.len(), 1);
        let text = run.worker_failures[0].to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        let gave_up = run.result.dict.get("workers.gave_up").and_then(|list| list.as_array()).map(Vec::len);
        assert_eq!(gave_up, Some(1));
    });
}

#[test]
fn every_environment_fails() {
    repeat(|workers, token| {
        let trainer = Trainer::new(small(workers), faulty(token, Fault::Panic, |_| true)).unwrap();
        let result = trainer.run(iterations(1_000_000));
        let Err(FailedRun { cause: TrainError::Workers(causes), .. }) = &result else { panic!("{result:?}") };
        assert_eq!(causes.len(), workers, "the run ends with the last worker");
        check(result, "rollout-", &["gearbox exploded", "seed", "step"]);
    });
}

/// CartPole that never begins an episode.
struct Unresettable;

impl Env for Unresettable {
    fn spec(&self) -> pronk::EnvSpec {
        CartPole::new().spec()
    }

    fn reset(&mut self, _seed: u64, _obs: ObsMut<'_>) -> Result<(), EnvError> {
        Err(EnvError::new("the level file is missing"))
    }

    fn step(&mut self, _action: ActionRef<'_>, _obs: ObsMut<'_>) -> Result<Step, EnvError> {
        Err(EnvError::new("there is no episode"))
    }
}

/// Workers that never give up.
fn tolerant(workers: usize) -> TrainerConfig {
    with(small(workers), |config| {
        config.supervision.num_consecutive_worker_failures_tolerance = u32::MAX;
        config.supervision.max_num_worker_restarts = u32::MAX;
        // Without a batch of fragments the learner starves, which is not what ends these runs.
        config.learner.learner_queue_timeout = Duration::from_secs(3600);
    })
}

#[test]
fn a_run_without_an_episode_because_of_failures_is_no_success() {
    for workers in [0, 2] {
        let FailedRun { cause, run } = without_hanging("a run whose resets fail", move || {
            let trainer = Trainer::new(tolerant(workers), |_: &EnvContext| Unresettable).unwrap();
            let stop = StopWhen { time: Some(Duration::from_millis(500)), ..StopWhen::default() };
            trainer.run(stop).expect_err("nothing was trained")
        });
        let TrainError::NoEpisode { failures, newest } = &cause else { panic!("{workers} workers: {cause:?}") };
        assert!(*failures == run.env_failures.count && *failures > 0, "{:?}", run.env_failures);
        assert!(newest.contains("the level file is missing"), "{newest}");
        assert!(cause.to_string().starts_with("no episode was completed, because environments failed "), "{cause}");
        assert_eq!((run.reason, run.exit_status(), run.result.episodes_covered), (Some(StopReason::Time), 1, 0));
        assert!(run.ledger_closed() && run.whole == pronk::Whole::Learner, "it can be saved and resumed");
    }
}

#[test]
fn a_run_with_few_failures_and_no_episode_is_none_that_failed() {
    // Episodes do not end, and one environment fails once.
    let failed = Arc::new(AtomicUsize::new(0));
    let make = move |_: &EnvContext| Endless(Arc::clone(&failed), 0);
    let mut trainer = Trainer::new(tolerant(1), make).unwrap();
    let restarted = |result: &TrainResult| result.dict.number("workers.restarts") == Some(1.0);
    trainer.by_ref().map(Result::unwrap).find(restarted).unwrap();
    let stop = StopWhen { env_steps: Some(50_000), ..StopWhen::default() };
    let run = without_hanging("a run of one long episode", move || trainer.run(stop).unwrap());
    assert_eq!((run.env_failures.count, run.result.episodes_covered, run.exit_status()), (1, 0, 0));
}

/// An environment whose episodes do not end, and of which the first fails in its tenth step.
struct Endless(Arc<AtomicUsize>, u32);

impl Env for Endless {
    fn spec(&self) -> pronk::EnvSpec {
        pronk::EnvSpec { max_episode_steps: None, ..CartPole::new().spec() }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&[0.0; 4])
    }

    fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.1 += 1;
        if self.1 == 10 && self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(EnvError::new("once"));
        }
        obs.write(&[0.0; 4])?;
        Ok(Step { reward: 1.0, end: End::No })
    }
}

#[test]
fn what_fails_is_said_while_the_run_goes_on_and_not_again_and_again() {
    let name = "failures::what_fails_is_said_while_the_run_goes_on_and_not_again_and_again";
    let said = alone(name, || {
        tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
        for workers in [0, 2] {
            let trainer = Trainer::new(tolerant(workers), |_: &EnvContext| Unresettable).unwrap();
            let stop = StopWhen { time: Some(Duration::from_millis(500)), ..StopWhen::default() };
            let run = trainer.run(stop).unwrap_err().run;
            assert!(run.env_failures.count > 10, "{:?}", run.env_failures);
        }
    });
    if let Some(said) = said {
        let of = |worker: &str| format!("WARN pronk_rollout::run::failure_log: environment 0 of rollout-{worker} (");
        assert!(said.contains(&of("0")) && (said.contains(&of("1")) || said.contains(&of("2"))), "{said}");
        assert_eq!(said.matches("failed in reset with episode seed").count(), 2, "{said}");
        assert_eq!(said.matches("the level file is missing").count(), 2, "{said}");
    }
}

#[test]
fn the_trainer_is_dropped_in_the_middle_of_a_run() {
    repeat(|workers, token| {
        let mut trainer = Trainer::new(small(workers), cartpole(token)).unwrap();
        trainer.next().unwrap().unwrap();
        let began = Instant::now();
        drop(trainer);
        assert!(began.elapsed() < Duration::from_secs(60), "dropping took {:?}", began.elapsed());
    });
}

/// A reporter that fails at once.
struct Broken(#[allow(dead_code)] Arc<()>);

impl Reporter for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn report(&mut self, _result: &ResultDict) -> Result<(), ReportError> {
        Err(ReportError::new("broken", "no ink"))
    }
}

#[test]
fn a_reporter_fails() {
    repeat(|workers, token| {
        let mut trainer = Trainer::new(small(workers), cartpole(token.clone())).unwrap();
        trainer.add_reporter(Broken(token));
        let run = trainer.run(iterations(3)).unwrap();
        let failures: Vec<_> = run.reporter_failures.iter().map(ToString::to_string).collect();
        assert_eq!(failures, ["reporter `broken` failed: no ink"], "it is reported once");
        assert!(run.result.dict.get("reporters_failed").is_some());
    });
}

/// A reporter that panics at once.
struct Shattered;

impl Reporter for Shattered {
    fn name(&self) -> &str {
        "shattered"
    }

    fn report(&mut self, _result: &ResultDict) -> Result<(), ReportError> {
        panic!("no glass")
    }
}

#[test]
fn a_reporter_that_panics_is_left_out_like_one_that_fails() {
    let mut trainer = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap();
    trainer.add_reporter(Shattered);
    let run = trainer.run(iterations(3)).unwrap();
    let failures: Vec<_> = run.reporter_failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, ["reporter `shattered` failed: it panicked: no glass"]);
}

/// A reporter that would go on after an error, whose error is the last one.
struct Unfinished;

impl Reporter for Unfinished {
    fn name(&self) -> &str {
        "unfinished"
    }

    fn report(&mut self, _result: &ResultDict) -> Result<(), ReportError> {
        Ok(())
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        Err(ReportError::new("unfinished", "no ink"))
    }
}

#[test]
fn a_reporter_that_cannot_finish_has_missed_no_result() {
    let mut trainer = Trainer::new(small(1), |_: &EnvContext| CartPole::new()).unwrap();
    trainer.add_reporter(Unfinished);
    let run = trainer.run(iterations(3)).unwrap();
    let failures: Vec<_> = run.reporter_failures.iter().map(|failure| (failure.to_string(), failure.missed)).collect();
    assert_eq!(failures, [("reporter `unfinished` failed: no ink".to_owned(), 0)]);
}

/// An environment that panics when it is dropped.
struct Explosive(CartPole);

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("the simulator does not close");
    }
}

impl Env for Explosive {
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.0.step(action, obs)
    }
}

#[test]
fn what_was_reached_is_kept_though_environments_panic_as_they_are_dropped() {
    for workers in [0, 2] {
        let run = without_hanging("a run of explosive environments", move || {
            // The first environment only shows its spaces.
            let made = AtomicUsize::new(0);
            let make = move |_: &EnvContext| match made.fetch_add(1, Ordering::Relaxed) {
                0 => Box::new(CartPole::new()) as Box<dyn Env>,
                _ => Box::new(Explosive(CartPole::new())),
            };
            // One for each worker: a second panic while the first unwinds ends any process.
            let mut config = small(workers);
            config.workers.num_envs_per_worker = 1;
            Trainer::new(config, make).unwrap().run(iterations(3)).unwrap()
        });
        assert!(run.ledger_closed());
        assert_eq!(only(&run).state.updates, run.steps.trained_passes.env / 16);
    }
}
