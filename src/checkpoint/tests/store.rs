//! What is left of saves that end in the middle, and which checkpoints are kept.

use std::path::{Path, PathBuf};

use pronk_metrics::ByPolicy;
use pronk_policy::Rng;

use super::mem_disk::{Fault, MemDisk};
use super::{Checkpoint, config, only, trained};
use crate::checkpoint::CheckpointError;
use crate::checkpoint::disk::{Disk, read};
use crate::checkpoint::files::MANIFEST;
use crate::checkpoint::folder::{load_newest, load_newest_from};
use crate::checkpoint::manifest::{RunPart, SavedSummary};
use crate::checkpoint::store::{Retention, Store};

const DIR: &str = "/runs";

const KEEP_TWO: Retention = Retention { keep: 2, keep_every: None, keep_best: false };

/// The policy of a run, whose weights say of which iteration it is.
fn policies(base: &Checkpoint, iteration: u64) -> ByPolicy<Checkpoint> {
    let mut checkpoint = base.clone();
    checkpoint.state.params.values_mut().fill(iteration as f32);
    checkpoint.state.updates = iteration;
    [(pronk_metrics::default_policy(), checkpoint)].into()
}

fn run(iteration: u64) -> RunPart {
    let return_mean = Some([3.0, 9.0, 5.0, 1.0][iteration as usize % 4]);
    let (env_steps, life, resumes, evaluations) = (100 * iteration, 0, 0, None);
    let summary = SavedSummary { exact: true, iteration, env_steps, return_mean, life, resumes, evaluations };
    // One file that stays, and one that changes.
    let fragments = vec![vec![7; 300], vec![iteration as u8; 300]];
    RunPart { summary, agrees: Default::default(), state: vec![iteration as u8; 200], fragments }
}

fn store(disk: &MemDisk, retention: Retention) -> Store {
    Store::on(Box::new(disk.clone()), Path::new(DIR), Some(retention))
}

fn save(store: &mut Store, base: &Checkpoint, iteration: u64) -> Result<(), CheckpointError> {
    store.save(&policies(base, iteration), Some(&run(iteration)), &[]).map(drop)
}

/// What the run logs in an iteration, in a file of its own, because the disk has no appends.
fn log(iteration: u64) -> (PathBuf, Vec<u8>) {
    (Path::new(DIR).join(format!("results.jsonl.{iteration}")), vec![b'x'; 100])
}

/// The same of a run that logs. No reporter syncs.
fn log_and_save(disk: &MemDisk, store: &mut Store, base: &Checkpoint, iteration: u64) -> Result<(), CheckpointError> {
    let (log, content) = log(iteration);
    let _ = disk.write(&log, &content);
    store.save(&policies(base, iteration), Some(&run(iteration)), &[log]).map(drop)
}

/// The iteration of the newest whole checkpoint, all of which has to be of the same one.
fn newest(disk: &MemDisk) -> Option<u64> {
    let loaded = load_newest_from(disk, Path::new(DIR)).0?;
    let found = loaded.run.unwrap();
    assert_eq!(found, run(found.summary.iteration), "the whole of one run");
    let checkpoint = &loaded.checkpoints[crate::DEFAULT_POLICY];
    assert!(checkpoint.state.params.values().iter().all(|value| *value == found.summary.iteration as f32));
    Some(found.summary.iteration)
}

fn base() -> Checkpoint {
    only(&trained(1))
}

#[test]
fn after_a_power_loss_there_is_the_old_checkpoint_or_the_new_one() {
    let base = base();
    let (mut old, mut new) = (0, 0);
    for seed in 0..1_000 {
        let mut rng = Rng::seed_from(seed);
        let disk = MemDisk::default();
        let mut saving = store(&disk, KEEP_TWO);
        let done = 1 + rng.below(4);
        (1..=done).for_each(|iteration| log_and_save(&disk, &mut saving, &base, iteration).unwrap());
        let first = disk.operations();
        disk.with(Fault::KilledBefore(first + rng.below(40) as usize));
        let _ = log_and_save(&disk, &mut saving, &base, done + 1);
        let found = disk.after_a_power_loss(&mut rng);
        let iteration = newest(&found);
        match iteration {
            Some(iteration) if iteration == done => old += 1,
            Some(iteration) if iteration == done + 1 => new += 1,
            other => panic!("seed {seed}: {other:?} after {done} saves"),
        }
        let (path, content) = log(iteration.unwrap());
        assert!(read(&found, &path).unwrap() == content, "seed {seed}: the log ends before iteration {iteration:?}");
    }
    assert!(old > 200 && new > 200, "{old} old, {new} new");
}

#[test]
fn a_kill_before_or_after_any_operation_leaves_the_old_checkpoint_or_the_new_one() {
    let base = base();
    let (disk, mut n) = (MemDisk::default(), 0);
    let mut saving = store(&disk, KEEP_TWO);
    (1..=3).for_each(|iteration| {
        n = disk.operations();
        save(&mut saving, &base, iteration).unwrap();
    });
    let n_operations = disk.operations() - n;
    assert!(n_operations > 20, "{n_operations} operations of a save");
    for number in 0..n_operations {
        for fault in [Fault::KilledBefore(n + number), Fault::KilledAfter(n + number)] {
            let disk = MemDisk::default();
            let mut saving = store(&disk, KEEP_TWO);
            (1..=2).for_each(|iteration| save(&mut saving, &base, iteration).unwrap());
            disk.with(fault);
            let _ = save(&mut saving, &base, 3);
            let after = disk.after_a_kill();
            assert!(matches!(newest(&after), Some(2 | 3)), "{fault:?}");
            // Another process saves on, and sweeps.
            save(&mut store(&after, KEEP_TWO), &base, 4).unwrap();
            assert_eq!(newest(&after), Some(4), "{fault:?}");
            let names = after.paths();
            assert!(names.iter().all(|path| !path.to_string_lossy().contains("pronk-tmp")), "{fault:?}: {names:?}");
        }
    }
}

#[test]
fn on_a_full_disk_the_last_good_checkpoint_stays_and_the_error_names_the_file() {
    let base = base();
    for room in 0..4 {
        let disk = MemDisk::default();
        let mut saving = store(&disk, KEEP_TWO);
        save(&mut saving, &base, 1).unwrap();
        disk.with(Fault::Full(disk.operations() + 4 * room));
        let error = save(&mut saving, &base, 2).unwrap_err();
        assert!(matches!(&error, CheckpointError::Io { path, .. } if path.starts_with(DIR)), "{error}");
        assert_eq!(newest(&disk), Some(1), "room for {room} files");
    }
}

#[test]
fn a_flipped_bit_in_any_file_is_named_and_the_checkpoint_before_is_taken() {
    let base = base();
    let make = || {
        let disk = MemDisk::default();
        let mut saving = store(&disk, KEEP_TWO);
        (1..=2).for_each(|iteration| save(&mut saving, &base, iteration).unwrap());
        disk
    };
    let all = make().paths();
    let only_first = {
        let disk = MemDisk::default();
        save(&mut store(&disk, KEEP_TWO), &base, 1).unwrap();
        disk.paths()
    };
    let of_second = || all.iter().filter(|path| !only_first.contains(path) && path.extension().unwrap() != "json");
    assert_eq!(of_second().count(), 3, "policy, state, a fragment; the others are shared: {all:?}");
    for path in of_second() {
        for bit in [0, 100, 799] {
            let disk = make();
            disk.flip(path, bit);
            let (loaded, damaged) = load_newest_from(&disk, Path::new(DIR));
            assert_eq!(loaded.unwrap().run.unwrap().summary.iteration, 1, "{path:?}");
            let [error] = &damaged[..] else { panic!("{damaged:?}") };
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
    // The newest checkpoint has two manifests.
    let (manifest, twin) = (Path::new(DIR).join(MANIFEST), Path::new(DIR).join("manifest-000002.json"));
    let bits = 8 * read(&make(), &manifest).unwrap().len();
    for bit in (0..bits).step_by(61).chain(bits - 200..bits) {
        let disk = make();
        disk.flip(&manifest, bit);
        let (loaded, damaged) = load_newest_from(&disk, Path::new(DIR));
        assert!(damaged[0].to_string().contains(MANIFEST), "bit {bit}: {damaged:?}");
        assert_eq!(loaded.unwrap().run.unwrap().summary.iteration, 2, "bit {bit}: its twin is whole");
        disk.flip(&twin, bit);
        let (loaded, damaged) = load_newest_from(&disk, Path::new(DIR));
        assert_eq!((loaded.unwrap().run.unwrap().summary.iteration, damaged.len()), (1, 2), "bit {bit}");
    }
}

#[test]
fn a_file_that_stays_is_written_once() {
    let (base, disk) = (base(), MemDisk::default());
    let mut saving = store(&disk, KEEP_TWO);
    let first = saving.save(&policies(&base, 1), Some(&run(1)), &[]).unwrap();
    let second = saving.save(&policies(&base, 2), Some(&run(2)), &[]).unwrap();
    assert_eq!((first.bytes, first.bytes_written), (first.bytes, first.bytes));
    assert!(second.bytes == first.bytes && second.bytes_written < first.bytes - 300, "{second:?}");
}

#[test]
fn a_file_that_another_process_has_removed_is_written_again() {
    let (base, disk) = (base(), MemDisk::default());
    let mut saving = store(&disk, KEEP_TWO);
    save(&mut saving, &base, 1).unwrap();
    let shared = disk.paths().into_iter().filter(|path| path.to_string_lossy().contains("fragments-"));
    shared.for_each(|path| disk.remove(&path).unwrap());
    save(&mut saving, &base, 2).unwrap();
    assert_eq!(newest(&disk), Some(2));
}

#[test]
fn a_manifest_that_cannot_be_read_is_not_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(&load_newest(folder.path()), (None, errors) if errors.is_empty()));
    std::fs::create_dir(folder.path().join(MANIFEST)).unwrap();
    let (loaded, errors) = load_newest(folder.path());
    assert!(loaded.is_none() && errors[0].to_string().contains(MANIFEST), "{errors:?}");
}

/// The iterations that are kept after so many saves.
fn kept(retention: Retention, saves: u64) -> Vec<u64> {
    let (base, disk) = (base(), MemDisk::default());
    let mut saving = store(&disk, retention);
    (1..=saves).for_each(|iteration| save(&mut saving, &base, iteration).unwrap());
    let manifests = disk.paths().into_iter().filter(|path| path.to_string_lossy().contains("manifest-"));
    let iteration = |path: &Path| {
        let json = read(&disk, path).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        json["run"]["summary"]["iteration"].as_u64().unwrap()
    };
    manifests.map(|path| iteration(&path)).collect()
}

#[test]
fn the_newest_the_best_and_one_of_every_so_many_env_steps_are_kept() {
    let newest = Retention { keep: 3, keep_every: None, keep_best: false };
    assert_eq!(kept(newest, 7), [5, 6, 7]);
    assert_eq!(kept(newest, 2), [1, 2]);
    // The second of four is best, again and again: the newest of equals stays.
    assert_eq!(kept(Retention { keep: 1, keep_best: true, ..newest }, 8), [5, 8]);
    // 100 env-steps an iteration: the first at or past 300 and 600 stay.
    assert_eq!(kept(Retention { keep: 1, keep_every: Some(300), ..newest }, 8), [3, 6, 8]);
}

#[test]
fn a_newer_state_of_a_run_is_refused_by_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let mut saving = Store::open(folder.path(), KEEP_TWO, false).unwrap();
    saving.save(&policies(&base(), 1), Some(&run(1)), &[]).unwrap();
    let path = folder.path().join(MANIFEST);
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest["run"]["format"] = 99.into();
    manifest.as_object_mut().unwrap().remove("crc32c");
    std::fs::write(&path, manifest.to_string()).unwrap();
    let error = Checkpoint::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("version 99") && error.contains("read it with"), "{error}");
}

#[test]
fn a_setting_that_is_not_known_makes_no_checkpoint_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    base().save(folder.path()).unwrap();
    let path = folder.path().join(MANIFEST);
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let saved = &mut manifest["policies"][crate::DEFAULT_POLICY]["config"];
    saved["learner"]["a_setting_of_tomorrow"] = 7.into();
    saved["learner"]["num_sgd_iter"] = "as many as it takes".into();
    saved["tomorrow"] = true.into();
    manifest.as_object_mut().unwrap().remove("crc32c");
    std::fs::write(&path, manifest.to_string()).unwrap();
    let loaded = Checkpoint::load(folder.path()).unwrap().config;
    assert_eq!(loaded, config(), "the others are as they were");
}
