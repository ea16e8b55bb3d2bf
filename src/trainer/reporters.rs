//! The reporters of a run: all are shown every result, and one that fails is left out from then on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pronk_metrics::{ReportError, Reporter, ResultDict};

#[derive(Default)]
pub(super) struct Reporters {
    working: Vec<Box<dyn Reporter>>,
    failures: Vec<ReportError>,
}

impl Reporters {
    pub(super) fn add(&mut self, reporter: Box<dyn Reporter>) {
        self.working.push(reporter);
    }

    /// Shows `result` to all that work.
    pub(super) fn report(&mut self, result: &ResultDict) {
        self.each(|reporter| reporter.report(result));
    }

    /// Lets all that work write what they hold back, and lets go of them.
    pub(super) fn finish(&mut self) {
        self.each(|reporter| reporter.finish());
        self.working.clear();
    }

    /// What failed so far, first things first.
    pub(super) fn failures(&self) -> &[ReportError] {
        &self.failures
    }

    pub(super) fn take_failures(&mut self) -> Vec<ReportError> {
        std::mem::take(&mut self.failures)
    }

    fn each(&mut self, mut call: impl FnMut(&mut dyn Reporter) -> Result<(), ReportError>) {
        let failures = &mut self.failures;
        self.working.retain_mut(|reporter| match caught(&mut **reporter, &mut call) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "this reporter is left out from now on");
                failures.push(error);
                false
            }
        });
    }
}

/// A panic of a reporter is a failure like any other; the reporter is not used again after it.
fn caught(
    reporter: &mut dyn Reporter,
    call: &mut impl FnMut(&mut dyn Reporter) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let name = reporter.name().to_owned();
    catch_unwind(AssertUnwindSafe(|| call(reporter))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Err(ReportError::new(name, format!("it panicked: {text}")))
    })
}
