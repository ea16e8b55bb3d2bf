//! The reporters of a run: each receives every result; one that fails is dropped, unless it goes on.

use pronk_metrics::{FileMark, ReportError, Reporter, ResultDict, catch};

#[derive(Default)]
pub(super) struct Reporters {
    working: Vec<Working>,
    failures: Vec<ReportError>,
}

/// A reporter that has not been dropped.
struct Working {
    reporter: Box<dyn Reporter>,
    /// Its own among the failures, if it has missed results.
    failure: Option<usize>,
    /// Whether it missed the newest one.
    misses: bool,
}

impl Reporters {
    pub(super) fn add(&mut self, reporter: Box<dyn Reporter>) {
        self.working.push(Working { reporter, failure: None, misses: false });
    }

    /// Passes `result` to every working reporter.
    pub(super) fn report(&mut self, result: &ResultDict) {
        self.each(true, |reporter| reporter.report(result));
    }

    /// Finishes the working ones and drops them.
    pub(super) fn finish(&mut self) {
        // No result comes that they could go on with.
        self.working.iter_mut().for_each(|it| it.misses = false);
        self.each(false, |reporter| reporter.finish());
        self.working.clear();
    }

    /// How far their files have come.
    pub(super) fn marks(&self) -> Vec<FileMark> {
        self.working.iter().filter_map(|it| it.reporter.mark()).collect()
    }

    /// The failures so far, oldest first.
    pub(super) fn failures(&self) -> &[ReportError] {
        &self.failures
    }

    pub(super) fn take_failures(&mut self) -> Vec<ReportError> {
        std::mem::take(&mut self.failures)
    }

    fn each(&mut self, may_go_on: bool, mut call: impl FnMut(&mut dyn Reporter) -> Result<(), ReportError>) {
        let failures = &mut self.failures;
        self.working.retain_mut(|it| {
            let name = it.reporter.name().to_owned();
            let error = match catch(|| call(&mut *it.reporter)) {
                Ok(Ok(())) => {
                    it.goes_on(failures);
                    return true;
                }
                Ok(Err(error)) if may_go_on && it.reporter.goes_on() => {
                    it.has_missed(error, failures);
                    return true;
                }
                Ok(Err(error)) => error,
                // The state that the panic left behind is not used again.
                Err(panic) => ReportError::new(name, format!("it panicked: {panic}")),
            };
            tracing::warn!(%error, "dropping this reporter");
            failures.push(error);
            false
        });
    }
}

impl Working {
    /// It has shown a result.
    fn goes_on(&mut self, failures: &[ReportError]) {
        if let Some(failure) = self.failure.filter(|_| self.misses) {
            tracing::warn!(failure = %failures[failure], "this reporter goes on");
        }
        self.misses = false;
    }

    /// It has not shown a result, and is to try the next one.
    fn has_missed(&mut self, error: ReportError, failures: &mut Vec<ReportError>) {
        if !self.misses {
            tracing::warn!(%error, "this reporter tries again with the next result");
        }
        self.misses = true;
        let failure = *self.failure.get_or_insert_with(|| {
            failures.push(error);
            failures.len() - 1
        });
        failures[failure].missed += 1;
    }
}
