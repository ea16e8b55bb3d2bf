//! `pronk compare`.

mod group;
mod summary;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::ValueHint;
use serde_json::json;

use self::group::{Group, groups};
use self::summary::Summary;
use crate::run_dir::RunDir;
use crate::table::{count, dash, number, secs, table};
use crate::unusable;

/// Compare runs: returns, env-steps and time, and the settings that differ
#[derive(clap::Args)]
#[command(after_help = "\
Runs that differ in their seed alone are one group, whose median and range are shown.
`steps to target` and `time to target` are those of the first result whose mean return reached \
stop.episode_return_mean, or --target.
A folder that cannot be compared is skipped with a warning.")]
pub(crate) struct Compare {
    /// Folders of runs, also while they train
    #[arg(required = true, value_name = "RUN", value_hint = ValueHint::DirPath)]
    runs: Vec<PathBuf>,
    /// Mean return to look for [default: stop.episode_return_mean of each run]
    #[arg(long, allow_negative_numbers = true)]
    target: Option<f64>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(crate) fn run(self) -> Result<ExitCode> {
        ensure!(self.target.is_none_or(f64::is_finite), unusable(anyhow::anyhow!("--target is not finite")));
        let summaries = self.summaries()?;
        let groups = groups(&summaries);
        if self.json {
            say!("{}", json!({ "runs": summaries, "groups": groups }));
            return Ok(ExitCode::SUCCESS);
        }
        print_runs(&summaries);
        if groups.iter().any(|group| group.runs.len() > 1) {
            print_groups(&groups);
        }
        print_differences(&groups);
        Ok(ExitCode::SUCCESS)
    }

    /// The runs, each once. A warning names a folder that cannot be compared, such as one of another program
    /// that `runs/*` matches.
    ///
    /// # Errors
    /// That of the last folder if none can be compared.
    fn summaries(&self) -> Result<Vec<Summary>> {
        let (mut summaries, mut errors, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for folder in &self.runs {
            let runs = RunDir::find_all(folder).unwrap_or_else(|error| {
                errors.push(unusable(error));
                Vec::new()
            });
            for run in runs {
                // `runs/*` names the newest run twice: its link `latest` too.
                if seen.insert(run.path.clone()) {
                    match Summary::of(&run, self.target) {
                        Ok(summary) => summaries.push(summary),
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
        let last = if summaries.is_empty() { errors.pop() } else { None };
        for error in errors {
            note!("warning: skipped: {error:#}");
        }
        last.map_or(Ok(summaries), Err)
    }
}

fn print_runs(runs: &[Summary]) {
    let mut rows = table(&[
        "run",
        "env",
        "algorithm",
        "seed",
        "state",
        "env-steps",
        "time",
        "return",
        "best",
        "steps to target",
        "time to target",
    ]);
    for run in runs {
        rows.add_row([
            run.run.display().to_string(),
            run.env.clone(),
            run.algorithm.clone(),
            run.seed.to_string(),
            run.state.to_string(),
            count(run.env_steps),
            secs(run.secs),
            number(run.episode_return_mean),
            number(run.best_return_mean),
            run.env_steps_to_target.map_or_else(dash, count),
            run.secs_to_target.map_or_else(dash, secs),
        ]);
    }
    say!("{rows}");
}

fn print_groups(groups: &[Group<'_>]) {
    let mut rows =
        table(&["group", "runs", "return: median", "lowest", "highest", "steps to target: median", "reached"]);
    for (index, group) in groups.iter().enumerate() {
        let [lowest, median, highest] = group.returns.map_or([None; 3], |range| range.map(Some));
        rows.add_row([
            format!("{} ({})", index + 1, group.first().run.display()),
            group.runs.len().to_string(),
            number(median),
            number(lowest),
            number(highest),
            group.env_steps_to_target.map_or_else(dash, count),
            format!("{} of {}", group.reached, group.runs.len()),
        ]);
    }
    say!("\n{rows}");
}

fn print_differences(groups: &[Group<'_>]) {
    let Some((first, others)) = groups.split_first() else { return };
    for other in others {
        let (first, other) = (first.first(), other.first());
        let mut rows = table(&[]);
        // Folders as they are, for use in another command.
        rows.set_header(["SETTING".to_owned(), first.run.display().to_string(), other.run.display().to_string()]);
        for (key, [ours, theirs]) in group::differences(&first.settings, &other.settings) {
            rows.add_row([key, ours.to_string(), theirs.to_string()]);
        }
        say!("\n{rows}");
    }
}
