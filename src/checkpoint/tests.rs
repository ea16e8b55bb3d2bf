#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use pronk_rollout::CartPole;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::{EnvContext, Run, StopWhen, TrainError, Trainer};

fn config() -> TrainerConfig {
    TrainerConfig {
        num_rollout_workers: 0,
        num_envs_per_worker: 2,
        rollout_fragment_length: 8,
        train_batch_size: 16,
        min_time_s_per_iteration: 0.0,
        ..TrainerConfig::default()
    }
}

fn trained(updates: u64) -> Run {
    let trainer = Trainer::new(config(), |_: &EnvContext| CartPole::new()).unwrap();
    trainer.run(StopWhen { iterations: Some(updates), ..StopWhen::default() }).unwrap()
}

fn saved() -> (TempDir, Run) {
    let dir = TempDir::new().unwrap();
    let run = trained(3);
    run.save(dir.path()).unwrap();
    (dir, run)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn only(run: &Run) -> Checkpoint {
    run.checkpoints[crate::DEFAULT_POLICY].clone()
}

fn file(dir: &Path, stem: &str) -> PathBuf {
    dir.join(names(dir).into_iter().find(|name| name.starts_with(stem)).unwrap())
}

fn edit_manifest(dir: &Path, edit: impl FnOnce(&mut Value)) {
    let path = dir.join(MANIFEST);
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

/// Loading has to fail, saying each of `words` and the path.
fn refused(dir: &Path, words: &[&str]) {
    let text = Checkpoint::load(dir).expect_err("it was to be refused").to_string();
    for word in words.iter().copied().chain([dir.to_str().unwrap()]) {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
}

#[test]
fn what_is_saved_is_loaded_bit_for_bit() {
    let (dir, run) = saved();
    let loaded = Checkpoint::load(dir.path()).unwrap();
    let bits = |params: &Params| params.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&loaded.state.params), bits(&only(&run).state.params));
    assert_eq!(loaded.state.optimizer, only(&run).state.optimizer);
    assert_eq!((loaded.state.updates, loaded.state.global_step), (3, 48));
    assert_eq!(loaded.config, config());
    assert_eq!((loaded.env.as_str(), loaded.algorithm.as_str()), ("CartPole-v1", "impala"));
}

#[test]
fn saving_again_replaces_the_old_checkpoint_and_leaves_nothing_behind() {
    let (dir, _) = saved();
    trained(5).save(dir.path()).unwrap();
    assert_eq!(Checkpoint::load(dir.path()).unwrap().state.updates, 5);
    assert_eq!(names(dir.path()).len(), 3, "{:?}", names(dir.path()));
}

#[test]
fn a_save_that_stops_before_the_manifest_leaves_the_old_checkpoint_whole() {
    let (dir, _) = saved();
    write_atomically(dir.path(), "policy-00000000.safetensors", b"half of a newer one").unwrap();
    assert_eq!(Checkpoint::load(dir.path()).unwrap().state.updates, 3);
}

#[test]
fn a_missing_folder_or_file_is_named() {
    let dir = TempDir::new().unwrap();
    refused(dir.path(), &["cannot read the manifest", MANIFEST]);
    let (dir, _) = saved();
    fs::remove_file(file(dir.path(), "policy")).unwrap();
    refused(dir.path(), &["cannot read", "policy-"]);
}

#[test]
fn damage_is_found_and_named() {
    let (dir, _) = saved();
    let policy = file(dir.path(), "policy");
    let whole = fs::read(&policy).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&policy, &flipped).unwrap();
    refused(dir.path(), &["damaged", "CRC-32C", "policy-"]);
    fs::write(&policy, &whole[..whole.len() / 2]).unwrap();
    refused(dir.path(), &["damaged", "bytes", "policy-"]);
}

#[test]
fn a_manifest_that_is_none_is_refused() {
    let (dir, _) = saved();
    let good: Value = serde_json::from_slice(&fs::read(dir.path().join(MANIFEST)).unwrap()).unwrap();
    let restore = || edit_manifest(dir.path(), |manifest| *manifest = good.clone());
    fs::write(dir.path().join(MANIFEST), "{\"format\": ").unwrap();
    refused(dir.path(), &[MANIFEST, "EOF"]);
    fs::write(dir.path().join(MANIFEST), good.to_string()).unwrap();
    edit_manifest(dir.path(), |manifest| manifest["format"] = "a cake".into());
    refused(dir.path(), &["a cake"]);
    restore();
    edit_manifest(dir.path(), |manifest| manifest["version"] = 99.into());
    refused(dir.path(), &["99", "version of pronk"]);
    restore();
    edit_manifest(dir.path(), |manifest| manifest["policy"]["file"] = "../../etc/passwd".into());
    refused(dir.path(), &["outside its folder"]);
    restore();
    edit_manifest(dir.path(), |manifest| manifest["extra"] = 1.into());
    refused(dir.path(), &["extra"]);
    restore();
    edit_manifest(dir.path(), |manifest| manifest["network"]["encoder"]["mlp"]["hidden"] = vec![7].into());
    refused(dir.path(), &["policy-"]);
}

/// A checkpoint of the same network as [`saved`], as if it were one of the user's own.
fn saved_own() -> TempDir {
    let (dir, run) = (TempDir::new().unwrap(), trained(1));
    Checkpoint { network: None, ..only(&run) }.save(dir.path()).unwrap();
    dir
}

#[test]
fn a_manifest_says_what_the_network_is_or_else_what_its_parameters_are() {
    let manifest = |dir: &Path| serde_json::from_slice::<Value>(&fs::read(dir.join(MANIFEST)).unwrap()).unwrap();
    let (described, own) = (manifest(saved().0.path()), manifest(saved_own().path()));
    assert!(described.get("network").is_some() && described.get("parameters").is_none());
    assert!(own.get("network").is_none());
    assert_eq!(own["parameters"][1], serde_json::json!({ "name": "torso.0.bias", "shape": [256] }));
}

#[test]
fn a_list_of_parameters_that_cannot_be_is_refused() {
    let dir = saved_own();
    assert!(Checkpoint::load(dir.path()).unwrap().network.is_none());
    let good: Value = serde_json::from_slice(&fs::read(dir.path().join(MANIFEST)).unwrap()).unwrap();
    let refused_with = |edit: &dyn Fn(&mut Value), words: &[&str]| {
        edit_manifest(dir.path(), |manifest| {
            *manifest = good.clone();
            edit(manifest);
        });
        refused(dir.path(), words);
    };
    let shape = |shape: Vec<u64>| move |manifest: &mut Value| manifest["parameters"][1]["shape"] = shape.clone().into();
    refused_with(&shape(vec![255]), &["policy-", "torso.0.bias", "[255]"]);
    refused_with(&shape(vec![1 << 40]), &[MANIFEST, "torso.0.bias", "more numbers"]);
    refused_with(&shape(vec![u64::MAX, u64::MAX]), &[MANIFEST, "torso.0.bias", "more numbers"]);
    refused_with(
        &|manifest| manifest["parameters"][1]["name"] = "torso.0.weight".into(),
        &[MANIFEST, "torso.0.weight"],
    );
    refused_with(&|manifest| manifest["parameters"][1]["size"] = 1.into(), &[MANIFEST, "size"]);
    refused_with(&|manifest| manifest["parameters"] = Value::Null, &[MANIFEST, "neither"]);
    let network = serde_json::to_value(only(&trained(1)).network).unwrap();
    refused_with(&|manifest| manifest["network"] = network.clone(), &[MANIFEST, "both"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let dir = TempDir::new().unwrap();
    let blocked = dir.path().join("a file");
    fs::write(&blocked, "").unwrap();
    let error = trained(1).save(&blocked).unwrap_err().to_string();
    assert!(error.contains("cannot make the folder") && error.contains("a file"), "{error}");
}

#[test]
fn training_goes_on_from_a_checkpoint_and_refuses_one_of_another_network() {
    let (dir, _) = saved();
    let checkpoint = Checkpoint::load(dir.path()).unwrap();
    let resume = |config| Trainer::resume(config, |_: &EnvContext| CartPole::new(), &checkpoint);
    let stop = StopWhen { iterations: Some(2), ..StopWhen::default() };
    let run = resume(config()).unwrap().run(stop).unwrap();
    assert_eq!((only(&run).state.updates, only(&run).state.global_step), (5, 80));

    let mut other = config();
    other.model.fcnet_hiddens = vec![5];
    assert!(matches!(
        resume(other),
        Err(TrainError::Checkpoint(error)) if matches!(*error, CheckpointError::DoesNotFit { what: "network" })
    ));
    let mut other = config();
    other.model.fcnet_activation = crate::Activation::Relu;
    assert!(matches!(
        resume(other),
        Err(TrainError::Checkpoint(error)) if matches!(*error, CheckpointError::DoesNotFit { what: "network" })
    ));
    let other = TrainerConfig { opt_type: crate::OptType::RmsProp, ..config() };
    assert!(matches!(resume(other), Err(TrainError::Learn(_))));
}

#[test]
fn a_running_trainer_can_be_saved() {
    for workers in [0, 2] {
        let dir = TempDir::new().unwrap();
        let config = TrainerConfig { num_rollout_workers: workers, ..config() };
        let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
        trainer.next().unwrap().unwrap();
        trainer.save(dir.path()).unwrap();
        assert!(Checkpoint::load(dir.path()).unwrap().state.updates >= 1);
        trainer.next().unwrap().unwrap();
        assert!(trainer.finish().unwrap().ledger_closed());
    }
}

#[test]
fn a_checkpoint_from_before_there_were_scales_still_loads() {
    let (dir, _) = saved();
    edit_manifest(dir.path(), |manifest| {
        assert!(manifest.get("normalizer").is_none(), "nothing is said of what is not there");
        let config = manifest["config"].as_object_mut().unwrap();
        config.remove("observation_filter").unwrap();
        config.remove("normalize_rewards").unwrap();
    });
    let checkpoint = Checkpoint::load(dir.path()).unwrap();
    assert_eq!(checkpoint.normalizer, NormalizerMoments::default());
    assert!(checkpoint.policy().is_ok());
}

#[test]
fn scales_of_other_observations_are_refused() {
    let (dir, _) = saved();
    edit_manifest(dir.path(), |manifest| {
        manifest["normalizer"] = serde_json::json!({ "observations": { "count": 2, "mean": [0.0], "squares": [1.0] } });
    });
    refused(dir.path(), &["normalizer.observations", "the moments of 4 numbers"]);
    edit_manifest(dir.path(), |manifest| {
        manifest["normalizer"] = serde_json::json!({ "returns": { "count": 2, "mean": [0.0], "squares": [-1.0] } });
    });
    refused(dir.path(), &["normalizer.returns"]);
}
