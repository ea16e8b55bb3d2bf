use std::error::Error;
use std::fmt;

use super::{ReportError, Reporter};
use crate::result::ResultDict;

/// A closure as a reporter called `name`; it may return any error through `?`.
///
/// ```
/// use pronk_metrics::{Reporter, ResultDict, reporter_fn};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("newest");
/// let mut newest = reporter_fn("newest", |result| {
///     std::fs::write(&path, result.to_json_line())?;
///     Ok(())
/// });
/// let mut result = ResultDict::new();
/// result.set("training_iteration", 1);
/// newest.report(&result)?;
/// assert_eq!(std::fs::read_to_string(&path)?, "{\"training_iteration\":1}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reporter_fn<F>(name: impl Into<String>, report: F) -> ReporterFn<F>
where
    F: FnMut(&ResultDict) -> Result<(), Box<dyn Error + Send + Sync>> + Send,
{
    ReporterFn { name: name.into(), report }
}

/// The reporter of [`reporter_fn`].
///
/// ```
/// use pronk_metrics::{Reporter, ResultDict, reporter_fn};
///
/// let mut picky = reporter_fn("picky", |_| Err("nothing is good enough".into()));
/// let error = picky.report(&ResultDict::new()).unwrap_err();
/// assert_eq!(error.to_string(), "reporter `picky` failed: nothing is good enough");
/// ```
pub struct ReporterFn<F> {
    name: String,
    report: F,
}

impl<F> fmt::Debug for ReporterFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReporterFn").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F> Reporter for ReporterFn<F>
where
    F: FnMut(&ResultDict) -> Result<(), Box<dyn Error + Send + Sync>> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        (self.report)(result).map_err(|error| ReportError::new(self.name.as_str(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_keeps_its_state_and_its_errors_keep_their_cause() {
        let mut seen = Vec::new();
        let mut reporter = reporter_fn("steps", |result| {
            let text = result.get("steps").and_then(|steps| steps.as_str()).ok_or("no steps")?;
            seen.push(text.parse::<u32>()?);
            Ok(())
        });
        let mut result = ResultDict::new();
        assert!(reporter.report(&result).is_err_and(|error| error.to_string().contains("no steps")));
        result.set("steps", "12");
        assert!(reporter.report(&result).is_ok());
        result.set("steps", "twelve");
        let error = reporter.report(&result).map_err(|error| error.source.is::<std::num::ParseIntError>());
        assert_eq!(error.err(), Some(true));
        assert_eq!(seen, [12]);
    }
}
