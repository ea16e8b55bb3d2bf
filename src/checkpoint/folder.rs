//! A folder of checkpoints: consistent at every instant, and readable during a save by another process.

use std::io;
use std::path::{Path, PathBuf};

use pronk_metrics::{ByPolicy, PolicyId};

use super::disk::{Disk, OsDisk, read};
use super::files::{MANIFEST, generations, manifest_name, newest_manifest};
use super::manifest::{Manifest, RunPart};
use super::{Checkpoint, CheckpointError};

/// Retries of a load. Each needs another process to complete a save between our reading of the manifest and
/// opening of the files, which is much shorter than a save.
const ATTEMPTS: u32 = 1000;

/// A checkpoint with the run that it is of.
#[derive(Debug)]
pub(crate) struct LoadedRun {
    pub(crate) checkpoints: ByPolicy<Checkpoint>,
    /// `None` if only the policies were saved.
    pub(crate) run: Option<RunPart>,
    /// Its manifest.
    pub(crate) path: PathBuf,
}

/// Reads the only policy in `path`, or the one that its last component names.
pub(super) fn load_one(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let (manifest, policy) = locate(path);
    let mut checkpoints = load(&manifest, policy.as_deref())?;
    let names: Vec<_> = checkpoints.keys().map(|name| format!("'{name}'")).collect();
    match checkpoints.pop_first() {
        Some((_, only)) if checkpoints.is_empty() => Ok(only),
        _ => {
            let cause = format!(
                "it holds {} policies ({}) and not one: load FOLDER/NAME for one of them, or take all with Checkpoint::load_all",
                names.len(),
                names.join(", ")
            );
            Err(CheckpointError::unusable(&manifest, cause))
        }
    }
}

/// Reads the policies of the folder or manifest `path`, or the `only` one wanted.
pub(super) fn load(path: &Path, only: Option<&str>) -> Result<ByPolicy<Checkpoint>, CheckpointError> {
    Ok(load_from(&OsDisk, &manifest_of(path), only, WithRun::No)?.checkpoints)
}

/// Reads the checkpoint of a folder, the newest, or of a manifest, with its run.
pub(crate) fn load_whole(path: &Path) -> Result<LoadedRun, CheckpointError> {
    load_from(&OsDisk, &manifest_of(path), None, WithRun::Yes)
}

/// Reads the newest checkpoint of a folder that is whole, and returns the errors of newer ones. `None` if
/// there is no checkpoint at all.
pub(crate) fn load_newest(dir: &Path) -> (Option<LoadedRun>, Vec<CheckpointError>) {
    load_newest_from(&OsDisk, dir)
}

/// Whether a folder has checkpoints, whole or not.
pub(crate) fn holds_checkpoints(dir: &Path) -> bool {
    dir.join(MANIFEST).exists() || !generations(&OsDisk, dir).is_empty()
}

pub(super) fn load_newest_from(disk: &dyn Disk, dir: &Path) -> (Option<LoadedRun>, Vec<CheckpointError>) {
    let newest = dir.join(MANIFEST);
    let (mut damaged, mut policies) = (Vec::new(), None);
    let (is_there, seen) = match newest_manifest(disk, dir) {
        Ok(json) => (true, Manifest::parse(&newest, &json).ok().map(|manifest| manifest.generation)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (false, None),
        // A manifest that cannot be read is not a missing one.
        Err(error) => {
            damaged.push(CheckpointError::io("read the manifest", &newest, error));
            (false, None)
        }
    };
    // The newest one has two manifests, and the second is looked at only if the first is damaged.
    let older = generations(disk, dir).into_iter().filter(|generation| Some(*generation) != seen);
    let older = older.map(|generation| dir.join(manifest_name(generation)));
    for path in is_there.then_some(newest.clone()).into_iter().chain(older) {
        match load_from(disk, &path, None, WithRun::Yes) {
            Ok(loaded) if loaded.run.is_some() => return (Some(loaded), damaged),
            // Policies alone were saved over the run's own checkpoint.
            Ok(loaded) => policies = policies.or(Some(loaded)),
            // Going on from an older one would waste what the other version has done.
            Err(error @ CheckpointError::Version { .. }) => return (None, vec![error]),
            Err(error) => damaged.push(error),
        }
    }
    (policies, damaged)
}

/// Whether to read the run, too, which acting does not need.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WithRun {
    Yes,
    No,
}

/// The manifest that `path` is, or that of the folder, whose name may end in .json too.
fn manifest_of(path: &Path) -> PathBuf {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if is_json && !path.is_dir() { path.to_owned() } else { path.join(MANIFEST) }
}

/// Reads what a manifest names.
fn load_from(
    disk: &dyn Disk,
    path: &Path,
    only: Option<&str>,
    with_run: WithRun,
) -> Result<LoadedRun, CheckpointError> {
    let manifest = || read(disk, path).map_err(|error| CheckpointError::io("read the manifest", path, error));
    let mut json = manifest()?;
    for _ in 0..ATTEMPTS {
        match read_all(disk, path, &json, only, with_run) {
            Ok(checkpoints) => return Ok(checkpoints),
            Err(error) => {
                let now = manifest()?;
                // No manifest is written twice, so no save completed meanwhile and the error is real.
                if now == json {
                    return Err(error);
                }
                json = now;
            }
        }
    }
    read_all(disk, path, &json, only, with_run)
}

/// Reads what the manifest `json` names.
fn read_all(
    disk: &dyn Disk,
    path: &Path,
    json: &[u8],
    only: Option<&str>,
    with_run: WithRun,
) -> Result<LoadedRun, CheckpointError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let Manifest { policies, run, .. } = Manifest::parse(path, json)?;
    let entries = policies.into_iter().filter(|(policy, _)| only.is_none_or(|only| only == policy));
    // All files are opened first: the next save unlinks them, but open files keep their content.
    let opened = entries.map(|(policy, entry)| Ok((policy, entry.open(disk, dir)?)));
    let opened: Vec<_> = opened.collect::<Result<_, CheckpointError>>()?;
    let run = run.filter(|_| with_run == WithRun::Yes);
    let of_run = run.map(|run| {
        let state = run.state.open(disk, dir)?;
        let fragments = run.fragments.iter().map(|file| file.open(disk, dir)).collect::<Result<Vec<_>, _>>()?;
        Ok((run, state, fragments))
    });
    let of_run = of_run.transpose()?;
    let checkpoints = opened.into_iter().map(|(policy, opened)| Ok((policy.into(), opened.read(path)?)));
    let checkpoints = checkpoints.collect::<Result<_, CheckpointError>>()?;
    let run = of_run.map(|(run, state, fragments)| {
        let fragments = fragments.into_iter().map(|file| Ok(file.read()?.1)).collect::<Result<_, CheckpointError>>()?;
        Ok(RunPart { summary: run.summary, agrees: run.agrees, state: state.read()?.1, fragments })
    });
    Ok(LoadedRun { checkpoints, run: run.transpose()?, path: path.to_owned() })
}

/// The manifest of the folder that `path` is, or else of the folder that its parent is, and the policy in it
/// that `path` names.
fn locate(path: &Path) -> (PathBuf, Option<PolicyId>) {
    let whole = manifest_of(path);
    let manifest = |dir: &Path| {
        let path = dir.join(MANIFEST);
        newest_manifest(&OsDisk, dir).ok().and_then(|json| Manifest::parse(&path, &json).ok())
    };
    // Format 2 had a folder for each policy. One that is still there is older than the parent's manifest.
    let is_whole = whole == path || manifest(path).is_some_and(|manifest| !manifest.is_of_one_policy());
    let (parent, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
    match (parent, name) {
        (Some(parent), Some(name)) if !is_whole => match manifest(parent) {
            Some(manifest) if manifest.policies.contains_key(name) => (parent.join(MANIFEST), Some(name.into())),
            _ => (whole, None),
        },
        _ => (whole, None),
    }
}
