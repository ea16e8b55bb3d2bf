//! A folder of checkpoints: consistent at every instant, and readable during a save by another process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pronk_metrics::{ByPolicy, PolicyId};

use super::files::MANIFEST;
use super::files::Writer;
use super::manifest::{Manifest, PolicyEntry};
use super::{Checkpoint, CheckpointError};

/// Retries of a load. Each needs another process to complete a save between our reading of the manifest and
/// opening of the files, which is much shorter than a save.
const ATTEMPTS: u32 = 1000;

/// Writes the checkpoints of all policies of a run into `dir` under one manifest: all of them or none.
pub(crate) fn save_all<'a>(
    checkpoints: impl IntoIterator<Item = (&'a PolicyId, &'a Checkpoint)>,
    dir: &Path,
) -> Result<(), CheckpointError> {
    let writer = Writer::begin(dir)?;
    let mut policies = BTreeMap::new();
    for (policy, checkpoint) in checkpoints {
        let (entry, files) =
            PolicyEntry::describe(checkpoint).map_err(|error| CheckpointError::unusable(dir, error))?;
        for (file, content) in &files {
            writer.write(file, content)?;
        }
        policies.insert(policy.to_string(), entry);
    }
    if policies.is_empty() {
        let reason = "the learner gave the state of none of the run's policies".to_owned();
        return Err(CheckpointError::NoState { reason });
    }
    let manifest = Manifest::following(fs::read(dir.join(MANIFEST)).ok().as_deref(), policies);
    let json = serde_json::to_vec_pretty(&manifest).map_err(|error| CheckpointError::unusable(dir, error))?;
    // Unsynced writes may be reordered: files must be on disk before the manifest that names them, and that
    // before old files are removed.
    writer.sync()?;
    writer.write(MANIFEST, &json)?;
    writer.sync()?;
    writer.remove_others(&manifest.files().collect());
    Ok(())
}

/// Reads the only policy in `path`, or the one that its last component names.
pub(super) fn load_one(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let (dir, policy) = locate(path);
    let mut checkpoints = load(&dir, policy.as_deref())?;
    let names: Vec<_> = checkpoints.keys().map(|name| format!("'{name}'")).collect();
    match checkpoints.pop_first() {
        Some((_, only)) if checkpoints.is_empty() => Ok(only),
        _ => {
            let cause = format!(
                "it holds {} policies ({}) and not one: load FOLDER/NAME for one of them, or take all with Checkpoint::load_all",
                names.len(),
                names.join(", ")
            );
            Err(CheckpointError::unusable(&dir.join(MANIFEST), cause))
        }
    }
}

/// Reads the policies in `dir`, or the `only` one wanted.
pub(super) fn load(dir: &Path, only: Option<&str>) -> Result<ByPolicy<Checkpoint>, CheckpointError> {
    let path = dir.join(MANIFEST);
    let manifest = || fs::read(&path).map_err(|error| CheckpointError::io("read the manifest", &path, error));
    let mut json = manifest()?;
    for _ in 0..ATTEMPTS {
        match read(dir, &json, only) {
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
    read(dir, &json, only)
}

/// Reads what the manifest `json` names.
fn read(dir: &Path, json: &[u8], only: Option<&str>) -> Result<ByPolicy<Checkpoint>, CheckpointError> {
    let path = dir.join(MANIFEST);
    let entries = Manifest::parse(&path, json)?.policies;
    let entries = entries.into_iter().filter(|(policy, _)| only.is_none_or(|only| only == policy));
    // All files are opened first: the next save unlinks them, but open files keep their content.
    let opened = entries.map(|(policy, entry)| Ok((policy, entry.open(dir)?)));
    let opened: Vec<_> = opened.collect::<Result<_, CheckpointError>>()?;
    opened.into_iter().map(|(policy, opened)| Ok((policy.into(), opened.read(&path)?))).collect()
}

/// The folder that `path` is, or else the folder and the policy in it that `path` names.
fn locate(path: &Path) -> (PathBuf, Option<PolicyId>) {
    let manifest = |dir: &Path| {
        let path = dir.join(MANIFEST);
        fs::read(&path).ok().and_then(|json| Manifest::parse(&path, &json).ok())
    };
    // Format 2 had a folder for each policy. One that is still there is older than the parent's manifest.
    let is_whole = manifest(path).is_some_and(|manifest| !manifest.is_of_one_policy());
    let (parent, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
    match (parent, name) {
        (Some(parent), Some(name)) if !is_whole => match manifest(parent) {
            Some(manifest) if manifest.policies.contains_key(name) => (parent.to_owned(), Some(name.into())),
            _ => (path.to_owned(), None),
        },
        _ => (path.to_owned(), None),
    }
}
