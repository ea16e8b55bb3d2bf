//! `pronk sweep`.

mod asha;
mod file;
mod folder;
mod metric;
mod parameter;
mod plan;
mod points;
mod processes;
mod run;
mod runs;
mod table;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::{fmt, fs};

use anyhow::{Context, Result};
use clap::ValueHint;
use rustix::event::Timespec;

use self::file::SweepFile;
pub(crate) use self::folder::SWEEP;
use self::folder::SweepFolder;
use self::plan::Plan;
use self::processes::{Event, Processes};
use self::run::{Run, State};
use self::runs::Runs;
use crate::{at_least_one, unusable};

/// Train with many settings, each in a process of its own, and compare them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pronk sweep configs/sweeps/cartpole.toml
  pronk sweep mine.toml --dry-run            # the trials, without running them
  pronk sweep mine.toml --out sweeps/mine    # again after a kill: it goes on

Exit status: 0 all runs have ended; 1 a run failed; 2 wrong usage or settings; 130 after Ctrl-C; 143 after \
SIGTERM; 129 after SIGHUP. Signals let every run save itself; the same command with the folder of the sweep as --out goes on.")]
pub(crate) struct Sweep {
    /// The sweep file: a config, the settings to vary, and their values
    #[arg(value_hint = ValueHint::FilePath)]
    sweep: PathBuf,
    /// Folder of the sweep, also of one to go on with [default: sweeps/TIME]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Runs at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    jobs: Option<NonZeroUsize>,
    /// Go on also with runs that another host has begun, such as a container with another name: only once
    /// none of their processes is left there
    #[arg(long, requires = "out")]
    take_over: bool,
    /// List the trials, and run none
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON at the end, and nothing else
    #[arg(long)]
    json: bool,
    /// Print nothing while it runs
    #[arg(long)]
    quiet: bool,
}

impl Sweep {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let read = || format!("cannot read {}", self.sweep.display());
        let text = fs::read_to_string(&self.sweep).with_context(read).map_err(unusable)?;
        let file = SweepFile::parse(&self.sweep, text).map_err(unusable)?;
        let plan = Plan::of(&file).map_err(unusable)?;
        if self.dry_run {
            table::print_plan(&plan, self.json);
            return Ok(ExitCode::SUCCESS);
        }
        let folder = SweepFolder::open(self.out.as_deref(), &file.text, &plan.config)?;
        let mut running = Running {
            runs: Runs::read(&folder.path, &plan)?,
            processes: Processes::new()?,
            plan: &plan,
            jobs: self.jobs.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get),
            is_quiet: self.quiet || self.json,
            signal: None,
            metric: if plan.is_statistic { Metric::Unseen } else { Metric::Known },
        };
        running.note(format_args!("{}: {}, {} at a time", folder.path.display(), table::size(&plan), running.jobs));
        running.runs.settle(self.take_over, &plan)?;
        running.adopt()?;
        running.run_all()?;
        let Running { runs, signal, metric, .. } = running;
        if let Metric::Wrong(reason) = metric {
            return Err(unusable(file.wrong_metric(&reason)));
        }
        if self.json {
            table::print_json(&plan, &runs, &folder.path);
        } else {
            table::print_results(&plan, &runs);
            say!("{}", folder.path.display());
        }
        if let Some(status) = signal {
            let (sweep, folder) = (self.sweep.display(), folder.path.display());
            if !self.json {
                note!("not finished; continue with `pronk sweep {sweep} --out {folder}`");
            }
            return Ok(status.into());
        }
        let has_failed = runs.all.iter().any(|run| matches!(run.state, State::Failed(_)));
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// A sweep that runs.
struct Running<'a> {
    plan: &'a Plan,
    runs: Runs,
    processes: Processes,
    jobs: usize,
    is_quiet: bool,
    /// The exit status of the signal that ends it.
    signal: Option<u8>,
    metric: Metric,
}

/// Whether results have the metric.
enum Metric {
    Known,
    /// No result has told yet.
    Unseen,
    /// They have not, which ends the sweep.
    Wrong(String),
}

/// How often results are looked at until one tells whether there is such a metric.
const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Running<'_> {
    /// Waits also for the processes that a killed sweep has left, or that a user has started.
    fn adopt(&mut self) -> Result<()> {
        let mut adopted = Vec::new();
        for run in 0..self.runs.all.len() {
            let it = &self.runs.all[run];
            let State::Running { process } = it.state else { continue };
            if self.processes.adopt(run, process, it.ends_with_its_sweep())? {
                adopted.push(format!("{} (process {process})", it.name()));
            } else {
                // It has ended since.
                self.runs.look(run, self.plan)?;
            }
        }
        if !adopted.is_empty() {
            self.note(format_args!("waiting for what runs already: {}", adopted.join(", ")));
        }
        Ok(())
    }

    fn run_all(&mut self) -> Result<()> {
        loop {
            self.look_for_metric();
            while self.goes_on() && self.processes.len() < self.jobs {
                let Some(run) = self.runs.next(self.plan)? else { break };
                self.start(run)?;
            }
            if self.processes.len() == 0 {
                return Ok(());
            }
            let is_unseen = matches!(self.metric, Metric::Unseen);
            match self.processes.wait(is_unseen.then_some(SECOND))? {
                Event::Nothing => {}
                Event::Ended { id, status } => self.end(id, status)?,
                Event::Signal(status) => {
                    self.signal = Some(status);
                    self.processes.terminate();
                    let n = self.processes.len();
                    let runs = if n == 1 { "run" } else { "runs" };
                    self.note(format_args!("waiting for {n} {runs} to save; a second signal does not wait"));
                }
            }
        }
    }

    /// Whether further runs may start.
    fn goes_on(&self) -> bool {
        self.signal.is_none() && !matches!(self.metric, Metric::Wrong(_))
    }

    /// Looks whether the runs so far have the metric, and ends them if they have not: all would run in vain.
    fn look_for_metric(&mut self) {
        if !matches!(self.metric, Metric::Unseen) {
            return;
        }
        match self.runs.all.iter().find_map(|run| run.check_statistic(&self.plan.metric)) {
            None => {}
            Some(Ok(())) => self.metric = Metric::Known,
            Some(Err(reason)) => {
                self.metric = Metric::Wrong(reason);
                self.processes.terminate();
            }
        }
    }

    fn start(&mut self, run: usize) -> Result<()> {
        let rung = self.runs.rung(run);
        let it = &mut self.runs.all[run];
        let trial = &self.plan.trials[it.number - 1];
        let mut file = trial.file.clone();
        file.config.seed = it.seed;
        file.stop.env_steps = self.plan.rungs[rung].or(file.stop.env_steps);
        it.describe(&file, trial.point.values(), rung)?;
        let started = self.processes.start(run, it.arguments(), it.output()?);
        let process = started.with_context(|| format!("cannot start the process of {}", it.folder.display()))?;
        it.state = State::Running { process: process.into() };
        Ok(())
    }

    /// Notes that the process of a run has ended.
    fn end(&mut self, run: usize, status: Option<ExitStatus>) -> Result<()> {
        self.runs.look(run, self.plan)?;
        let goes_on = self.goes_on();
        let it = &mut self.runs.all[run];
        // One that has not said how it ended would only do the same again, unless it was ended by this sweep,
        // or with the one before.
        if it.state == State::Waiting
            && let (true, Some(status)) = (goes_on, status)
        {
            it.state = State::Failed(it.last_words(status));
        }
        if it.state != State::Waiting {
            let line = table::line(self.plan, it);
            let has_ended = |run: &&Run| matches!(run.state, State::Ended | State::RanOut | State::Failed(_));
            let (n_ended, n_runs) = (self.runs.all.iter().filter(has_ended).count(), self.runs.all.len());
            // With rungs, one that has ended may go on.
            let progress = if self.plan.rungs[0].is_none() { format!("{n_ended}/{n_runs} ") } else { String::new() };
            self.note(format_args!("{progress}{line}"));
        }
        Ok(())
    }

    /// Prints a line about what goes on.
    fn note(&self, text: fmt::Arguments<'_>) {
        if !self.is_quiet {
            note!("{text}");
        }
    }
}
