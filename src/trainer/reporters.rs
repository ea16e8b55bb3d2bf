//! The reporters of a run: each receives every result; one that fails is dropped.

use pronk_metrics::{FileMark, ReportError, Reporter, ResultDict, catch};

#[derive(Default)]
pub(super) struct Reporters {
    working: Vec<Box<dyn Reporter>>,
    failures: Vec<ReportError>,
}

impl Reporters {
    pub(super) fn add(&mut self, reporter: Box<dyn Reporter>) {
        self.working.push(reporter);
    }

    /// Passes `result` to every working reporter.
    pub(super) fn report(&mut self, result: &ResultDict) {
        self.each(|reporter| reporter.report(result));
    }

    /// Finishes the working ones and drops them.
    pub(super) fn finish(&mut self) {
        self.each(|reporter| reporter.finish());
        self.working.clear();
    }

    /// How far their files have come.
    pub(super) fn marks(&self) -> Vec<FileMark> {
        self.working.iter().filter_map(|reporter| reporter.mark()).collect()
    }

    /// The failures so far, oldest first.
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
                tracing::warn!(%error, "dropping this reporter");
                failures.push(error);
                false
            }
        });
    }
}

/// Turns a panic into a failure; its reporter is dropped, so the state that the panic left behind is not used
/// again.
fn caught(
    reporter: &mut dyn Reporter,
    call: &mut impl FnMut(&mut dyn Reporter) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let name = reporter.name().to_owned();
    catch(|| call(reporter)).unwrap_or_else(|panic| Err(ReportError::new(name, format!("it panicked: {panic}"))))
}
