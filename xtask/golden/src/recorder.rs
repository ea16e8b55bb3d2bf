//! What a runner writes into: cases with their comparisons, deviations, and what has no runner.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::json::entries;
use crate::report::{Failure, FileReport, NotRun};

/// The smallest magnitude that an error is measured against.
///
/// A number that is zero in exact arithmetic comes out of f64 sums over terms of order 1 to 100 as
/// about 1e-14, and no relative tolerance fits that. Measured against 1e-6 it is an error of 1e-8,
/// while a value of 1e-6 that is wrong in its first digits is still an error near 1.
pub const FLOOR: f64 = 1e-6;

/// `|got - want| / max(|want|, FLOOR)`.
///
/// Zero when both are NaN or both the same infinity; infinite when only one of them is not finite.
pub fn relative_error(got: f64, want: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        return f64::INFINITY;
    }
    (got - want).abs() / want.abs().max(FLOOR)
}

/// Collects what became of each entry of one golden file.
pub struct Recorder {
    report: FileReport,
}

impl Recorder {
    pub(crate) fn new(file: impl Into<String>) -> Self {
        Self { report: FileReport::new(file) }
    }

    /// Entries that were run or listed so far.
    pub(crate) fn accounted(&self) -> usize {
        self.report.cases + self.report.no_runner.len() + self.report.deviations.len()
    }

    /// Lists every entry of `file`, for a runner that can run none of them yet.
    pub fn no_runner_for_any(&mut self, file: &Value, why: impl Display) {
        for (kind, name) in entries(file) {
            self.no_runner(&kind, name, &why);
        }
    }

    pub(crate) fn into_report(self) -> FileReport {
        self.report
    }

    /// Runs one case. An error or a panic out of `body` fails this case and no other; so does a
    /// `body` that compares nothing, because such a case could never fail.
    pub fn case(&mut self, kind: &str, name: impl Display, body: impl FnOnce(&mut Case) -> anyhow::Result<()>) {
        let mut case =
            Case { kind: kind.to_owned(), name: name.to_string(), comparisons: 0, worst: None, failures: Vec::new() };
        match catch_unwind(AssertUnwindSafe(|| body(&mut case))) {
            Ok(Ok(())) if case.comparisons == 0 => case.fail("the case compared nothing"),
            Ok(Ok(())) => {}
            Ok(Err(error)) => case.fail(format!("{error:#}")),
            Err(payload) => case.fail(format!("panicked: {}", panic_text(&*payload))),
        }
        self.report.cases += 1;
        self.report.comparisons += case.comparisons;
        self.report.failed += usize::from(!case.failures.is_empty());
        self.report.worst = larger(self.report.worst, case.worst);
        self.report.failures.append(&mut case.failures);
    }

    /// Lists an entry that nothing in pronk can be compared with yet.
    pub fn no_runner(&mut self, kind: &str, name: impl Display, why: impl Display) {
        self.report.no_runner.push(NotRun::new(kind, name, why));
    }

    /// Lists an entry where pronk does something else on purpose, with the reason.
    pub fn deviation(&mut self, kind: &str, name: impl Display, why: impl Display) {
        self.report.deviations.push(NotRun::new(kind, name, why));
    }

    /// A failure of the file itself rather than of one of its cases.
    pub(crate) fn fail_file(&mut self, what: impl Display) {
        self.report.failures.push(Failure {
            kind: "file".to_owned(),
            name: self.report.file.clone(),
            what: what.to_string(),
            got_want: None,
        });
    }
}

/// One case while it runs: each comparison is recorded and the case goes on to the next.
pub struct Case {
    kind: String,
    name: String,
    comparisons: usize,
    worst: Option<f64>,
    failures: Vec<Failure>,
}

impl Case {
    /// `got` is within the relative error `tolerance` of `want` (see [`relative_error`]).
    pub fn close(&mut self, what: impl Display, got: f64, want: f64, tolerance: f64) {
        self.comparisons += 1;
        let error = relative_error(got, want);
        self.worst = larger(self.worst, Some(error));
        if within(error, tolerance) {
            return;
        }
        self.mismatch(
            format!("{what} (relative error {error:.1e}, tolerance {tolerance:.0e})"),
            format!("{got:?}"),
            format!("{want:?}"),
        );
    }

    /// As [`close`](Self::close) for equally long slices; a failure names the worst element and how
    /// many are off.
    pub fn close_all(&mut self, what: impl Display, got: &[f64], want: &[f64], tolerance: f64) {
        if got.len() != want.len() {
            self.comparisons += 1;
            self.mismatch(format!("{what}: number of values"), got.len().to_string(), want.len().to_string());
            return;
        }
        if want.is_empty() {
            self.comparisons += 1;
            return;
        }
        let mut worst = (0, 0.0);
        let mut off = 0;
        for (index, (&g, &w)) in got.iter().zip(want).enumerate() {
            let error = relative_error(g, w);
            off += usize::from(!within(error, tolerance));
            if error > worst.1 {
                worst = (index, error);
            }
        }
        self.comparisons += want.len();
        self.worst = larger(self.worst, Some(worst.1));
        if off > 0 {
            let (index, error) = worst;
            self.mismatch(
                format!(
                    "{what}[{index}] (relative error {error:.1e}, tolerance {tolerance:.0e}; {off} of {} are off)",
                    want.len()
                ),
                format!("{:?}", got[index]),
                format!("{:?}", want[index]),
            );
        }
    }

    /// `got == want`.
    pub fn equal<G: PartialEq<W> + Debug, W: Debug>(&mut self, what: impl Display, got: G, want: W) {
        self.comparisons += 1;
        if got != want {
            self.mismatch(what.to_string(), format!("{got:?}"), format!("{want:?}"));
        }
    }

    fn mismatch(&mut self, what: String, got: String, want: String) {
        self.push(what, Some((got, want)));
    }

    fn fail(&mut self, what: impl Display) {
        self.push(what.to_string(), None);
    }

    fn push(&mut self, what: String, got_want: Option<(String, String)>) {
        self.failures.push(Failure { kind: self.kind.clone(), name: self.name.clone(), what, got_want });
    }
}

/// False for a tolerance of NaN, which must not let a wrong number pass.
fn within(error: f64, tolerance: f64) -> bool {
    error <= tolerance
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no message)".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn record(body: impl FnOnce(&mut Case) -> anyhow::Result<()>) -> FileReport {
        let mut recorder = Recorder::new("some.json");
        recorder.case("kind", "name", body);
        recorder.into_report()
    }

    #[test]
    fn relative_error_is_absolute_below_the_floor_and_knows_nan_and_infinity() {
        assert_eq!(relative_error(2.0, 1.0), 1.0);
        assert_eq!(relative_error(1e-15, 0.0), 1e-15 / FLOOR);
        assert_eq!(relative_error(f64::NAN, f64::NAN), 0.0);
        assert_eq!(relative_error(f64::INFINITY, f64::INFINITY), 0.0);
        assert_eq!(relative_error(f64::INFINITY, f64::NEG_INFINITY), f64::INFINITY);
        assert_eq!(relative_error(f64::NAN, 1.0), f64::INFINITY);
        assert_eq!(relative_error(1.0, f64::NAN), f64::INFINITY);
    }

    #[test]
    fn a_wrong_number_fails_and_is_shown_with_what_got_and_want() {
        let report = record(|c| {
            c.close_all("vs", &[1.0, 2.5, 3.0], &[1.0, 2.0, 3.0], 1e-6);
            Ok(())
        });
        assert_eq!((report.cases, report.failed), (1, 1));
        assert_eq!(report.worst, Some(0.25));
        let text = report.failures[0].to_string();
        assert!(text.contains("vs[1]") && text.contains("1 of 3"), "{text}");
        assert!(text.contains("got 2.5") && text.contains("want 2.0"), "{text}");
    }

    #[test]
    fn values_within_the_tolerance_pass_and_the_worst_error_is_kept() {
        let report = record(|c| {
            c.close("a", 1.0 + 1e-9, 1.0, 1e-6);
            c.close("b", f64::NAN, f64::NAN, 0.0);
            c.equal("c", "x", "x");
            Ok(())
        });
        assert_eq!((report.failed, report.comparisons), (0, 3));
        let worst = report.worst.unwrap();
        assert!((worst - 1e-9).abs() < 1e-12, "{worst}");
    }

    #[test]
    fn a_wrong_length_or_an_unequal_value_fails() {
        let report = record(|c| {
            c.close_all("vs", &[1.0], &[1.0, 2.0], 1e-6);
            c.equal("released", true, false);
            Ok(())
        });
        assert_eq!(report.failed, 1);
        assert_eq!(report.failures.len(), 2);
    }

    #[test]
    fn an_error_a_panic_and_a_case_without_comparison_each_fail_their_case_only() {
        let mut recorder = Recorder::new("some.json");
        recorder.case("k", "error", |_| anyhow::bail!("no such option"));
        recorder.case("k", "panic", |_| panic!("index {}", 7));
        recorder.case("k", "empty", |_| Ok(()));
        recorder.case("k", "good", |c| {
            c.equal("one", 1, 1);
            Ok(())
        });
        let report = recorder.into_report();
        assert_eq!((report.cases, report.failed), (4, 3));
        assert!(report.failures[0].to_string().contains("no such option"));
        assert!(report.failures[1].to_string().contains("panicked: index 7"));
        assert!(report.failures[2].to_string().contains("compared nothing"));
    }

    #[test]
    fn a_tolerance_of_nan_lets_no_wrong_number_pass() {
        let report = record(|c| {
            c.close("a", 1.0, 2.0, f64::NAN);
            c.close_all("b", &[1.0], &[2.0], f64::NAN);
            Ok(())
        });
        assert_eq!(report.failures.len(), 2);
    }
}
