//! [`Store`]: saves into a folder, and what is kept there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pronk_metrics::PolicyId;

use super::disk::{Disk, OsDisk, read};
use super::files::{FileEntry, MANIFEST, Writer, generations, manifest_name, newest_manifest};
use super::manifest::{Manifest, PolicyEntry, RunEntry, RunPart, SavedSummary};
use super::{Checkpoint, CheckpointError};

/// Which checkpoints of a folder are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// The newest, at least one.
    pub(crate) keep: usize,
    /// The first one at or past each multiple of so many env-steps.
    pub(crate) keep_every: Option<u64>,
    /// The one with the highest mean return.
    pub(crate) keep_best: bool,
}

impl Retention {
    /// Which of these generations stay.
    fn kept(&self, summaries: &BTreeMap<u64, Option<SavedSummary>>) -> BTreeSet<u64> {
        let mut kept: BTreeSet<u64> = summaries.keys().rev().take(self.keep).copied().collect();
        let known = || summaries.iter().filter_map(|(generation, summary)| Some((*generation, summary.as_ref()?)));
        if let Some(every) = self.keep_every {
            let mut last = 0;
            for (generation, summary) in known() {
                let multiple = summary.env_steps / every;
                if multiple > last {
                    kept.insert(generation);
                }
                last = multiple;
            }
        }
        let best = known().filter_map(|(generation, summary)| Some((summary.return_mean?, generation)));
        if let Some((_, best)) = best.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|_| self.keep_best) {
            kept.insert(best);
        }
        kept
    }
}

/// What a save has written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SaveReport {
    /// All files of the checkpoint.
    pub(crate) bytes: u64,
    /// Without those that an earlier one shares.
    pub(crate) bytes_written: u64,
}

/// A folder of checkpoints that one run saves into.
pub(crate) struct Store {
    dir: PathBuf,
    /// `None` replaces the newest checkpoint and leaves those that a run keeps beside it.
    retention: Option<Retention>,
    disk: Box<dyn Disk>,
    /// Files that this store has written and read back.
    known: BTreeSet<String>,
    /// What the kept manifests are of.
    summaries: BTreeMap<u64, Option<SavedSummary>>,
}

impl Store {
    /// The folder `dir`, for a run that goes on with the checkpoints in it, or for another one, whose first
    /// checkpoint replaces them. An error if the folder cannot be made.
    pub(crate) fn open(dir: &Path, retention: Retention, goes_on: bool) -> Result<Self, CheckpointError> {
        let mut store = Self::on(Box::new(OsDisk), dir, Some(retention));
        if !goes_on {
            store.summaries.clear();
        }
        // Before the run starts, because a folder that cannot be written is best known then.
        drop(Writer::begin(&*store.disk, dir)?);
        Ok(store)
    }

    pub(super) fn on(disk: Box<dyn Disk>, dir: &Path, retention: Option<Retention>) -> Self {
        let summary = |generation: u64| {
            let path = dir.join(manifest_name(generation));
            let json = read(&*disk, &path).ok()?;
            Some(Manifest::parse(&path, &json).ok()?.run?.summary)
        };
        let summaries = generations(&*disk, dir).into_iter().map(|generation| (generation, summary(generation)));
        let summaries = summaries.collect();
        Self { dir: dir.to_owned(), retention, disk, known: BTreeSet::new(), summaries }
    }

    /// Writes a checkpoint of all policies, and of their run: all of it or nothing. The checkpoint says how
    /// long the run's `logs` are, so these are synced before it.
    ///
    /// *Blocks* on the disk.
    pub(crate) fn save<'a>(
        &mut self,
        checkpoints: impl IntoIterator<Item = (&'a PolicyId, &'a Checkpoint)>,
        run: Option<&RunPart>,
        logs: &[PathBuf],
    ) -> Result<SaveReport, CheckpointError> {
        let Self { dir, disk, known, summaries, retention } = self;
        let writer = Writer::begin(&**disk, dir)?;
        for log in logs {
            sync_log(&**disk, log);
        }
        let mut report = SaveReport::default();
        let mut files = Vec::new();
        let mut put = |entry: FileEntry, content: &[u8]| {
            report.bytes += entry.bytes;
            // A file that an earlier save has written is as it was, as it is named after its content, unless
            // another process has removed it.
            if !known.contains(&entry.file) || !disk.exists(&dir.join(&entry.file)) {
                writer.write(&entry.file, content)?;
                report.bytes_written += entry.bytes;
                files.push(entry);
            }
            Ok::<(), CheckpointError>(())
        };
        let mut policies = BTreeMap::new();
        for (policy, checkpoint) in checkpoints {
            let described = PolicyEntry::describe(checkpoint);
            let (entry, of_policy) = described.map_err(|error| CheckpointError::unusable(dir, error))?;
            of_policy.into_iter().try_for_each(|(file, content)| put(file, &content))?;
            policies.insert(policy.to_string(), entry);
        }
        if policies.is_empty() {
            let reason = "the learner gave the state of none of the run's policies".to_owned();
            return Err(CheckpointError::NoState { reason });
        }
        let run = run.map(RunEntry::describe).map(|(entry, of_run)| {
            of_run.into_iter().try_for_each(|(file, content)| put(file, content))?;
            Ok::<_, CheckpointError>(entry)
        });
        let run = run.transpose()?;
        // Unsynced writes may be reordered: files must be on disk before the manifest that names them, and
        // that before old files are removed.
        writer.sync()?;
        for entry in files {
            writer.check(&entry)?;
            known.insert(entry.file);
        }
        let newest = newest_manifest(&**disk, dir).map_or(0, |json| Manifest::generation_of(&json));
        let generation = newest.max(summaries.keys().next_back().copied().unwrap_or(0)) + 1;
        let summary = run.as_ref().map(|run| run.summary.clone());
        let manifest = Manifest::new(generation, policies, run);
        let json = manifest.to_json().map_err(|error| CheckpointError::unusable(dir, error))?;
        if let Some(retention) = retention {
            writer.write(&manifest_name(generation), &json)?;
            writer.sync()?;
            summaries.insert(generation, summary);
            let kept = retention.kept(summaries);
            summaries.retain(|generation, _| kept.contains(generation));
        }
        writer.write(MANIFEST, &json)?;
        writer.sync()?;
        if let Some(named) = files_of(&**disk, dir, summaries.keys(), &manifest) {
            writer.remove_others(|name| named.contains(name), |generation| summaries.contains_key(&generation));
            known.retain(|file| named.contains(file));
        }
        Ok(report)
    }
}

/// Makes a log last. A checkpoint is worth more than its log: a failure is a warning.
fn sync_log(disk: &dyn Disk, log: &Path) {
    let folder = log.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    if let Err(error) = disk.sync(log).and_then(|()| disk.sync_folder(folder)) {
        tracing::warn!(log = %log.display(), %error, "the log could not be synced; after a power loss it may be too short");
    }
}

/// The files that the manifests of these generations and the newest one name. `None` if one of them cannot be
/// read: its files are not known then, so none is removed.
fn files_of<'a>(
    disk: &dyn Disk,
    dir: &Path,
    kept: impl IntoIterator<Item = &'a u64>,
    newest: &Manifest,
) -> Option<BTreeSet<String>> {
    let mut named: BTreeSet<String> = newest.files().map(str::to_owned).collect();
    for generation in kept.into_iter().filter(|generation| **generation != newest.generation) {
        let path = dir.join(manifest_name(*generation));
        let json = read(disk, &path).ok()?;
        named.extend(Manifest::parse(&path, &json).ok()?.files().map(str::to_owned));
    }
    Some(named)
}

/// Writes the checkpoints of all policies of a run into `dir` under one manifest: all of them or none.
pub(crate) fn save_all<'a>(
    checkpoints: impl IntoIterator<Item = (&'a PolicyId, &'a Checkpoint)>,
    dir: &Path,
) -> Result<(), CheckpointError> {
    Store::on(Box::new(OsDisk), dir, None).save(checkpoints, None, &[]).map(drop)
}
