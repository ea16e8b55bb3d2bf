//! The reporters of a run: all are shown every result, and one that fails is left out from then on.

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

    /// Lets all that work write what they hold back.
    pub(super) fn finish(&mut self) {
        self.each(|reporter| reporter.finish());
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
        self.working.retain_mut(|reporter| match call(&mut **reporter) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "this reporter is left out from now on");
                failures.push(error);
                false
            }
        });
    }
}
