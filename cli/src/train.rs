//! `pronk train`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueHint;
use pronk::env_process::ChildOutput;
use pronk::metrics::{format_return, write_whole};
use pronk::prelude::*;
use pronk::{
    FailedRun, Prometheus, PrometheusError, Resume, Run, RunFolder, RunFolderError, RunInfo, RunState, Timeline,
    Timers, TrainError, Whole, machine,
};
use pronk_dashboard::Dashboard;
use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::environment::Environment;
use crate::messages::{self, LOG};
use crate::run_dir::{CHECKPOINTS, CONFIG, MANIFEST, RunDir, VIDEOS};
use crate::run_file::{Entry, RunFile};
use crate::start_up::{Begins, StartUp};
use crate::sweep::SWEEP;
use crate::unusable;
use crate::watch::refused;

/// Train an agent as a config file says
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pronk train configs/cartpole.toml
  pronk train configs/pong.toml --set learner.lr=0.0001 --set env_options.python=venv/bin/python
  pronk train --resume runs/latest
  pronk train configs/pong.toml --dashboard 127.0.0.1:8080   # and open http://127.0.0.1:8080/
  pronk train runs/latest/config.toml        # the same run again")]
pub(crate) struct Train {
    /// The config file; `pronk config ENV` prints one
    #[arg(required_unless_present = "resume", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Change a setting of the file, such as learner.lr=0.001 or algorithm=ppo; may be repeated
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
    /// Resume the run in this folder from its newest checkpoint
    #[arg(long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    resume: Option<PathBuf>,
    /// Serve a live page of the run at this address, such as 127.0.0.1:8080; port 0 is any free one
    #[arg(long, value_name = "ADDRESS")]
    dashboard: Option<String>,
    /// Print one line of JSON at the end, with the folder as `run`, and nothing else
    #[arg(long)]
    json: bool,
    /// Print nothing while it trains
    #[arg(long)]
    quiet: bool,
    /// End as by SIGTERM when the standard input ends, such as with the parent process
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

impl Train {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.end_with_stdin {
            end_with_stdin()?;
        }
        let resumed = self.resume.as_deref().map(RunDir::find).transpose().map_err(unusable)?;
        if let Some(folder) = resumed.as_ref().map(|run| &run.path).or(self.out.as_ref().filter(|_| self.overwrite)) {
            ensure_ended(folder).map_err(unusable)?;
        }
        let mut file = self.settings(resumed.as_ref())?;
        let envs_per_worker = file.config.workers.num_envs_per_worker;
        if let Some(Ok(checkpoints)) = resumed.as_ref().map(RunDir::checkpoints) {
            file.env_options = file.env_options.as_seen(checkpoints.values().map(|from| &from.observation));
        }
        let output = if self.quiet || self.json { ChildOutput::Logged } else { ChildOutput::Shown };
        let env = Environment::named(&file.env, &file.env_options, envs_per_worker, output).map_err(unusable)?;
        // Before the folder: what is refused makes none.
        let prometheus = file.log.prometheus.as_deref().map(bind_prometheus).transpose()?;
        let dashboard = self.dashboard.as_deref().map(|address| self.bind(address)).transpose()?;
        let begins = match &resumed {
            Some(run) if self.out.as_deref().is_none_or(|out| is_same(out, &run.path)) => Begins::Resuming,
            _ if self.overwrite => Begins::Overwriting,
            _ => Begins::New,
        };
        let mut start_up = StartUp::begin(begins, || self.folder(begins, resumed.as_ref(), file.config.seed))?;
        if let Err(error) = start_up.limit(file.stop.when().time) {
            return Err(start_up.failed(error));
        }
        let (trainer, info) = match self.start(&file, env, resumed.as_ref(), &start_up, (prometheus, dashboard)) {
            Ok(begun) => begun,
            Err(error) => {
                let error = start_up.failed(error);
                return Err(resumed.iter().fold(error, |error, run| run.explain(error)));
            }
        };
        // Locked until the run has written how it ended.
        let (out, _lock) = start_up.has_begun();
        if resumed.is_some() && !self.quiet && !self.json {
            note!("resumed after {} env-steps", info.from_env_steps().unwrap_or(0));
        }
        let (run, failure) = match trainer.run(file.stop.when()) {
            Ok(run) => (run, None),
            Err(FailedRun { cause, run }) => (*run, Some(cause)),
        };
        let unsaved = (run.whole != Whole::Nothing).then(|| run.save(&out)).and_then(Result::err);
        let failure = failure.map(|cause| format!("{:#}", anyhow::Error::from(cause)));
        let unsaved = unsaved.map(|error| format!("the trained policy is not saved: {error}; {}", left(out.path())));
        let mut failures: Vec<String> = [failure, unsaved, run.log_failure()].into_iter().flatten().collect();
        let in_words = |failures: &[String]| (!failures.is_empty()).then(|| failures.join("; "));
        let unwritten = info.end(&run, in_words(&failures).as_deref()).err();
        failures.extend(unwritten.map(|error| format!("how the run ended is not on disk: {error}")));
        let failure = in_words(&failures);
        for error in &run.checkpoint_failures {
            note!("warning: a checkpoint was not saved: {error}");
        }
        self.print(&run, &out, failure.as_deref())?;
        match failure {
            Some(failure) => Err(anyhow!(failure)),
            None => Ok(run.exit_status().into()),
        }
    }

    /// Builds the run with its logs, in the folder of `start_up`.
    fn start(
        &self,
        file: &RunFile,
        env: Environment,
        resumed: Option<&RunDir>,
        start_up: &StartUp,
        (prometheus, dashboard): (Option<Prometheus>, Option<Dashboard>),
    ) -> Result<(Trainer, RunInfo)> {
        let out = start_up.folder();
        // Before the threads begin, so that their first spans are seen as well.
        let timers = Timers::new();
        let timeline = start_up.files().join("timeline.json");
        let timeline = file.log.timeline.then(|| Timeline::create(timeline, Timeline::DEFAULT_EVENTS)).transpose()?;
        let log = start_up.files().join(LOG);
        let log = messages::to_file(&log, file.log.level).with_context(|| format!("cannot write {}", log.display()))?;
        let terminal = (!self.quiet && !self.json).then(messages::to_terminal);
        let layers = tracing_subscriber::registry().with(timers.layer()).with(timeline.as_ref().map(Timeline::layer));
        layers.with(log).with(terminal).init();

        let mut trainer = trainer(file, env, out, resumed)?;
        start_up.take_over()?;
        trainer.log_to(out)?;
        trainer.add_reporter(timers.file(out.path().join("timers.json")));
        if let Some(timeline) = timeline {
            trainer.add_reporter(timeline);
        }
        if let Some(prometheus) = prometheus {
            trainer.add_reporter(prometheus);
        }
        if let Some(dashboard) = dashboard {
            trainer.add_reporter(dashboard.with_settings(file.to_json()).with_folder(out.path())?);
        }
        if file.log.console && !self.quiet && !self.json {
            trainer.add_reporter(Console::stderr());
        }
        let config = out.path().join(CONFIG);
        let written = write_whole(&config, file.to_toml()?.as_bytes());
        written.with_context(|| format!("cannot write {}", config.display()))?;
        let info = trainer.take_run_info().context("the run logs to no folder")?.with_env(&file.env)?;
        Ok((trainer, info))
    }

    /// The live page, whose address is printed.
    fn bind(&self, address: &str) -> Result<Dashboard> {
        let dashboard = Dashboard::bind(address).map_err(refused)?;
        let url = dashboard.url();
        // A port or a token that is not known would be of no use.
        if !self.quiet || url != format!("http://{address}/") {
            note!("live page: {url}");
        }
        Ok(dashboard)
    }

    fn settings(&self, resumed: Option<&RunDir>) -> Result<RunFile> {
        let mut flags = self.settings.clone();
        flags.extend(self.seed.map(|seed| Entry::flag("--seed", "seed", seed.into())));
        let of_run = resumed.map(|run| run.path.join(CONFIG));
        let path = self.config.clone().or(of_run).context("name a config file, or a run to --resume")?;
        let mut file = RunFile::read(&path, flags).map_err(unusable)?;
        file.env_options.find_python_from_anywhere();
        Ok(file)
    }

    fn folder(&self, begins: Begins, resumed: Option<&RunDir>, seed: u64) -> Result<RunFolder> {
        let out = match (&self.out, resumed) {
            (_, Some(run)) if begins == Begins::Resuming => return Ok(RunFolder::going_on(&run.path)),
            (None, _) => return Ok(RunFolder::create("runs", seed)?),
            (Some(out), _) => out,
        };
        self.ensure_replaceable(out).map_err(unusable)?;
        match RunFolder::at(out) {
            // What is there is removed once this run can begin.
            Err(RunFolderError::Taken { .. }) if begins == Begins::Overwriting => Ok(RunFolder::going_on(out)),
            Err(error @ (RunFolderError::Taken { .. } | RunFolderError::Foreign { .. })) => Err(unusable(error)),
            folder => Ok(folder?),
        }
    }

    /// Refuses a folder whose config file no run and no sweep has written, since this one would replace it,
    /// and the folder of a sweep.
    fn ensure_replaceable(&self, out: &Path) -> Result<()> {
        ensure!(
            !out.join(SWEEP).exists(),
            "{} is the folder of a sweep, or has a sweep file: name another one for the run",
            out.display()
        );
        let path = out.join(CONFIG);
        let is_input = self.config.as_deref().is_some_and(|config| is_same(config, &path));
        let is_of_run = RunInfo::read(out).is_some_and(|info| info["config"] != "user") && !is_input;
        // As a run or a sweep writes it, all keys in their order, it has nothing that a person wrote.
        let is_as_written = || {
            let text = RunFile::read(&path, Vec::new()).ok()?.to_toml().ok()?;
            Some(text == fs::read_to_string(&path).ok()?)
        };
        ensure!(
            path.symlink_metadata().is_err() || is_of_run || is_as_written() == Some(true),
            "the run would replace {}, which no run has written: name another folder, or move the file",
            path.display()
        );
        Ok(())
    }

    fn print(&self, run: &Run, out: &RunFolder, failure: Option<&str>) -> Result<()> {
        if self.json {
            let mut line: Value = serde_json::from_str(&run.summary().to_string())?;
            line["run"] = out.path().display().to_string().into();
            line["failure"] = failure.into();
            say!("{line}");
            return Ok(());
        }
        let mean = match run.result.episode_return_mean {
            Some(mean) => {
                format!("mean return {} over {} episodes", format_return(mean), run.result.episodes_covered)
            }
            None => "no episode has ended".to_owned(),
        };
        let (env_steps, secs) = (run.steps.sampled.env, run.time.as_secs_f64());
        say!("{mean} after {env_steps} env-steps in {secs:.1} s");
        match run.env_failures.count {
            0 => {}
            1 => say!("an environment failed: {LOG} in the folder says why"),
            failures => say!("environments failed {failures} times: {LOG} in the folder says why"),
        }
        let out = out.path().display();
        match run.reason {
            Some(reason) if reason.signal_status().is_some() => {
                say!("interrupted; resume it with `pronk train --resume {out}`");
            }
            // The error of a run that failed says why it has not reached its target.
            _ if failure.is_none() && run.exit_status() == 1 => say!("the target return was not reached"),
            _ => {}
        }
        say!("{out}");
        Ok(())
    }
}

fn trainer(file: &RunFile, env: Environment, out: &RunFolder, resumed: Option<&RunDir>) -> Result<Trainer> {
    let mut builder = Trainer::builder(file.config.clone()).checkpoints(out.path().join(CHECKPOINTS));
    if file.log.videos {
        builder = builder.videos(out.path().join(VIDEOS));
    }
    if let Some(run) = resumed {
        builder = builder.resume(Resume::from(run.path.join(CHECKPOINTS)));
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

/// What is left in the folder of a run that could not save its policy.
fn left(out: &Path) -> String {
    if out.join(CHECKPOINTS).join(MANIFEST).exists() {
        format!("`pronk train --resume {}` goes on from its newest checkpoint", out.display())
    } else {
        "and there is no checkpoint either".to_owned()
    }
}

/// A port that is taken may be free next time; another address is wrong.
fn bind_prometheus(address: &str) -> Result<Prometheus> {
    Prometheus::bind(address).map_err(|error| match error {
        PrometheusError::Refused { .. } => unusable(error),
        error => error.into(),
    })
}

/// Refuses the folder of a run that a process of this machine still trains. Of another machine it cannot be
/// known, and schedulers do move runs.
fn ensure_ended(folder: &Path) -> Result<()> {
    let info = RunInfo::read(folder).unwrap_or_default();
    let is_here = info["machine"]["host"] == machine()["host"];
    ensure!(
        !(is_here && RunState::of(folder) == RunState::Running),
        "process {} still trains the run in {}: end it first, or name another folder",
        info["process"],
        folder.display()
    );
    Ok(())
}

/// Whether both paths lead to one folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().ok();
    resolved(one).is_some_and(|one| Some(one) == resolved(other))
}

/// Ends the run as SIGTERM does once the standard input ends.
fn end_with_stdin() -> Result<()> {
    let wait = || {
        // What comes does not matter, and an input that cannot be read has ended too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Some schedulers signal all processes at once, and a second signal would not let the run save
        // itself.
        thread::park_timeout(Duration::from_millis(200));
        pronk::signals::terminate();
    };
    let spawned = thread::Builder::new().name("stdin".to_owned()).spawn(wait);
    spawned.map(drop).context("cannot start the thread that waits for the end of the standard input")
}
