//! `pronk evaluate`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueHint;
use pronk::video::{VideoOptions, evaluate_and_record};
use pronk::{ActionSelection, Rng, evaluate};
use serde_json::json;

use crate::environment::Environment;
use crate::run_dir::RunDir;
use crate::unusable;

/// Play episodes with the policy of a run
#[derive(clap::Args)]
pub(crate) struct Evaluate {
    /// Folder of the run, also while it trains; of a folder of runs the newest
    #[arg(value_hint = ValueHint::DirPath)]
    run: PathBuf,
    /// Episodes to play
    #[arg(long, default_value_t = 100)]
    episodes: usize,
    /// Seed of the episodes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sample actions from the policy's distribution, as in training, instead of taking the most likely one
    #[arg(long)]
    sample: bool,
    /// Record the first episode as an animated PNG, which every browser plays
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    video: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Evaluate {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let run = RunDir::find(&self.run).map_err(unusable)?;
        let file = run.settings()?;
        let envs_per_process = file.config.workers.num_envs_per_worker;
        let env = Environment::named(&file.env, &file.env_options, envs_per_process).map_err(unusable)?;
        let Environment::Single(env) = env else {
            bail!("{} has several agents: only policies of one agent can be evaluated yet", file.env);
        };
        let mut policy = run.policy()?;
        let mut selection =
            if self.sample { ActionSelection::Sample(Rng::seed_from(self.seed)) } else { ActionSelection::Mode };
        let played = match &self.video {
            None => evaluate(&mut policy, &mut selection, &env, self.episodes, self.seed)?,
            Some(path) => {
                let (episodes, options) = (self.episodes, VideoOptions::default());
                let (played, video) =
                    evaluate_and_record(&mut policy, &mut selection, &env, episodes, self.seed, &options)?;
                let drawn = video.with_context(|| format!("{} draws no frames, so there is no video", file.env))?;
                drawn.save(path)?;
                played
            }
        };
        if self.json {
            let returns: Vec<f64> = played.episodes.iter().map(|episode| episode.episode_return).collect();
            let line = json!({
                "run": run.path,
                "env": file.env,
                "episodes": returns.len(),
                "episode_return_mean": played.return_mean(),
                "episode_return_std": played.return_std(),
                "episode_len_mean": played.len_mean(),
                "episode_returns": returns,
            });
            say!("{line}");
        } else if let (Some(mean), Some(std), Some(len)) =
            (played.return_mean(), played.return_std(), played.len_mean())
        {
            let episodes = played.episodes.len();
            say!("{}: return {mean:.2} ± {std:.2} over {episodes} episodes of {len:.1} steps", file.env);
        }
        Ok(ExitCode::SUCCESS)
    }
}
