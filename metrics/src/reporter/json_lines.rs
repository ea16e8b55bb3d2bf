use std::path::PathBuf;

use super::file::ReportFile;
use super::{FileMark, ReportError, Reporter};
use crate::result::ResultDict;

/// A file with a line of JSON for each result, written at once. A line that fails, for example on a full
/// disk, is truncated away.
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
    file: ReportFile,
}

impl JsonLines {
    /// Creates the file and missing parent folders, or empties the file. Errors name the path.
    pub fn create(path: impl Into<PathBuf>) -> Result<JsonLines, ReportError> {
        Ok(JsonLines { file: ReportFile::create(NAME, path)? })
    }

    /// Continues the file after its first `bytes`, which a [mark](Reporter::mark) said. What follows them is
    /// moved to the file that `tail` names. Errors name the path.
    pub fn resume(
        path: impl Into<PathBuf>,
        bytes: u64,
        tail: impl FnOnce() -> PathBuf,
    ) -> Result<JsonLines, ReportError> {
        Ok(JsonLines { file: ReportFile::resume(NAME, path, bytes, tail)? })
    }
}

impl Reporter for JsonLines {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let mut line = result.to_json_line();
        line.push('\n');
        self.file.append(line.as_bytes())
    }

    /// A line that fails leaves the file as it was.
    fn goes_on(&self) -> bool {
        true
    }

    fn mark(&self) -> Option<FileMark> {
        self.file.mark()
    }
}

const NAME: &str = "json_lines";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_and_no_panic() {
        let error = JsonLines::create("/dev/full").unwrap().report(&ResultDict::new()).unwrap_err().to_string();
        assert!(error.contains("json_lines") && error.contains("/dev/full"), "{error}");
    }
}
