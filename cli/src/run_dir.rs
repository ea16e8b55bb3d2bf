//! [`RunDir`]: what a run has left in its folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use pronk::policy::Policy;
use pronk::{ByPolicy, Checkpoint, CheckpointError, PolicyId, RunFolder, RunInfo, RunState};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::run_file::RunFile;

/// The resolved settings of a run.
pub(crate) const CONFIG: &str = "config.toml";

/// The folder of checkpoints in that of a run.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// The list of policies, in the folder of a run and in that of its checkpoints.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The folder of videos in that of a run.
pub(crate) const VIDEOS: &str = "videos";

/// The folder of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunDir {
    pub(crate) path: PathBuf,
}

/// The figures of one result that are compared.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Figures {
    #[serde(default)]
    pub(crate) num_env_steps_sampled: u64,
    #[serde(default)]
    pub(crate) time_total_s: f64,
    #[serde(default)]
    pub(crate) episode_return_mean: Option<f64>,
    /// Episodes that the mean covers.
    #[serde(default)]
    pub(crate) episodes_covered: u64,
}

impl RunDir {
    /// The run in the folder `path`, or the newest one if it is a folder of runs. Links in the path are
    /// resolved: `latest` may lead to another run soon.
    ///
    /// # Errors
    /// The folder holds no run.
    pub(crate) fn find(path: &Path) -> Result<Self> {
        let path = RunFolder::newest(path);
        ensure!(
            holds_run(&path),
            "{} holds no run: name the folder that `pronk train` has printed, or one with runs in it",
            path.display()
        );
        let resolved = path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()))?;
        Ok(Self { path: from_here(resolved) })
    }

    /// The run in the folder `path`, or all runs in the folders below it, such as those of a sweep.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find_all(path: &Path) -> Result<Vec<Self>> {
        if holds_run(path) {
            return Ok(vec![Self::find(path)?]);
        }
        let below = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut below: Vec<_> = below.filter(|path| holds_run(path) && !path.is_symlink()).collect();
        below.sort();
        // Without any, the error says so.
        if below.is_empty() { Ok(vec![Self::find(path)?]) } else { below.iter().map(|path| Self::find(path)).collect() }
    }

    /// The settings of the run.
    pub(crate) fn settings(&self) -> Result<RunFile> {
        let path = self.path.join(CONFIG);
        ensure!(
            path.symlink_metadata().is_ok(),
            "{} is missing, which says the environment and the settings of the run: `pronk train` and Trainer::log_to \
             write it; for a run of another program, write it by hand, as `pronk config ENV` prints it",
            path.display()
        );
        RunFile::read(&path, Vec::new()).with_context(|| {
            format!("the settings of the run in {} say which environment it is of", self.path.display())
        })
    }

    /// Adds to an error where the run was started, if that was in another folder: what a relative path or the
    /// name of a Python module leads to may be there.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let info = RunInfo::read(&self.path).unwrap_or_default();
        match info["working_directory"]["path"].as_str().map(Path::new) {
            Some(started) if std::env::current_dir().is_ok_and(|here| here != started) => error.context(format!(
                "the run was started in {}: relative paths and Python modules of its settings are those from there",
                started.display()
            )),
            _ => error,
        }
    }

    /// The policies that it ended with, or those of its newest checkpoint while it has not ended.
    pub(crate) fn checkpoints(&self) -> Result<ByPolicy<Checkpoint>> {
        let (ended, saved) = (self.path.clone(), self.path.join(CHECKPOINTS));
        let [first, second] = match RunState::of(&self.path) {
            // A run that goes on still has the policy that it ended with before.
            RunState::Running | RunState::Killed => [saved, ended],
            _ => [ended, saved],
        };
        ensure!(
            first.join(MANIFEST).exists() || second.join(MANIFEST).exists(),
            "{} has no policy yet: its run saves the first one after `checkpoint.every` or at its end; a program of your \
             own does so with TrainerBuilder::checkpoints, or with Run::save into this folder",
            self.path.display()
        );
        Ok(match Checkpoint::load_all(&first) {
            Err(CheckpointError::Io { .. }) if second.join(MANIFEST).exists() => Checkpoint::load_all(&second)?,
            loaded => loaded?,
        })
    }

    /// The policies with the highest mean return in an evaluation of the run.
    pub(crate) fn best_checkpoints(&self) -> Result<ByPolicy<Checkpoint>> {
        let best = self.path.join(CHECKPOINTS).join("best");
        ensure!(
            best.exists(),
            "{} has no best policy: no evaluation has ended, or `evaluation.every` is not set",
            self.path.display()
        );
        Ok(Checkpoint::load_all(best)?)
    }

    /// The [`checkpoints`](Self::checkpoints), to act with.
    pub(crate) fn policies(&self) -> Result<ByPolicy<Policy>> {
        policies(self.checkpoints()?)
    }

    /// The [`best_checkpoints`](Self::best_checkpoints), to act with.
    pub(crate) fn best_policies(&self) -> Result<ByPolicy<Policy>> {
        policies(self.best_checkpoints()?)
    }

    /// Calls `each` with every result, as [`Figures`] or whatever is read of it. A last line that is being
    /// written is left out.
    ///
    /// # Errors
    /// The file cannot be read, or a line before the last one is no result.
    pub(crate) fn results<T: DeserializeOwned>(&self, mut each: impl FnMut(T)) -> Result<()> {
        let path = self.path.join("results.jsonl");
        let unread = || format!("cannot read {}", path.display());
        let mut lines = BufReader::new(File::open(&path).with_context(unread)?).lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            match serde_json::from_str(&line.with_context(unread)?) {
                Ok(figures) => each(figures),
                Err(_) if lines.peek().is_none() => {}
                Err(error) => bail!("{}:{} is no result: {error}", path.display(), at + 1),
            }
        }
        Ok(())
    }
}

fn holds_run(folder: &Path) -> bool {
    ["results.jsonl", CONFIG, MANIFEST, CHECKPOINTS].into_iter().any(|name| folder.join(name).exists())
}

/// The path as it is from the working directory, if it is below that.
fn from_here(path: PathBuf) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(here) {
        Ok(below) if below != Path::new("") => below.to_owned(),
        _ => path,
    }
}

/// The policies, to act with.
fn policies(checkpoints: ByPolicy<Checkpoint>) -> Result<ByPolicy<Policy>> {
    let policy = |(id, checkpoint): (PolicyId, Checkpoint)| {
        let policy = checkpoint.policy().with_context(|| format!("the policy `{id}` cannot act"));
        Ok((id, policy?))
    };
    checkpoints.into_iter().map(policy).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_run_that_was_found_stays_the_same_when_latest_moves() {
        let runs = tempfile::tempdir().unwrap();
        let runs = runs.path();
        for name in ["first", "second"] {
            fs::create_dir(runs.join(name)).unwrap();
            fs::write(runs.join(name).join(CONFIG), name).unwrap();
        }
        symlink("first", runs.join("latest")).unwrap();
        let found =
            [runs.join("latest"), runs.join("latest/"), runs.to_owned()].map(|path| RunDir::find(&path).unwrap());
        fs::remove_file(runs.join("latest")).unwrap();
        symlink("second", runs.join("latest")).unwrap();
        for run in found {
            assert_eq!(fs::read_to_string(run.path.join(CONFIG)).unwrap(), "first", "{}", run.path.display());
        }
    }

    #[test]
    fn paths_are_as_seen_from_here() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(from_here(here.join("runs/a")), Path::new("runs/a"));
        assert_eq!(from_here(here.clone()), here);
        assert_eq!(from_here("/elsewhere/a".into()), Path::new("/elsewhere/a"));
    }
}
