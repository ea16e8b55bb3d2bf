mod axis;
mod lag_histogram;
mod line_chart;
mod memory;
mod page;
mod palette;
mod series;
mod settings;
mod step_bar;
mod text;
mod time_bars;
mod trouble;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use serde_json::Value;

use self::memory::Memory;
use super::file::{failed, make_folder_above, write_whole};
use super::{ReportError, Reporter};
use crate::result::ResultDict;

/// A report of the whole run as one HTML page, written when the run is over.
///
/// The page needs nothing but itself: no network, no script, no font; its pictures are inline SVG. It reads in light and
/// dark, on a phone and on paper. Same results, same page.
///
/// However long the run is, what is remembered of it stays within some hundred kilobytes: a curve that is full halves its
/// resolution and keeps least, mean and greatest of what each of its points covers. A page is there only once
/// [`finish`](Reporter::finish) has written it; before that, a page of that name stays as it was.
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
/// assert!(std::fs::read_to_string(&path)?.contains("1,863,040"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HtmlReport {
    path: PathBuf,
    settings: Value,
    memory: Memory,
}

impl HtmlReport {
    /// A report that will be at `path`. Folders above it that are missing are made now.
    ///
    /// # Errors
    /// A folder cannot be made, or `path` is a folder itself; the error names it.
    pub fn create(path: impl Into<PathBuf>) -> Result<HtmlReport, ReportError> {
        let path = path.into();
        make_folder_above(NAME, &path)?;
        if path.file_name().is_none() || path.is_dir() {
            return Err(failed(NAME, "write a page to", &path, io::ErrorKind::IsADirectory.into()));
        }
        Ok(HtmlReport { path, settings: Value::Null, memory: Memory::default() })
    }

    /// The same report with the settings of the run, which the page shows as a table.
    ///
    /// The page is headed by `env` (or `environment`) and `algorithm` of the settings, where they are there.
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
        self.memory.take(result);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        let page = page::page(&self.memory, &self.settings);
        write_whole(NAME, &self.path, page.as_bytes())
    }
}

const NAME: &str = "html_report";
