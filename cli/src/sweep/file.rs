//! [`SweepFile`]: what a sweep file says.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::parameter::{Parameter, parameters};
use crate::run_file::{FileError, Source, env_steps};

/// A sweep file.
#[derive(Clone, Debug)]
pub(super) struct SweepFile {
    path: PathBuf,
    pub(super) text: String,
    written: Written,
    /// What is varied, in the order of the file.
    pub(super) parameters: Vec<Parameter>,
}

/// The keys of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    config: PathBuf,
    #[serde(default = "episode_return_mean")]
    metric: Spanned<String>,
    #[serde(default)]
    mode: Mode,
    seeds: Option<Spanned<Vec<u64>>>,
    #[serde(default)]
    search: SearchName,
    trials: Option<Spanned<usize>>,
    seed: Option<Spanned<u64>>,
    asha: Option<Spanned<Budgets>>,
    parameters: Spanned<toml::Table>,
}

/// Which values of the metric are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    #[default]
    Max,
    Min,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchName {
    #[default]
    Grid,
    Random,
    Asha,
}

/// How trials are found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Search {
    /// Every combination of values.
    Grid,
    /// So many trials, each a point at random.
    Random { trials: usize, seed: u64 },
    /// The same, of which the best are trained further.
    Asha { trials: usize, seed: u64, budgets: Budgets },
}

/// How far asynchronous successive halving trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budgets {
    /// Of every trial.
    #[serde(deserialize_with = "env_steps")]
    pub(super) min_env_steps: u64,
    /// Of none more than this.
    #[serde(deserialize_with = "env_steps")]
    pub(super) max_env_steps: u64,
    /// One of so many is trained further, and so many times as far.
    pub(super) reduction: usize,
}

impl SweepFile {
    /// The text of the file `path`.
    ///
    /// # Errors
    /// The first key that is unknown or missing, or cannot be as it is, with its place.
    pub(super) fn parse(path: &Path, text: String) -> Result<Self, FileError> {
        let no_toml = |error| FileError::no_toml(path, &text, &error);
        let places = DeTable::parse(&text).map_err(no_toml)?;
        if ["env", "config"].map(|key| places.get_ref().contains_key(key)) == [true, false] {
            let reason = "this is the config file of one run: train it by `pronk train`, or name it as `config` in a \
                          sweep file";
            return Err(FileError::Whole { path: path.to_owned(), reason: reason.to_owned() });
        }
        let written: Written = toml::from_str(&text).map_err(no_toml)?;
        let found = places.get_ref().iter().find(|(key, _)| key.get_ref() == "parameters");
        let parameters = match found.map(|(_, place)| place.get_ref()) {
            Some(DeValue::Table(places)) => parameters(path, &text, written.parameters.get_ref(), places)?,
            _ => Vec::new(),
        };
        let file = Self { path: path.to_owned(), text, written, parameters };
        if file.parameters.is_empty() {
            return Err(file.wrong(&file.written.parameters, "`parameters` is empty: name a setting to vary"));
        }
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The config file that every run begins with.
    pub(super) fn config(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(&self.written.config)
    }

    /// The path in a result.
    pub(super) fn metric(&self) -> &str {
        self.written.metric.get_ref()
    }

    pub(super) fn mode(&self) -> Mode {
        self.written.mode
    }

    /// The error that the metric cannot be.
    pub(super) fn wrong_metric(&self, reason: &str) -> FileError {
        self.wrong(&self.written.metric, reason)
    }

    /// The seeds that each trial is trained with; `None` for the config's own.
    ///
    /// # Errors
    /// There is none, or one comes twice.
    pub(super) fn seeds(&self) -> Result<Option<&[u64]>, FileError> {
        let Some(seeds) = &self.written.seeds else { return Ok(None) };
        let list = seeds.get_ref();
        if list.is_empty() {
            return Err(self.wrong(seeds, "`seeds` is empty: name one, or leave it out for the seed of the config"));
        }
        match list.iter().enumerate().find(|(at, seed)| list[..*at].contains(seed)) {
            Some((_, seed)) => Err(self.wrong(seeds, &format!("`seeds` has {seed} twice: the same run would be made"))),
            None => Ok(Some(list)),
        }
    }

    /// How trials are found.
    ///
    /// # Errors
    /// A key that the search needs, or that it has no use for.
    pub(super) fn search(&self) -> Result<Search, FileError> {
        let written = &self.written;
        if let (Some(budgets), false) = (&written.asha, written.search == SearchName::Asha) {
            return Err(self.wrong(budgets, "[asha] is only for search = \"asha\": set that, or leave the table out"));
        }
        if written.search == SearchName::Grid {
            let unused = written.trials.as_ref().map(Spanned::span).or(written.seed.as_ref().map(Spanned::span));
            return unused.map_or(Ok(Search::Grid), |span| {
                let reason =
                    "a grid tries every combination: leave `trials` and `seed` out, or set search = \"random\"";
                Err(FileError::Setting { place: self.place(span.start), reason: reason.to_owned() })
            });
        }
        let missing = |reason: &str| FileError::Whole { path: self.path.clone(), reason: reason.to_owned() };
        let trials = written.trials.as_ref().ok_or_else(|| missing("`trials` is missing: say how many to run"))?;
        if *trials.get_ref() == 0 {
            return Err(self.wrong(trials, "`trials` is 0: run one at least"));
        }
        let (trials, seed) = (*trials.get_ref(), written.seed.as_ref().map_or(0, |seed| *seed.get_ref()));
        if written.search == SearchName::Random {
            return Ok(Search::Random { trials, seed });
        }
        let budgets = written
            .asha
            .as_ref()
            .ok_or_else(|| missing("[asha] is missing: it has min_env_steps, max_env_steps and reduction"))?;
        let Budgets { min_env_steps, max_env_steps, reduction } = *budgets.get_ref();
        if reduction < 2 {
            return Err(self.wrong(budgets, "reduction must be 2 or more: one of so many trials is trained further"));
        }
        if min_env_steps > max_env_steps {
            return Err(self.wrong(budgets, "min_env_steps is more than max_env_steps"));
        }
        Ok(Search::Asha { trials, seed, budgets: *budgets.get_ref() })
    }

    /// The error that one file says more than a sweep can hold, or something else that is no single key's
    /// fault.
    pub(super) fn whole(&self, reason: String) -> FileError {
        FileError::Whole { path: self.path.clone(), reason }
    }

    fn wrong<T>(&self, at: &Spanned<T>, reason: &str) -> FileError {
        FileError::Setting { place: self.place(at.span().start), reason: reason.to_owned() }
    }

    fn place(&self, offset: usize) -> Source {
        Source::in_file(&self.path, &self.text, offset)
    }
}

fn episode_return_mean() -> Spanned<String> {
    Spanned::new(0..0, "episode_return_mean".to_owned())
}
