//! [`RunDir`]: what a run has left in its folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pronk::policy::Policy;
use pronk::{ByPolicy, Checkpoint, CheckpointError, PolicyId, RunFolder};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::run_file::RunFile;

/// The resolved settings of a run.
pub(crate) const CONFIG: &str = "config.toml";

/// The folder of checkpoints in that of a run.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

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
    /// The run in the folder `path`, or the newest one if it is a folder of runs.
    ///
    /// # Errors
    /// The folder holds no run.
    pub(crate) fn find(path: &Path) -> Result<Self> {
        let path = RunFolder::newest(path);
        let holds = |name: &str| path.join(name).exists();
        ensure!(
            ["results.jsonl", CONFIG, "manifest.json", CHECKPOINTS].into_iter().any(holds),
            "{} holds no run: name the folder that `pronk train` has printed, or one with runs in it",
            path.display()
        );
        Ok(Self { path })
    }

    /// The settings of the run.
    pub(crate) fn settings(&self) -> Result<RunFile> {
        let path = self.path.join(CONFIG);
        RunFile::read(&path, Vec::new()).with_context(|| {
            format!("the settings of the run in {} say which environment it is of", self.path.display())
        })
    }

    /// The policies that it ended with, or those of its newest checkpoint while it has not ended.
    pub(crate) fn checkpoints(&self) -> Result<ByPolicy<Checkpoint>> {
        let checkpoints = self.path.join(CHECKPOINTS);
        Ok(match Checkpoint::load_all(&self.path) {
            Err(CheckpointError::Io { .. }) if checkpoints.exists() => Checkpoint::load_all(&checkpoints)?,
            loaded => loaded?,
        })
    }

    /// The policies with the highest mean return in an evaluation of the run.
    pub(crate) fn best_checkpoints(&self) -> Result<ByPolicy<Checkpoint>> {
        let best = self.path.join(CHECKPOINTS).join("best");
        ensure!(
            best.exists(),
            "{} has no best policy: the run has made no evaluation, for which `evaluation.every` asks",
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
    pub(crate) fn results<T: DeserializeOwned>(&self, mut each: impl FnMut(T)) -> Result<()> {
        let path = self.path.join("results.jsonl");
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in BufReader::new(file).lines() {
            let line = line.with_context(|| format!("cannot read {}", path.display()))?;
            if let Ok(figures) = serde_json::from_str(&line) {
                each(figures);
            }
        }
        Ok(())
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
