mod closure;
mod console;
mod csv;
mod html;
mod json_lines;
mod tensorboard;

pub(crate) mod file;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

pub use closure::{ReporterFn, reporter_fn};
pub use console::Console;
pub use csv::Csv;
pub use html::{HtmlReport, charts};
pub use json_lines::JsonLines;
pub use tensorboard::TensorBoard;

use serde::{Deserialize, Serialize};

use crate::clock::ClockReader;
use crate::result::ResultDict;

/// Shows results: on the console, in a file, on a dashboard.
///
/// The trainer calls [`report`](Reporter::report) once per iteration, in order, on its own thread: a slow
/// reporter slows the trainer, but no worker or learner.
///
/// ```
/// use pronk_metrics::{ReportError, Reporter, ResultDict};
///
/// struct Best(Option<f64>);
/// impl Reporter for Best {
///     fn name(&self) -> &str {
///         "best"
///     }
///     fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
///         let mean = result.number("episode_return_mean");
///         self.0 = self.0.into_iter().chain(mean).reduce(f64::max);
///         Ok(())
///     }
/// }
///
/// let mut best = Best(None);
/// let mut result = ResultDict::new();
/// result.set("episode_return_mean", 21.0);
/// best.report(&result)?;
/// assert_eq!(best.0, Some(21.0));
/// # Ok::<(), ReportError>(())
/// ```
pub trait Reporter: Send {
    /// The reporter's name in errors.
    fn name(&self) -> &str;

    /// Shows one result. After an error the trainer drops the reporter, unless it [goes on](Self::goes_on).
    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError>;

    /// Whether it goes on after a [`report`](Self::report) that failed, as if there had not been that result.
    /// The trainer then gives it the next one too, counts those that are [missing](ReportError::missed), and
    /// so a log goes on once its disk has room again.
    fn goes_on(&self) -> bool {
        false
    }

    /// The clock of the reporter's own thread, if it has one, for the run's time ledger.
    fn clock(&self) -> Option<ClockReader> {
        None
    }

    /// How much of its file the results reported so far have written, for a checkpoint; `None`, the
    /// default, if a resumed run starts it anew.
    fn mark(&self) -> Option<FileMark> {
        None
    }

    /// Writes buffered results; called once, after the last.
    fn finish(&mut self) -> Result<(), ReportError> {
        Ok(())
    }
}

/// How much of a reporter's file belongs to the results up to one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// The name of the file, without its folder.
    pub file: String,
    /// Its length after that result.
    pub bytes: u64,
    /// Where it is now, so that it can be synced before the checkpoint; not saved.
    #[serde(skip)]
    pub path: PathBuf,
}

/// The failure of a reporter.
#[derive(Debug, thiserror::Error)]
#[error("reporter `{reporter}` failed: {source}{}", missing(*missed))]
pub struct ReportError {
    /// The reporter's name.
    pub reporter: String,
    /// The cause.
    pub source: Box<dyn Error + Send + Sync>,
    /// Results that a reporter which [goes on](Reporter::goes_on) does not have: 0 of one that was dropped,
    /// which has no later ones.
    pub missed: u64,
}

impl ReportError {
    /// The failure `source` of `reporter`.
    pub fn new(reporter: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> ReportError {
        ReportError { reporter: reporter.into(), source: source.into(), missed: 0 }
    }

    /// The failure of `reporter` to do `what`, such as `"write"`, with a file.
    pub fn of_file(reporter: &str, what: &'static str, path: &Path, source: io::Error) -> ReportError {
        ReportError::new(reporter, FileError { what, path: path.to_owned(), source })
    }

    /// The file that could not be written, if that is the cause.
    pub fn file(&self) -> Option<&Path> {
        self.source.downcast_ref::<FileError>().map(|error| error.path.as_path())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`: {source}", path.display())]
struct FileError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn missing(results: u64) -> String {
    match results {
        0 => String::new(),
        1 => "; 1 result is missing".to_owned(),
        results => format!("; {results} results are missing"),
    }
}
