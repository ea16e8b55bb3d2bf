//! `pronk evaluate`.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stderr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueHint;
use comfy_table::Table;
use pronk::buffer::shutdown;
use pronk::env_process::ChildOutput;
use pronk::metrics::format_return;
use pronk::rollout::{
    Audience, CallMonitor, Evaluation, EvaluationPlan, OnProgress, Players, Progress, ReturnStat, evaluate_beside,
};
use pronk::video::{Video, VideoOptions, play_and_record};
use pronk::{ActionSelection, Rng, RunInfo};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::environment::{Environment, EnvironmentError};
use crate::messages;
use crate::run_dir::{CONFIG, RunDir};
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
    /// End an episode that goes on after so many steps [default: that of the run's evaluations, 108000 unless
    /// set, or the environment's own limit if that is higher]
    #[arg(long, value_name = "N")]
    max_episode_steps: Option<NonZeroU32>,
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
        if !self.json {
            // Such as that an environment takes its time to start.
            tracing_subscriber::registry().with(messages::to_terminal()).init();
        }
        let (played, video) = self.play(&run, &file).map_err(|error| run.explain(error))?;
        if self.json {
            say!("{}", json_line(&run, &file, &played));
        } else if let (Some(mean), Some(std), Some(len)) =
            (played.return_mean(), played.return_std(), played.len_mean())
        {
            let episodes = match self.episodes.get() {
                1 => "1 episode".to_owned(),
                episodes => format!("{episodes} episodes"),
            };
            let [mean, std] = [mean, std].map(format_return);
            say!("{}: return {mean} ± {std} over {episodes} of {len:.1} steps", file.env);
            if !played.agents.is_empty() {
                say!("{}", by_policy_and_agent(&played));
            }
        }
        if !self.json && played.n_cut_short > 0 {
            let (cut_short, n) = (played.n_cut_short, played.episodes.len());
            say!(
                "{cut_short} of {n} episodes did not end by themselves: they count with the return that they had come \
                 to at the limit of steps, which --max-episode-steps sets"
            );
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
        let mut policies = if self.best { run.best_policies() } else { run.policies() }?;
        let options = file.env_options.as_seen(policies.values().map(|policy| &policy.shape().obs));
        if RunInfo::read(&run.path).is_some_and(|info| info["config"] == "log_to") {
            note!(
                "a program of your own has logged this run: {} is played as pronk makes it, without wrappers or \
                 arguments of that program",
                file.env
            );
        }
        let env = Environment::named(&file.env, &options, envs_per_process, ChildOutput::default());
        let env = env.map_err(|error| {
            unusable(match error {
                EnvironmentError::Unknown { .. } => anyhow!(
                    "{error}. If it is of a program of your own, evaluate the policy there, with \
                     pronk::Checkpoint::load and pronk::evaluate; if it has another name here, correct `env` in {}",
                    run.path.join(CONFIG).display()
                ),
                error => error.into(),
            })
        })?;
        let (n_episodes, seed) = (self.episodes.get(), self.seed.unwrap_or(SEED));
        let max_episode_steps = self.max_episode_steps.map(NonZeroU32::get);
        let max_episode_steps = max_episode_steps.or(file.config.evaluation.max_episode_steps);
        let plan = EvaluationPlan { n_episodes, seed, max_episode_steps };
        let mut selection =
            if self.sample { ActionSelection::Sample(Rng::seed_from(seed)) } else { ActionSelection::Mode };
        let (single, several, mapping);
        let mut only;
        let players = match env {
            Environment::Single(env) => {
                let n = policies.len();
                let Some((_, policy)) = policies.pop_first().filter(|_| n == 1) else {
                    bail!("{} has {n} policies, but {} has one agent", run.path.display(), file.env);
                };
                (single, only) = (env, policy);
                Players::One { policy: &mut only, factory: &single }
            }
            Environment::Several(env) => {
                mapping = env.policies(file.multi_agent.policies, file.config.seed)?.policy_mapping;
                several = env;
                Players::Several { policies: &mut policies, mapping: &mapping, factory: &several }
            }
        };
        let mut shown = Shown::default();
        let mut show = |progress| shown.show(progress, n_episodes);
        let is_seen = !self.json && stderr().is_terminal();
        let on_progress: Option<&mut OnProgress<'_>> = if is_seen { Some(&mut show) } else { None };
        let played = match &self.video {
            None => {
                let (_guard, token) = shutdown();
                let beside = (&CallMonitor::new(), &token);
                let audience = Audience { on_progress, ..Audience::default() };
                let played = evaluate_beside(players, &mut selection, plan, beside, audience);
                played.map(|played| (played, None)).map_err(anyhow::Error::from)
            }
            Some(_) => {
                let played = play_and_record(players, &mut selection, plan, on_progress, &VideoOptions::default());
                played.map_err(anyhow::Error::from)
            }
        };
        shown.clear();
        played
    }
}

/// The line on the terminal that says how far the evaluation has come.
#[derive(Default)]
struct Shown {
    /// When it was last written; at first, when the first step was made.
    last: Option<Instant>,
    is_there: bool,
}

impl Shown {
    fn show(&mut self, Progress { episodes, steps }: Progress, of: usize) {
        if self.last.get_or_insert_with(Instant::now).elapsed() >= Duration::from_secs(1) {
            (self.last, self.is_there) = (Some(Instant::now()), true);
            crate::note(format_args!("\r{episodes} of {of} episodes, {steps} steps of each environment\x1b[K"));
        }
    }

    /// Leaves the line to what follows.
    fn clear(&self) {
        if self.is_there {
            crate::note(format_args!("\r\x1b[K"));
        }
    }
}

fn json_line(run: &RunDir, file: &RunFile, played: &Evaluation) -> Value {
    let returns: Vec<f64> = played.episodes.iter().map(|episode| episode.episode_return).collect();
    let mut line = json!({
        "run": run.path.display().to_string(),
        "env": file.env,
        "episodes": returns.len(),
        "episode_return_mean": played.return_mean(),
        "episode_return_std": played.return_std(),
        "episodes_cut_short": played.n_cut_short,
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
