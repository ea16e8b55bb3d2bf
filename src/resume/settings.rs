//! [`Checkpoints`]: where and how often a run saves itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::every::Every;
use crate::checkpoint::Retention;
use crate::config::ConfigError;

/// How often a run saves itself, and which checkpoints it keeps.
///
/// ```
/// use pronk::{CheckpointConfig, Every};
///
/// let config: CheckpointConfig = serde_json::from_str(r#"{ "every": "1M env-steps", "keep": 5, "keep_best": true }"#)?;
/// assert_eq!((config.every, config.keep), (Every::EnvSteps(1_000_000), 5));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// How often, at the end of the iteration in which it becomes due (60 s).
    pub every: Every,
    /// How many of the newest are kept (3).
    pub keep: usize,
    /// Keeps one of every so many env-steps for good (none).
    pub keep_every: Option<u64>,
    /// Keeps the one with the highest mean return for good (false).
    pub keep_best: bool,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: Every::Time(Duration::from_secs(60)), keep: 3, keep_every: None, keep_best: false }
    }
}

/// The checkpoints of a run: for [`TrainerBuilder::checkpoints`](crate::TrainerBuilder::checkpoints).
///
/// ```
/// use std::time::Duration;
///
/// use pronk::envs::CartPole;
/// use pronk::prelude::*;
/// use pronk::{Checkpoints, Resume};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = TrainerConfig::default();
/// config.workers.num_rollout_workers = 0;
/// config.results.min_time_s_per_iteration = 0.01;
/// let checkpoints = Checkpoints::to(folder.path()).every(Duration::from_secs(60)).keep(2).keep_best();
/// let start = || {
///     let run = Trainer::builder(config.clone()).env(|_: &EnvContext| CartPole::new());
///     run.checkpoints(checkpoints.clone()).resume(Resume::auto())
/// };
/// let iterations = |n| StopWhen { iterations: Some(n), ..StopWhen::default() };
///
/// start().build()?.run(iterations(2))?; // nothing to resume from yet
/// let run = start().build()?.run(iterations(3))?; // goes on with the third iteration
/// assert_eq!(run.result.iteration, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a run has checkpoints with `TrainerBuilder::checkpoints`"]
pub struct Checkpoints {
    dir: PathBuf,
    config: CheckpointConfig,
}

impl Checkpoints {
    /// Into the folder `dir`, which is made if it is missing, every 60 s, keeping the newest three.
    pub fn to(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), config: CheckpointConfig::default() }
    }

    /// With the settings of a config file.
    pub fn with(self, config: CheckpointConfig) -> Self {
        Self { config, ..self }
    }

    /// How often: a time, or [`Every::EnvSteps`].
    pub fn every(mut self, every: impl Into<Every>) -> Self {
        self.config.every = every.into();
        self
    }

    /// Keeps this many of the newest.
    pub fn keep(mut self, newest: usize) -> Self {
        self.config.keep = newest;
        self
    }

    /// Keeps one of every so many env-steps for good.
    pub fn keep_every(mut self, env_steps: u64) -> Self {
        self.config.keep_every = Some(env_steps);
        self
    }

    /// Keeps the one with the highest mean return for good.
    pub fn keep_best(mut self) -> Self {
        self.config.keep_best = true;
        self
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How often.
    pub(crate) fn interval(&self) -> Every {
        self.config.every
    }

    /// Which are kept; an error for none.
    pub(crate) fn retention(&self) -> Result<Retention, ConfigError> {
        let CheckpointConfig { keep, keep_every, keep_best, .. } = self.config;
        if keep == 0 {
            let reason = "without a checkpoint there is nothing to resume from; keep at least 1";
            return Err(ConfigError::caused_by("checkpoint.keep", keep, &reason));
        }
        if keep_every == Some(0) {
            let reason = "every checkpoint would be kept for good; name a number of env-steps, or leave it out";
            return Err(ConfigError::caused_by("checkpoint.keep_every", 0, &reason));
        }
        Ok(Retention { keep, keep_every, keep_best })
    }
}
