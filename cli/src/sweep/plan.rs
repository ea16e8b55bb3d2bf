//! [`Plan`]: the trials of a sweep, every setting of them checked.

use std::fs;

use anyhow::{Context, Result, bail};
use pronk::env_process::ChildOutput;

use super::asha;
use super::file::{Mode, Search, SweepFile};
use super::metric::{self, STATISTIC, check_policy};
use super::points::{Point, grid, grid_size, random};
use crate::environment::Environment;
use crate::run_file::{FileError, RunFile};

/// The most runs of a sweep.
const MOST_RUNS: usize = 10_000;

/// What a sweep runs.
pub(super) struct Plan {
    /// The path in a result.
    pub(super) metric: String,
    /// Whether only results tell that there is such a metric.
    pub(super) is_statistic: bool,
    pub(super) mode: Mode,
    pub(super) trials: Vec<Trial>,
    /// The env-steps that each rung ends at; one that is `None` if the config says where a run ends.
    pub(super) rungs: Vec<Option<u64>>,
    /// One trial of so many is promoted to the next rung.
    pub(super) reduction: usize,
    /// The text of the config file.
    pub(super) config: String,
}

/// A trial of a sweep: a point, trained once with each seed.
pub(super) struct Trial {
    pub(super) point: Point,
    pub(super) seeds: Vec<u64>,
    /// All its settings but the seed and the limit of env-steps.
    pub(super) file: RunFile,
}

impl Plan {
    /// The sweep that a file describes.
    ///
    /// # Errors
    /// The first thing in the file, its config or a trial that cannot be.
    pub(super) fn of(file: &SweepFile) -> Result<Self> {
        let config = file.config();
        let text = fs::read_to_string(&config).map_err(|cause| FileError::Unread { path: config.clone(), cause });
        let text = text.with_context(|| format!("the config of the sweep {}", file.path().display()))?;
        let (seeds, search) = (file.seeds()?, file.search()?);
        let key = metric::check(file.metric()).map_err(|reason| file.wrong_metric(&reason))?;
        let (rungs, reduction) = match &search {
            Search::Asha { budgets, .. } => {
                let rungs = asha::rungs(budgets.min_env_steps, budgets.max_env_steps, budgets.reduction as u64);
                (rungs.into_iter().map(Some).collect(), budgets.reduction)
            }
            Search::Grid | Search::Random { .. } => (vec![None], 1),
        };
        let n_trials = match search {
            Search::Grid => grid_size(&file.parameters)?,
            Search::Random { trials, .. } | Search::Asha { trials, .. } => trials,
        };
        let n_runs = n_trials.saturating_mul(seeds.map_or(1, <[u64]>::len));
        if n_runs > MOST_RUNS {
            let count = if n_runs == usize::MAX { "more than 10^19".to_owned() } else { n_runs.to_string() };
            return Err(file.whole(format!("these are {count} runs, and a sweep has {MOST_RUNS} at most")).into());
        }
        let points = match search {
            Search::Grid => grid(&file.parameters)?,
            Search::Random { seed, .. } | Search::Asha { seed, .. } => {
                (1..=n_trials as u64).map(|trial| random(&file.parameters, seed, trial)).collect()
            }
        };
        for parameter in &file.parameters {
            match parameter.name().as_str() {
                "seed" => return Err(parameter.wrong("cannot be varied here: list `seeds` above [parameters]").into()),
                "stop.env_steps" if rungs[0].is_some() => {
                    return Err(parameter.wrong("cannot be varied with search = \"asha\", which sets it").into());
                }
                _ => {}
            }
        }
        let trial = |point: Point| -> Result<Trial> {
            let run = RunFile::parse_all(&config, &text, &point.0)?;
            check(file, key, &run, rungs[0].is_some())?;
            let seeds = seeds.map_or_else(|| vec![run.config.seed], <[u64]>::to_vec);
            Ok(Trial { point, seeds, file: run })
        };
        let trials = points.into_iter().map(trial).collect::<Result<_>>()?;
        Ok(Self {
            metric: file.metric().to_owned(),
            is_statistic: key == STATISTIC,
            mode: file.mode(),
            trials,
            rungs,
            reduction,
            config: text,
        })
    }

    pub(super) fn n_runs(&self) -> usize {
        self.trials.iter().map(|trial| trial.seeds.len()).sum()
    }

    /// The better of two values of the metric has the higher score.
    pub(super) fn score(&self, value: f64) -> f64 {
        match self.mode {
            Mode::Max => value,
            Mode::Min => -value,
        }
    }
}

/// What a run of its own may have, and one of many may not.
fn check(file: &SweepFile, metric: &str, run: &RunFile, has_budget: bool) -> Result<()> {
    let env =
        Environment::named(&run.env, &run.env_options, run.config.workers.num_envs_per_worker, ChildOutput::default())?;
    check_policy(file.metric(), metric, run, &env).map_err(|reason| file.wrong_metric(&reason))?;
    let config = file.config();
    if run.log.prometheus.is_some() {
        bail!("{}: leave `log.prometheus` out: the runs of a sweep cannot share its address", config.display());
    }
    let stop = &run.stop;
    if !has_budget && stop.env_steps.is_none() && stop.time.is_none() && stop.iterations.is_none() {
        let reason = "a run that misses its target would never end: set stop.env_steps, stop.time or stop.iterations";
        bail!("{}: {reason}", config.display());
    }
    if file.metric().starts_with("evaluation.") && run.config.evaluation.every.is_none() {
        let reason = format!("`{}` needs evaluations: set evaluation.every in the config", file.metric());
        return Err(file.wrong_metric(&reason).into());
    }
    Ok(())
}
