use std::path::PathBuf;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::PrettyFormatter;

use super::Timers;
use crate::reporter::file::write_report;
use crate::reporter::{ReportError, Reporter};
use crate::result::ResultDict;

/// A file with the tree of [`Timers`], written atomically after the last result: JSON, indented by four
/// spaces.
///
/// ```
/// use pronk_metrics::{Reporter, Timers};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run-1/timers.json");
/// let timers = Timers::new();
/// let mut file = timers.file(&path);
/// file.finish()?;
/// assert!(std::fs::read_to_string(&path)?.starts_with("{\n    \"name\": \"root\",\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TimersFile {
    timers: Timers,
    path: PathBuf,
}

impl TimersFile {
    pub(super) fn new(timers: Timers, path: PathBuf) -> TimersFile {
        TimersFile { timers, path }
    }
}

impl Reporter for TimersFile {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, _: &ResultDict) -> Result<(), ReportError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        let mut text = Vec::new();
        let mut json = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
        self.timers.tree().serialize(&mut json).map_err(|error| ReportError::new(NAME, error))?;
        text.push(b'\n');
        write_report(NAME, &self.path, &text)
    }
}

const NAME: &str = "timers";
