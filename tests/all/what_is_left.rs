//! A run that fails hands back what is whole, and saves on the way if asked to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::prelude::*;
use pronk::trainer::OneAgent;
use pronk::{
    AlgorithmConfig, AppoConfig, Checkpoint, CheckpointError, FailedRun, ImpalaConfig, LearnError, PpoConfig, Run,
    TrainError, TrainerBuilder, Whole,
};

use crate::fixtures::{Before, Hooked, iterations, only, small, with, without_hanging};

/// A run of CartPole with a learner whose passes `hook` sees first.
pub(crate) fn hooked(
    config: TrainerConfig,
    hook: impl FnMut(u64) -> Result<(), LearnError> + Send + 'static,
) -> Trainer {
    hooked_builder(config, hook).build().unwrap()
}

fn hooked_builder(
    config: TrainerConfig,
    hook: impl FnMut(u64) -> Result<(), LearnError> + Send + 'static,
) -> TrainerBuilder<OneAgent> {
    let make = |_: &EnvContext| CartPole::new();
    Trainer::builder(config).env(make).learner(|inner| Ok(Hooked::boxed(inner, hook)))
}

/// A run whose environments fail for good while the learner is in a pass that takes a second.
fn doomed(config: TrainerConfig) -> TrainerBuilder<OneAgent> {
    let doom = Arc::new(AtomicBool::new(false));
    let in_envs = Arc::clone(&doom);
    // They err in every step once the flag is set.
    let make = move |_: &EnvContext| {
        let is_stuck = Arc::clone(&in_envs);
        let errs = move || match is_stuck.load(Ordering::Relaxed) {
            true => Err(EnvError::new("the gearbox is stuck")),
            false => Ok(()),
        };
        Before(CartPole::new(), errs)
    };
    let hook = move |pass| {
        if pass == 3 {
            doom.store(true, Ordering::Relaxed);
            // A long pass, and nothing that could end it sooner.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_millis(1000));
        }
        Ok(())
    };
    Trainer::builder(config).env(make).learner(|inner| Ok(Hooked::boxed(inner, hook)))
}

/// The policy in a folder.
fn saved(folder: &tempfile::TempDir) -> Checkpoint {
    Checkpoint::load(folder.path()).unwrap()
}

/// Whether weights, optimiser and counters are of one update.
fn is_complete(checkpoint: &Checkpoint) -> bool {
    let state = &checkpoint.state;
    state.updates > 0 && state.optimizer.steps == state.updates
}

#[test]
fn workers_that_give_up_are_the_cause_though_the_learner_is_in_a_long_pass() {
    let failed = without_hanging("a run whose workers give up", || {
        doomed(small(2)).build().unwrap().run(iterations(1_000_000)).unwrap_err()
    });
    assert!(failed.cause.thread().is_some_and(|name| name.starts_with("rollout-")), "{failed}");
    assert!(failed.to_string().contains("gearbox is stuck") && failed.to_string().contains("is intact"), "{failed}");
    assert_eq!((failed.run.whole, failed.run.worker_failures.len()), (Whole::Learner, 2));
    assert_eq!(failed.run.exit_status(), 1);
    let folder = tempfile::tempdir().unwrap();
    failed.run.save(folder.path()).unwrap();
    assert!(is_complete(&saved(&folder)) && saved(&folder).state.updates >= 3);
}

#[test]
fn after_a_failure_the_trainer_still_saves() {
    for workers in [0, 2] {
        without_hanging("a run that fails", move || {
            let mut trainer = doomed(small(workers)).build().unwrap();
            let error = trainer.by_ref().find_map(Result::err).unwrap();
            assert!(error.to_string().contains("gearbox is stuck"), "{error}");
            let folder = tempfile::tempdir().unwrap();
            trainer.save(folder.path()).unwrap();
            assert!(is_complete(&saved(&folder)));
            assert!(trainer.next().is_none());

            let FailedRun { cause, run } = trainer.finish().unwrap_err();
            assert!(
                matches!(cause, TrainError::Ended { .. }) && cause.to_string().contains("gearbox is stuck"),
                "{cause}"
            );
            assert_eq!(only(&run).state.updates, saved(&folder).state.updates);
            assert!(run.ledger_closed() && run.result.dict.get("run_failed").is_some());
        });
    }
}

#[test]
fn after_a_failure_of_an_awaited_result_the_trainer_still_saves() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut trainer = doomed(small(1)).build().unwrap();
        let error = loop {
            if let Err(error) = trainer.next_result().await.unwrap() {
                break error;
            }
        };
        assert!(error.to_string().contains("gearbox is stuck"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        trainer.save(folder.path()).unwrap();
        assert!(is_complete(&saved(&folder)) && trainer.next_result().await.is_none());
    });
}

/// What is left of a run whose learner does `at_third` in its third pass.
fn left_by(config: TrainerConfig, at_third: fn() -> Result<(), LearnError>) -> FailedRun {
    let hook = move |pass| if pass >= 3 { at_third() } else { Ok(()) };
    without_hanging("a run whose learner fails", move || hooked(config, hook).run(iterations(1_000_000)).unwrap_err())
}

#[test]
fn of_a_learner_that_panics_or_errs_the_newest_published_weights_are_left_and_a_run_goes_on_from_them() {
    let fails: [fn() -> Result<(), LearnError>; 2] =
        [|| panic!("sabotage"), || Err(LearnError::Config { reason: "sabotage".to_owned() })];
    let algorithms: [AlgorithmConfig; 3] =
        [ImpalaConfig::default().into(), AppoConfig::default().into(), PpoConfig::default().into()];
    for (workers, at_third) in [(0, fails[0]), (2, fails[0]), (2, fails[1])] {
        for algorithm in &algorithms {
            let config = TrainerConfig { algorithm: algorithm.clone(), ..small(workers) };
            let failed = left_by(config.clone(), at_third);
            assert!(failed.to_string().contains("sabotage"), "{failed}");
            assert_eq!(failed.run.whole, Whole::PublishedWeights);
            let folder = tempfile::tempdir().unwrap();
            failed.run.save(folder.path()).unwrap();
            let checkpoint = saved(&folder);
            // Two updates of 16 env-steps each were published.
            assert_eq!((checkpoint.state.updates, checkpoint.state.global_step), (2, 32));
            checkpoint.policy().unwrap();
            let resumed =
                Trainer::builder(config).env(|_: &EnvContext| CartPole::new()).resume(&checkpoint).build().unwrap();
            assert!(only(&resumed.run(iterations(2)).unwrap()).state.updates > 2);
        }
    }
}

#[test]
fn of_a_learner_that_panics_when_its_state_is_saved_the_published_weights_are_left() {
    for workers in [0, 2] {
        let run = without_hanging("a run whose learner cannot be saved", move || {
            let learner = |inner| Ok(Hooked::boxed_with(inner, |_| Ok(()), || panic!("sabotage")));
            let trainer =
                Trainer::builder(small(workers)).env(|_: &EnvContext| CartPole::new()).learner(learner).build();
            trainer.unwrap().run(iterations(3)).unwrap()
        });
        assert_eq!(run.whole, Whole::PublishedWeights);
        assert!(only(&run).state.updates > 0);
    }
}

#[test]
fn a_learner_that_panics_when_a_checkpoint_is_taken_on_the_way_costs_that_checkpoint_only() {
    let folder = tempfile::tempdir().unwrap();
    let learner = |inner| Ok(Hooked::boxed_with(inner, |_| Ok(()), || panic!("sabotage")));
    let builder = Trainer::builder(small(0)).env(|_: &EnvContext| CartPole::new()).learner(learner);
    let trainer = builder.checkpoints(folder.path()).build().unwrap();
    let run = trainer.run(iterations(3)).unwrap();
    assert_eq!((run.result.iteration, run.whole), (3, Whole::PublishedWeights));
    assert!(matches!(&run.checkpoint_failures[..], [error] if error.to_string().contains("panicked")), "{run:?}");
}

#[test]
fn a_learner_that_only_met_bad_numbers_is_whole() {
    for workers in [0, 2] {
        let mut config = small(workers);
        config.learner.max_consecutive_quarantined = 2;
        let failed = left_by(config, || Err(LearnError::NonFinite { what: "the total loss", at: "a test".to_owned() }));
        assert!(failed.to_string().contains("quarantined"), "{failed}");
        assert_eq!(failed.run.whole, Whole::Learner);
        assert!(is_complete(&only(&failed.run)) && only(&failed.run).state.updates == 2);
    }
}

#[test]
fn where_nothing_was_published_nothing_is_saved() {
    let mut trainer = hooked(small(2), |_| panic!("sabotage"));
    assert!(trainer.by_ref().any(|result| result.is_err()));
    let folder = tempfile::tempdir().unwrap();
    let refused = |result| matches!(result, Err(CheckpointError::NoState { .. }));
    assert!(refused(trainer.save(folder.path())));
    let failed = trainer.finish().unwrap_err();
    assert!(failed.run.whole == Whole::Nothing && refused(failed.run.save(folder.path())));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_error_of_a_run_goes_through_the_question_mark() {
    fn boxed() -> Result<Run, Box<dyn std::error::Error>> {
        Ok(hooked(small(0), |_| panic!("sabotage")).run(iterations(1))?)
    }
    fn of_anyhow() -> anyhow::Result<Run> {
        Ok(hooked(small(0), |_| panic!("sabotage")).run(iterations(1))?)
    }
    fn cause_alone() -> Result<Run, TrainError> {
        Ok(hooked(small(0), |_| panic!("sabotage")).run(iterations(1))?)
    }
    let boxed = boxed().unwrap_err();
    assert!(boxed.source().unwrap().downcast_ref::<TrainError>().is_some());
    // What a program that returns it from `main` prints.
    assert!(format!("{boxed:?}").contains("sabotage") && format!("{boxed:?}").len() < 1000, "{boxed:?}");
    let error = of_anyhow().unwrap_err();
    assert!(error.downcast_ref::<FailedRun>().unwrap().run.ledger_closed());
    assert!(matches!(cause_alone(), Err(TrainError::Learner(_))));
}

#[test]
fn a_run_saves_on_the_way() {
    without_hanging("saves", || {
        let folder = tempfile::tempdir().unwrap();
        let builder = Trainer::builder(small(2)).env(|_: &EnvContext| CartPole::new());
        let mut trainer = builder.checkpoints(folder.path()).build().unwrap();
        // A thread writes them, on a busy disk some results later.
        let mut saved_after = |updates| loop {
            assert!(trainer.next().unwrap().is_ok());
            match Checkpoint::load(folder.path()) {
                Ok(checkpoint) if checkpoint.state.updates > updates => break checkpoint,
                _ => {}
            }
        };
        let first = saved_after(0);
        assert!(is_complete(&first));
        let second = saved_after(first.state.updates);
        assert!(is_complete(&second));
        let run = trainer.finish().unwrap();
        assert_eq!(saved(&folder).state.updates, only(&run).state.updates, "the last one is of the end");
    });
}

#[test]
fn the_last_checkpoint_is_of_the_failure_unless_only_weights_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let seldom = with(small(2), |config| config.checkpoint.every = Duration::from_secs(3600).into());
    let failed = doomed(seldom).checkpoints(folder.path()).build().unwrap().run(iterations(1_000_000)).unwrap_err();
    assert_eq!(saved(&folder).state.updates, only(&failed.run).state.updates);

    let folder = tempfile::tempdir().unwrap();
    let was_saved = Arc::new(AtomicBool::new(false));
    let is_time = Arc::clone(&was_saved);
    let hook = move |_| if is_time.load(Ordering::Relaxed) { panic!("sabotage") } else { Ok(()) };
    let mut trainer = hooked_builder(small(2), hook).checkpoints(folder.path()).build().unwrap();
    // The writer has begun with the first one when the second is taken.
    while Checkpoint::load(folder.path()).is_err() {
        assert!(trainer.next().unwrap().is_ok());
    }
    was_saved.store(true, Ordering::Relaxed);
    let failed = trainer.run(iterations(1_000_000)).unwrap_err();
    assert_eq!(failed.run.whole, Whole::PublishedWeights);
    assert!(is_complete(&saved(&folder)), "weights alone took the place of a complete checkpoint");
}

#[test]
fn a_save_that_fails_is_named_once_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("checkpoints");
    let builder =
        |dir: &std::path::Path| Trainer::builder(small(2)).env(|_: &EnvContext| CartPole::new()).checkpoints(dir);
    let trainer = builder(&dir).build().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::write(&dir, "in the way").unwrap();
    let run = trainer.run(iterations(50)).unwrap();
    assert!(run.ledger_closed());
    let failures: Vec<_> = run.checkpoint_failures.iter().map(ToString::to_string).collect();
    assert!(failures.len() == 1 && failures[0].contains("cannot make the folder"), "{failures:?}");

    let refused = builder(&dir).build().map(drop).unwrap_err().to_string();
    assert!(refused.contains("cannot make the folder"), "known before the run: {refused}");
}
