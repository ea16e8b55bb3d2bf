#![allow(clippy::unwrap_used, clippy::expect_used)]

mod mem_disk;
mod store;

use std::fs;
use std::path::{Path, PathBuf};

use pronk_metrics::NormalizerMoments;
use pronk_policy::{ObsDtype, Params, Space};
use pronk_rollout::CartPole;
use serde_json::Value;
use tempfile::TempDir;

use super::disk::{MAX_MANIFEST_BYTES, OsDisk};
use super::files::{TEMPORARY, Writer};
use super::*;
use crate::config::TrainerConfig;
use crate::{EnvContext, Run, StopWhen, TrainError, Trainer};

fn config() -> TrainerConfig {
    let mut config = TrainerConfig::default();
    config.workers.num_rollout_workers = 0;
    config.workers.num_envs_per_worker = 2;
    config.workers.rollout_fragment_length = 8;
    config.learner.train_batch_size = 16;
    config.results.min_time_s_per_iteration = 0.0;
    config
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

fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join(MANIFEST)).unwrap()).unwrap()
}

/// Edits the manifest, which has no checksum then.
fn edit_manifest(dir: &Path, edit: impl FnOnce(&mut Value)) {
    let mut manifest = manifest(dir);
    manifest.as_object_mut().unwrap().remove("crc32c");
    edit(&mut manifest);
    fs::write(dir.join(MANIFEST), manifest.to_string()).unwrap();
}

/// Edits what the manifest says of the only policy.
fn edit_entry(dir: &Path, edit: impl FnOnce(&mut Value)) {
    edit_manifest(dir, |manifest| edit(&mut manifest["policies"][crate::DEFAULT_POLICY]));
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
    let writer = Writer::begin(&OsDisk, dir.path()).unwrap();
    writer.write("policy-00000000.safetensors", b"half of a newer one").unwrap();
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
fn a_folder_may_be_called_like_a_manifest() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("run.json");
    let run = trained(1);
    run.save(&folder).unwrap();
    let params = only(&run).state.params;
    assert_eq!(Checkpoint::load(&folder).unwrap().state.params.values(), params.values());
    assert_eq!(Checkpoint::load(folder.join("manifest.json")).unwrap().state.params.values(), params.values());
    assert_eq!(Checkpoint::load_all(&folder).unwrap().len(), 1);
    assert!(load_whole(&folder).is_ok());
    let text = Checkpoint::load(dir.path().join("missing.json")).unwrap_err().to_string();
    assert!(text.contains("cannot read the manifest") && text.contains("missing.json"), "{text}");
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
    fs::write(&policy, [&whole[..], &[0; 9]].concat()).unwrap();
    refused(dir.path(), &["damaged", "more bytes than", "policy-"]);
}

#[test]
fn only_regular_files_and_no_endless_manifest_are_read() {
    let (dir, _) = saved();
    let policy = file(dir.path(), "policy");
    fs::remove_file(&policy).unwrap();
    fs::create_dir(&policy).unwrap();
    refused(dir.path(), &["cannot read", "not a regular file", "policy-"]);
    fs::File::create(dir.path().join(MANIFEST)).unwrap().set_len(MAX_MANIFEST_BYTES + 1).unwrap();
    refused(dir.path(), &["cannot read the manifest", "more than"]);
}

#[test]
fn a_manifest_that_is_none_is_refused() {
    let (dir, _) = saved();
    let good = manifest(dir.path());
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
    edit_entry(dir.path(), |entry| entry["policy"]["file"] = "../../etc/passwd".into());
    refused(dir.path(), &["outside its folder"]);
    restore();
    edit_manifest(dir.path(), |manifest| manifest["extra"] = 1.into());
    refused(dir.path(), &["extra"]);
    restore();
    restore();
    edit_entry(dir.path(), |entry| entry["extra"] = 1.into());
    refused(dir.path(), &["extra"]);
    restore();
    edit_entry(dir.path(), |entry| entry["network"]["encoder"]["mlp"]["hidden"] = vec![7].into());
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
    let entry = |dir: &Path| manifest(dir)["policies"][crate::DEFAULT_POLICY].clone();
    let (described, own) = (entry(saved().0.path()), entry(saved_own().path()));
    assert!(described.get("network").is_some() && described.get("parameters").is_none());
    assert!(own.get("network").is_none());
    assert_eq!(own["parameters"][1], serde_json::json!({ "name": "torso.0.bias", "shape": [256] }));
}

#[test]
fn a_list_of_parameters_that_cannot_be_is_refused() {
    let dir = saved_own();
    assert!(Checkpoint::load(dir.path()).unwrap().network.is_none());
    let good = manifest(dir.path());
    let refused_with = |edit: &dyn Fn(&mut Value), words: &[&str]| {
        edit_manifest(dir.path(), |manifest| *manifest = good.clone());
        edit_entry(dir.path(), edit);
        refused(dir.path(), words);
    };
    let shape = |shape: Vec<u64>| move |entry: &mut Value| entry["parameters"][1]["shape"] = shape.clone().into();
    refused_with(&shape(vec![255]), &["policy-", "torso.0.bias", "[255]"]);
    refused_with(&shape(vec![1 << 40]), &[MANIFEST, "torso.0.bias", "more numbers"]);
    refused_with(&shape(vec![u64::MAX, u64::MAX]), &[MANIFEST, "torso.0.bias", "more numbers"]);
    refused_with(&|entry| entry["parameters"][1]["name"] = "torso.0.weight".into(), &[MANIFEST, "torso.0.weight"]);
    refused_with(&|entry| entry["parameters"][1]["size"] = 1.into(), &[MANIFEST, "size"]);
    refused_with(&|entry| entry["parameters"] = Value::Null, &[MANIFEST, "neither"]);
    let network = serde_json::to_value(only(&trained(1)).network).unwrap();
    refused_with(&|entry| entry["network"] = network.clone(), &[MANIFEST, "both"]);
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
    let resume = |config| Trainer::builder(config).env(|_: &EnvContext| CartPole::new()).resume(&checkpoint).build();
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
    let mut other = config();
    other.learner.opt_type = crate::config::OptType::RmsProp;
    assert!(matches!(resume(other), Err(TrainError::Learn(_))));
}

#[test]
fn a_running_trainer_can_be_saved() {
    for workers in [0, 2] {
        let dir = TempDir::new().unwrap();
        let mut config = config();
        config.workers.num_rollout_workers = workers;
        let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new()).unwrap();
        trainer.next().unwrap().unwrap();
        trainer.save(dir.path()).unwrap();
        assert!(Checkpoint::load(dir.path()).unwrap().state.updates >= 1);
        trainer.next().unwrap().unwrap();
        assert!(trainer.finish().unwrap().ledger_closed());
    }
}

#[test]
fn a_checkpoint_from_before_there_were_scales_and_groups_still_loads() {
    let (dir, saved) = saved();
    edit_entry(dir.path(), |entry| {
        assert!(entry.get("normalizer").is_none(), "nothing is said of what is not there");
        let config = entry["config"].as_object_mut().unwrap();
        for group in ["workers", "learner", "supervision", "results"] {
            let Some(Value::Object(keys)) = config.remove(group) else { panic!("{group} is no table") };
            config.extend(keys);
        }
        config.remove("observation_filter").unwrap();
        config.remove("normalize_rewards").unwrap();
    });
    let checkpoint = Checkpoint::load(dir.path()).unwrap();
    assert_eq!(checkpoint.config, saved.config);
    assert_eq!(checkpoint.normalizer, NormalizerMoments::default());
    assert!(checkpoint.policy().is_ok());
}

#[test]
fn a_checkpoint_that_does_not_say_how_bytes_are_scaled_is_of_pixels() {
    let (dir, run) = saved();
    let mut saved = only(&run);
    let codes = Space::Box { low: vec![0.0; 4], high: vec![4.0; 4], shape: vec![4], dtype: ObsDtype::U8 };
    saved.observation = codes.clone();
    saved.network.as_mut().unwrap().obs = codes.clone();
    saved.save(dir.path()).unwrap();
    let spaces = || {
        let loaded = Checkpoint::load(dir.path()).unwrap();
        (loaded.observation, loaded.network.unwrap().obs)
    };
    assert_eq!(spaces(), (codes.clone(), codes.clone()));
    edit_entry(dir.path(), |entry| {
        let mut unmark = |place: &str| {
            let space = entry.pointer_mut(place).unwrap().as_object_mut().unwrap();
            assert_eq!(space.remove("by_bounds"), Some(true.into()));
        };
        unmark("/observation_space");
        unmark("/network/obs");
    });
    assert_eq!(spaces(), (codes.as_pixels(), codes.as_pixels()));
}

#[test]
fn scales_of_other_observations_are_refused() {
    let (dir, _) = saved();
    edit_entry(dir.path(), |entry| {
        entry["normalizer"] = serde_json::json!({ "observations": { "count": 2, "mean": [0.0], "squares": [1.0] } });
    });
    refused(dir.path(), &["`normalizer`", "`observations` are not the moments of 4 numbers"]);
    edit_entry(dir.path(), |entry| {
        entry["normalizer"] = serde_json::json!({ "returns": { "count": 2, "mean": [0.0], "squares": [-1.0] } });
    });
    refused(dir.path(), &["`normalizer`", "`returns`"]);
}

#[test]
fn counts_that_no_run_reaches_are_refused() {
    let (dir, run) = saved();
    for name in ["updates", "env_steps_trained", "life"] {
        edit_entry(dir.path(), |entry| entry[name] = u64::MAX.into());
        refused(dir.path(), &["18446744073709551615", "no run has so many"]);
        edit_entry(dir.path(), |entry| entry[name] = 1.into());
    }
    edit_manifest(dir.path(), |manifest| manifest["generation"] = u64::MAX.into());
    refused(dir.path(), &["generations"]);
    run.save(dir.path()).unwrap();
    assert!(Checkpoint::load(dir.path()).is_ok(), "a save replaces it");
}

#[test]
fn a_save_goes_on_alone() {
    let (dir, run) = saved();
    let writer = Writer::begin(&OsDisk, dir.path()).unwrap();
    let refused = trained(5).save(dir.path()).unwrap_err();
    assert!(matches!(&refused, CheckpointError::Busy { path } if path == dir.path()), "{refused}");
    assert_eq!(Checkpoint::load(dir.path()).unwrap().state.updates, 3, "the other save is not disturbed");
    drop(writer);
    run.save(dir.path()).unwrap();
}

#[test]
fn the_next_save_sweeps_what_a_killed_one_left_and_nothing_else() {
    let (dir, run) = saved();
    let others = [
        ".pronk-tmp",
        "notes.tmp",
        "policy-of-mine.txt",
        "policy-1M.safetensors",
        "policy-20260131.safetensors",
        "policy-0123456789ABCDEF0123456789ABCDEF.safetensors",
        "run-7.bin",
        "run-0123abcd.bin",
        "manifest-7.json",
        "manifest-18446744073709551615.json",
    ];
    let left = [
        format!("{TEMPORARY}a1b2c3"),
        format!("{TEMPORARY}x"),
        // As version 2 of the format named it.
        "target-0123abcd.safetensors".to_owned(),
        format!("optimizer-{:032x}.safetensors", 7),
        format!("run-{:032x}.bin", 7),
    ];
    for name in left.iter().map(String::as_str).chain(others) {
        fs::write(dir.path().join(name), "half").unwrap();
    }
    run.save(dir.path()).unwrap();
    let names = names(dir.path());
    assert!(left.iter().all(|name| !names.contains(name)), "{names:?}");
    assert!(others.iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");
}

#[test]
fn the_folders_above_a_new_one_are_synced() {
    let root = TempDir::new().unwrap();
    let root = root.path().canonicalize().unwrap();
    let synced = |dir: &Path, refuse: &[&Path]| {
        let folders = std::cell::RefCell::new(Vec::new());
        let sync = |folder: &Path| {
            assert!(dir.exists(), "what is to be synced is there");
            folders.borrow_mut().push(folder.to_owned());
            if refuse.contains(&folder) { Err(std::io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
        };
        files::make_folder(&OsDisk, dir, sync).map(|()| folders.into_inner())
    };
    let above = |dir: &Path| dir.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
    let dir = root.join("runs").join("7");
    assert_eq!(synced(&dir, &[]).unwrap(), above(&dir));
    assert_eq!(synced(&dir, &[]).unwrap(), above(&dir), "a save that was killed here may not have synced them");
    assert!(synced(&root.join("a/b/c"), &[&root.join("a")]).is_err(), "it was made now, and has to last");
    assert!(synced(&root.join("a/b/d"), &[&root]).is_ok(), "it was there before");
    fs::write(dir.join(MANIFEST), "{}").unwrap();
    assert!(synced(&dir, &[]).unwrap().is_empty(), "they were synced before the manifest was written");
}

#[test]
fn no_two_manifests_of_a_folder_are_equal() {
    let (dir, run) = saved();
    let first = manifest(dir.path());
    run.save(dir.path()).unwrap();
    let second = manifest(dir.path());
    assert_eq!(first["policies"], second["policies"]);
    assert_eq!((&first["generation"], &second["generation"]), (&1.into(), &2.into()));
}
