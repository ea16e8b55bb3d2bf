use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{ReportError, Reporter};
use crate::result::ResultDict;

/// A file with one JSON object per line and result, each written before the next is computed.
///
/// ```
/// use pronk_metrics::{JsonLines, Reporter, ResultDict};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run-1/results.jsonl");
/// let mut results = JsonLines::create(&path)?;
/// let mut result = ResultDict::new();
/// result.set("training_iteration", 1);
/// results.report(&result)?;
/// assert_eq!(std::fs::read_to_string(&path)?, "{\"training_iteration\":1}\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// Makes the file, and the folders above it that are missing. A file of that name is emptied.
    ///
    /// # Errors
    /// A folder or the file cannot be made; the error names it.
    pub fn create(path: impl Into<PathBuf>) -> Result<JsonLines, ReportError> {
        let path = path.into();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed("create folder", folder, error))?;
        }
        let file = File::create(&path).map_err(|error| failed("create", &path, error))?;
        Ok(JsonLines { path, file })
    }
}

impl Reporter for JsonLines {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let mut line = result.to_json_line();
        line.push('\n');
        // A `File` has no buffer of its own, so the line is with the system when this returns.
        self.file.write_all(line.as_bytes()).map_err(|error| failed("write to", &self.path, error))
    }
}

const NAME: &str = "json_lines";

fn failed(what: &str, path: &Path, error: io::Error) -> ReportError {
    ReportError::new(NAME, FileError { what: what.to_owned(), path: path.to_owned(), source: error })
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`: {source}", path.display())]
struct FileError {
    what: String,
    path: PathBuf,
    source: io::Error,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_result_is_a_line_on_disk_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/results.jsonl");
        let mut reporter = JsonLines::create(&path).unwrap();
        let mut result = ResultDict::new();
        for iteration in 1..=3 {
            result.set("training_iteration", iteration);
            result.set("text", "two\nlines");
            reporter.report(&result).unwrap();
            let written = fs::read_to_string(&path).unwrap();
            assert_eq!(written.lines().count(), iteration);
            assert_eq!(written.lines().last().unwrap(), result.to_json_line());
        }
        reporter.finish().unwrap();
    }

    #[test]
    fn an_error_names_the_reporter_and_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let in_the_way = folder.path().join("file");
        fs::write(&in_the_way, "").unwrap();
        let error = JsonLines::create(in_the_way.join("results.jsonl")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("json_lines") && text.contains(&*in_the_way.to_string_lossy()), "{text}");

        let error = JsonLines::create(folder.path()).unwrap_err();
        assert!(error.to_string().contains(&*folder.path().to_string_lossy()), "{error}");
    }
}
