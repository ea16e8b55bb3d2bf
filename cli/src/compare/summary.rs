use std::path::{Path, PathBuf};

use anyhow::Result;
use pronk::RunState;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::run_dir::{Figures, RunDir};

/// What is compared of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    #[serde(serialize_with = "as_text")]
    pub(super) run: PathBuf,
    pub(super) env: String,
    pub(super) algorithm: String,
    pub(super) seed: u64,
    pub(super) state: RunState,
    pub(super) env_steps: u64,
    pub(super) secs: f64,
    /// Of the last result.
    pub(super) episode_return_mean: Option<f64>,
    /// The highest of any result.
    pub(super) best_return_mean: Option<f64>,
    /// At the first result that reached the target.
    pub(super) env_steps_to_target: Option<u64>,
    pub(super) secs_to_target: Option<f64>,
    /// All settings but the seed.
    pub(super) settings: Value,
}

impl Summary {
    pub(super) fn of(run: &RunDir, target: Option<f64>) -> Result<Self> {
        let file = run.settings()?;
        let target = target.or(file.stop.episode_return_mean);
        let mut settings = file.to_json();
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("seed");
        }
        let mut summary = Self {
            run: run.path.clone(),
            env: file.env,
            algorithm: file.config.algorithm.name().to_owned(),
            seed: file.config.seed,
            state: RunState::of(&run.path),
            env_steps: 0,
            secs: 0.0,
            episode_return_mean: None,
            best_return_mean: None,
            env_steps_to_target: None,
            secs_to_target: None,
            settings,
        };
        // A mean over too few episodes says little.
        let enough = file.config.results.metrics_num_episodes_for_smoothing as u64;
        run.results(|result: Figures| {
            summary.env_steps = result.num_env_steps_sampled;
            summary.secs = result.time_total_s;
            summary.episode_return_mean = result.episode_return_mean;
            let Some(mean) = result.episode_return_mean.filter(|_| result.episodes_covered >= enough) else { return };
            summary.best_return_mean = Some(summary.best_return_mean.map_or(mean, |best: f64| best.max(mean)));
            if summary.env_steps_to_target.is_none() && target.is_some_and(|target| mean >= target) {
                summary.env_steps_to_target = Some(result.num_env_steps_sampled);
                summary.secs_to_target = Some(result.time_total_s);
            }
        })?;
        Ok(summary)
    }
}

/// A path, also one that is not UTF-8.
pub(super) fn as_text<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
