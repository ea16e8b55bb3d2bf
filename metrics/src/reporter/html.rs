pub mod charts;
mod page;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::file::{make_folder_above, write_report};
use super::{ReportError, Reporter};
use crate::history::RunHistory;
use crate::result::ResultDict;

/// A report of the whole run as one HTML page, written at the end of the run.
///
/// The page is self-contained; [uPlot](https://github.com/leeoniya/uPlot) draws the charts. It has a light
/// and a dark mode and fits a phone. Memory stays within some hundred kilobytes: a full curve halves its
/// resolution, and each point keeps minimum, mean and maximum. [`finish`](Reporter::finish) replaces the page
/// atomically.
///
/// ```
/// use pronk_metrics::{HtmlReport, Reporter, ResultDict};
/// use serde_json::json;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run-1/report.html");
/// let settings = json!({"env": "CartPole-v1", "algorithm": "impala", "lr": 6e-4});
/// let mut report = HtmlReport::create(&path)?.with_settings(settings);
/// let mut result = ResultDict::new();
/// result.set("num_env_steps_sampled", 1_863_040);
/// result.set("episode_return_mean", 475.5);
/// report.report(&result)?;
/// report.finish()?;
/// assert!(std::fs::read_to_string(&path)?.contains("1863040"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HtmlReport {
    path: PathBuf,
    settings: Value,
    history: RunHistory,
}

impl HtmlReport {
    /// A report at `path`. Creates missing parent folders now; an error names the folder that cannot be made,
    /// or `path` if it is a folder.
    pub fn create(path: impl Into<PathBuf>) -> Result<HtmlReport, ReportError> {
        let path = path.into();
        make_folder_above(NAME, &path)?;
        if path.file_name().is_none() || path.is_dir() {
            return Err(ReportError::of_file(NAME, "write a page to", &path, io::ErrorKind::IsADirectory.into()));
        }
        Ok(HtmlReport { path, settings: Value::Null, history: RunHistory::default() })
    }

    /// Adds the settings of the run as a table. `env` (or `environment`) and `algorithm` make the page's
    /// title.
    pub fn with_settings(mut self, settings: Value) -> HtmlReport {
        self.settings = settings;
        self
    }
}

impl Reporter for HtmlReport {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        self.history.take(result);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        let page = page::page(&self.history, &self.settings);
        write_report(NAME, &self.path, page.as_bytes())
    }
}

const NAME: &str = "html_report";
