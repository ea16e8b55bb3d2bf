#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::config::TrainerConfig;
use crate::envs::CartPole;
use crate::{EnvContext, StopWhen, Trainer};

fn score(return_mean: f64) -> Score {
    let saved = format!(r#"{{"return_mean":{return_mean},"episodes":3,"version":7,"env_steps":100}}"#);
    serde_json::from_str(&saved).unwrap()
}

/// A policy with this score.
fn scored(return_mean: f64) -> Arc<ByPolicy<Checkpoint>> {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 0;
    config.results.min_time_s_per_iteration = 0.0;
    let trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
    let stop = StopWhen { iterations: Some(1), ..StopWhen::default() };
    let mut checkpoints = trainer.run(stop).unwrap().checkpoints;
    checkpoints.values_mut().for_each(|one| one.score = Some(score(return_mean)));
    Arc::new(checkpoints)
}

/// Saves the policy as the best one below `dir`.
fn save(dir: &Path, policies: &Arc<ByPolicy<Checkpoint>>) {
    let mut best = Best::of(Some(dir), None, None);
    best.keep(Arc::clone(policies));
    assert!(best.is_unsaved());
    best.save().unwrap();
    assert!(!best.is_unsaved());
}

#[test]
fn only_a_higher_return_beats_the_best() {
    let mut best = Best::of(None, None, None);
    assert!(best.is_beaten_by(f64::MIN), "the first is the best");
    best.keep(scored(2.0));
    assert!(!best.is_beaten_by(2.0) && !best.is_beaten_by(1.0) && best.is_beaten_by(2.5));
    assert!(!best.is_unsaved(), "there is no folder for it");
}

#[test]
fn a_resumed_run_goes_on_with_the_better_of_its_checkpoint_and_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let found = scored(5.0);
    save(dir.path(), &found);
    let resumed = |known| Best::of(Some(dir.path()), Some(dir.path()), known);

    // The killed process has found it after the checkpoint.
    let best = resumed(Some(score(3.0)));
    assert_eq!((best.score(), score_of(&best.kept().unwrap())), (score_of(&found), score_of(&found)));
    assert!(!best.is_unsaved());

    // The last best policy could not be saved.
    let best = resumed(Some(score(6.0)));
    assert_eq!(best.score(), Some(score(6.0)));
    assert!(best.kept().is_none() && !best.is_unsaved());

    // A checkpoint that knows of no evaluation says nothing about whose the folder is.
    let best = resumed(None);
    assert!(best.score().is_none() && best.kept().is_none());
}

#[test]
fn the_best_of_another_folder_is_saved_into_the_own() {
    let (from, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let found = scored(5.0);
    save(from.path(), &found);
    let mut best = Best::of(Some(dir.path()), Some(from.path()), score_of(&found));
    assert!(best.is_unsaved());
    best.save().unwrap();
    assert_eq!(Checkpoint::load(dir.path().join(FOLDER)).unwrap().score, score_of(&found));

    let lost = Best::of(Some(dir.path()), Some(&from.path().join("nothing")), score_of(&found));
    assert_eq!((lost.score(), lost.kept().is_none(), lost.is_unsaved()), (score_of(&found), true, false));
}
