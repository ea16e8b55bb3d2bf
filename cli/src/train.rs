//! `pronk train`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueHint;
use pronk::prelude::*;
use pronk::{FailedRun, Prometheus, Resume, Run, RunFolder, Timeline, Timers, TrainError, Whole};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::environment::Environment;
use crate::run_dir::{CHECKPOINTS, CONFIG, RunDir};
use crate::run_file::{Entry, RunFile};
use crate::run_info::RunInfo;
use crate::unusable;

/// Train an agent as a config file says
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pronk train configs/cartpole.toml
  pronk train configs/pong.toml --set learner.lr=0.0001 --set env_options.python=venv/bin/python
  pronk train --resume runs/latest
  pronk train runs/latest/config.toml        # the same run again")]
pub(crate) struct Train {
    /// The config file; `pronk config ENV` prints one
    #[arg(required_unless_present = "resume", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Change a setting of the file, such as learner.lr=0.001 or algorithm=ppo
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<Entry>,
    /// Seed of all random numbers
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Folder for the logs, the checkpoints and the policy [default: runs/TIME-sSEED]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Overwrite the run in --out
    #[arg(long, requires = "out", conflicts_with = "resume")]
    overwrite: bool,
    /// Go on with the run in this folder, from its newest checkpoint
    #[arg(long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    resume: Option<PathBuf>,
    /// Print one line of JSON at the end, and nothing else
    #[arg(long)]
    json: bool,
    /// Print nothing while it trains
    #[arg(long)]
    quiet: bool,
}

impl Train {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let resumed = self.resume.as_deref().map(RunDir::find).transpose().map_err(unusable)?;
        let file = self.settings(resumed.as_ref())?;
        let envs_per_worker = file.config.workers.num_envs_per_worker;
        let env = Environment::named(&file.env, &file.env_options, envs_per_worker).map_err(unusable)?;
        let out = self.folder(resumed, file.config.seed)?;

        // Before the threads begin, so that their first spans are seen as well.
        let timers = Timers::new();
        fs::create_dir_all(out.path()).with_context(|| format!("cannot create {}", out.path().display()))?;
        let timeline = out.path().join("timeline.json");
        let timeline = file.log.timeline.then(|| Timeline::create(timeline, Timeline::DEFAULT_EVENTS)).transpose()?;
        tracing_subscriber::registry().with(timers.layer()).with(timeline.as_ref().map(Timeline::layer)).init();

        let mut trainer = self.trainer(&file, env, &out)?;
        trainer.log_to(&out)?;
        trainer.add_reporter(timers.file(out.path().join("timers.json")));
        if let Some(timeline) = timeline {
            trainer.add_reporter(timeline);
        }
        if let Some(address) = &file.log.prometheus {
            trainer.add_reporter(Prometheus::bind(address)?);
        }
        if file.log.console && !self.quiet && !self.json {
            trainer.add_reporter(Console::stderr());
        }
        let config = out.path().join(CONFIG);
        fs::write(&config, file.to_toml()?).with_context(|| format!("cannot write {}", config.display()))?;
        let info = RunInfo::begin(out.path(), &file.env, file.config.seed)?;

        let (run, failure) = match trainer.run(file.stop.when()) {
            Ok(run) => (run, None),
            Err(FailedRun { cause, run }) => (*run, Some(cause)),
        };
        if run.whole != Whole::Nothing {
            run.save(&out)?;
        }
        info.end(json!({
            "reason": run.reason.map(|reason| format!("{reason:?}")),
            "failure": failure.as_ref().map(ToString::to_string),
            "reached": run.reached(),
            "ledger_closed": run.ledger_closed(),
        }))?;
        self.print(&run, &out);
        match failure {
            Some(cause) => Err(cause.into()),
            None => Ok(run.exit_status().into()),
        }
    }

    fn settings(&self, resumed: Option<&RunDir>) -> Result<RunFile> {
        let mut flags = self.settings.clone();
        flags.extend(self.seed.map(|seed| Entry::flag("--seed", "seed", seed.into())));
        let of_run = resumed.map(|run| run.path.join(CONFIG));
        let path = self.config.clone().or(of_run).context("name a config file, or a run to --resume")?;
        RunFile::read(&path, flags).map_err(unusable)
    }

    fn folder(&self, resumed: Option<RunDir>, seed: u64) -> Result<RunFolder> {
        match (&self.out, resumed) {
            (Some(out), None) if self.overwrite => Ok(RunFolder::overwrite(out)?),
            (Some(out), None) => RunFolder::at(out).map_err(unusable),
            (Some(out), Some(_)) => Ok(RunFolder::going_on(out)),
            (None, Some(run)) => Ok(RunFolder::going_on(run.path)),
            (None, None) => Ok(RunFolder::create("runs", seed)?),
        }
    }

    fn trainer(&self, file: &RunFile, env: Environment, out: &RunFolder) -> Result<Trainer> {
        let mut builder = Trainer::builder(file.config.clone()).checkpoints(out.path().join(CHECKPOINTS));
        if let Some(run) = &self.resume {
            builder = builder.resume(Resume::from(RunDir::find(run)?.path.join(CHECKPOINTS)));
        }
        let built = match env {
            Environment::Single(env) => builder.env(env).build(),
            Environment::Several(env) => {
                let agents = env.policies(file.multi_agent.policies, file.config.seed)?;
                builder.multi_agent_env(env, agents).build()
            }
        };
        built.map_err(|error| match error {
            TrainError::Config(_) => unusable(error),
            error => error.into(),
        })
    }

    fn print(&self, run: &Run, out: &RunFolder) {
        if self.json {
            say!("{}", run.summary());
            return;
        }
        let mean = match run.result.episode_return_mean {
            Some(mean) => format!("mean return {mean:.2} over {} episodes", run.result.episodes_covered),
            None => "no episode has ended".to_owned(),
        };
        let (env_steps, secs) = (run.steps.sampled.env, run.time.as_secs_f64());
        say!("{mean} after {env_steps} env-steps in {secs:.1} s");
        say!("{}", out.path().display());
    }
}
