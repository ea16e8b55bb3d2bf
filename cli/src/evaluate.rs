//! `pronk evaluate`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueHint;
use comfy_table::Table;
use pronk::rollout::{Evaluation, ReturnStat};
use pronk::video::{Video, VideoOptions, evaluate_agents_and_record, evaluate_and_record};
use pronk::{ActionSelection, Rng, evaluate, evaluate_agents};
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::run_dir::RunDir;
use crate::run_file::RunFile;
use crate::table::{count, number, table};
use crate::{at_least_one, unusable};

/// The default seed, above those that `pronk train` and TOML take. The evaluations of a run play the episodes
/// of the run's seed; the best policy was chosen by them, so on them it looks better than it is.
const SEED: u64 = 1 << 63;

/// Play episodes with the policy of a run, or with its policies
#[derive(clap::Args)]
pub(crate) struct Evaluate {
    /// Folder of the run, also while it trains; of a folder of runs the newest
    #[arg(value_hint = ValueHint::DirPath)]
    run: PathBuf,
    /// Play with the best policy of the run's evaluations, instead of the newest
    #[arg(long)]
    best: bool,
    /// Episodes to play
    #[arg(long, value_name = "N", default_value = "100", value_parser = at_least_one)]
    episodes: NonZeroUsize,
    /// Seed of the episodes [default: one that the evaluations of no run use]
    #[arg(long)]
    seed: Option<u64>,
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
        if let Some(path) = self.video.as_ref().filter(|path| path.extension().is_none_or(|end| end != "png")) {
            return Err(unusable(anyhow!("--video writes an animated PNG: let {} end in .png", path.display())));
        }
        let file = run.settings()?;
        let (played, video) = self.play(&run, &file)?;
        if self.json {
            say!("{}", json_line(&run, &file, &played));
        } else if let (Some(mean), Some(std), Some(len)) =
            (played.return_mean(), played.return_std(), played.len_mean())
        {
            let episodes = match self.episodes.get() {
                1 => "1 episode".to_owned(),
                episodes => format!("{episodes} episodes"),
            };
            say!("{}: return {mean:.2} ± {std:.2} over {episodes} of {len:.1} steps", file.env);
            if !played.agents.is_empty() {
                say!("{}", by_policy_and_agent(&played));
            }
        }
        // After the figures, which are there whatever becomes of the video.
        if let Some(path) = &self.video {
            let drawn = video.with_context(|| format!("{} draws no frames, so there is no video", file.env))?;
            drawn.save(path)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn play(&self, run: &RunDir, file: &RunFile) -> Result<(Evaluation, Option<Video>)> {
        let envs_per_process = file.config.workers.num_envs_per_worker;
        let env = Environment::named(&file.env, &file.env_options, envs_per_process).map_err(unusable)?;
        let mut policies = if self.best { run.best_policies() } else { run.policies() }?;
        let (episodes, seed) = (self.episodes.get(), self.seed.unwrap_or(SEED));
        let options = VideoOptions::default();
        let mut selection =
            if self.sample { ActionSelection::Sample(Rng::seed_from(seed)) } else { ActionSelection::Mode };
        Ok(match env {
            Environment::Single(env) => {
                let n = policies.len();
                let Some((_, mut policy)) = policies.pop_first().filter(|_| n == 1) else {
                    bail!("{} has {n} policies, but {} has one agent", run.path.display(), file.env);
                };
                match &self.video {
                    None => (evaluate(&mut policy, &mut selection, &env, episodes, seed)?, None),
                    Some(_) => evaluate_and_record(&mut policy, &mut selection, &env, episodes, seed, &options)?,
                }
            }
            Environment::Several(env) => {
                let mapping = env.policies(file.multi_agent.policies, file.config.seed)?.policy_mapping;
                match &self.video {
                    None => (evaluate_agents(&mut policies, &mapping, &mut selection, &env, episodes, seed)?, None),
                    Some(_) => {
                        let players = (&mut policies, &mapping);
                        evaluate_agents_and_record(players, &mut selection, &env, episodes, seed, &options)?
                    }
                }
            }
        })
    }
}

fn json_line(run: &RunDir, file: &RunFile, played: &Evaluation) -> Value {
    let returns: Vec<f64> = played.episodes.iter().map(|episode| episode.episode_return).collect();
    let mut line = json!({
        "run": run.path,
        "env": file.env,
        "episodes": returns.len(),
        "episode_return_mean": played.return_mean(),
        "episode_return_std": played.return_std(),
        "episode_len_mean": played.len_mean(),
        "episode_returns": returns,
    });
    if !played.agents.is_empty() {
        let means = |returns: BTreeMap<String, ReturnStat>| -> BTreeMap<String, f64> {
            returns.into_iter().map(|(name, returns)| (name, returns.mean())).collect()
        };
        let by_policy = played.policy_returns().into_iter().map(|(policy, returns)| (policy.to_string(), returns));
        line["policy_return_mean"] = json!(means(by_policy.collect()));
        line["agent_return_mean"] = json!(means(played.agent_returns()));
    }
    line
}

/// The returns of each policy, and of each agent.
fn by_policy_and_agent(played: &Evaluation) -> Table {
    let mut table = table(&["", "name", "return", "min", "max", "episodes"]);
    let mut row = |what: &str, name: &str, returns: &ReturnStat| {
        let [mean, min, max] = [returns.mean(), returns.min, returns.max].map(|value| number(Some(value)));
        table.add_row([what.to_owned(), name.to_owned(), mean, min, max, count(returns.n)]);
    };
    played.policy_returns().iter().for_each(|(policy, returns)| row("policy", policy, returns));
    played.agent_returns().iter().for_each(|(agent, returns)| row("agent", agent, returns));
    table
}
