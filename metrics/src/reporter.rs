mod closure;
mod console;
mod csv;
mod html;
mod json_lines;
mod tensorboard;

pub(crate) mod file;

use std::error::Error;

pub use closure::{ReporterFn, reporter_fn};
pub use console::Console;
pub use csv::Csv;
pub use html::HtmlReport;
pub use json_lines::JsonLines;
pub use tensorboard::TensorBoard;

use crate::clock::ClockReader;
use crate::result::ResultDict;

/// Something that shows results: a line on the console, a file, a dashboard.
///
/// The trainer calls [`report`](Reporter::report) once per iteration from its own thread, so a slow reporter
/// slows the trainer but never a worker or the learner. Results come in order of their iteration.
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
    /// What errors call this reporter.
    fn name(&self) -> &str;

    /// Shows one result.
    ///
    /// # Errors
    /// The result could not be reported. The reporter stays usable for the next result.
    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError>;

    /// How the time of a thread of its own is split, if it has one: the run's time ledger then has it, too.
    fn clock(&self) -> Option<ClockReader> {
        None
    }

    /// Writes what is still held back; called once, after the last result.
    ///
    /// # Errors
    /// What was held back could not be written.
    fn finish(&mut self) -> Result<(), ReportError> {
        Ok(())
    }
}

/// A result that could not be shown: which reporter, and why.
#[derive(Debug, thiserror::Error)]
#[error("reporter `{reporter}` failed: {source}")]
pub struct ReportError {
    /// The reporter's name.
    pub reporter: String,
    /// What went wrong.
    pub source: Box<dyn Error + Send + Sync>,
}

impl ReportError {
    /// The failure `source` of `reporter`.
    pub fn new(reporter: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> ReportError {
        ReportError { reporter: reporter.into(), source: source.into() }
    }
}
