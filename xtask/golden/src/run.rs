//! Finds the golden files of a directory, hands each to its runner, and checks that nothing is left out.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::Runner;
use crate::json::entries;
use crate::recorder::{Recorder, panic_text};
use crate::report::{FileReport, Report};

pub(crate) fn run_dir(dir: &Path, runners: &[(&str, Runner)]) -> Result<Report> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read the directory {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        bail!("no golden file (*.json) in {}", dir.display());
    }
    let files = paths.iter().map(|path| run_file(path, runners)).collect();
    Ok(Report { files })
}

fn run_file(path: &Path, runners: &[(&str, Runner)]) -> FileReport {
    let mut recorder = Recorder::new(file_name(path));
    let file = match load(path) {
        Ok(loaded) => loaded,
        Err(error) => {
            recorder.fail_file(format!("{error:#}"));
            return recorder.into_report();
        }
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let Some((_, runner)) = runners.iter().find(|(name, _)| *name == stem) else {
        recorder.no_runner_for_any(&file, "the file has no runner");
        return recorder.into_report();
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| runner(&file, &mut recorder))) {
        let text = panic_text(&*payload);
        recorder.fail_file(format!("the runner panicked outside a case: {text}"));
        return recorder.into_report();
    }
    let accounted = recorder.accounted();
    let entries = entries(&file).len();
    if accounted < entries {
        // An entry neither run nor listed would be a silent skip.
        recorder.fail_file(format!(
            "the runner ran or listed {accounted} of {entries} entries; \
             give the others a case, `deviation` or `no_runner`"
        ));
    }
    recorder.into_report()
}

fn load(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).context("cannot be read")?;
    let file: Value = serde_json::from_str(&text).context("is not valid JSON")?;
    ensure!(file.is_object(), "is not a JSON object");
    ensure!(!entries(&file).is_empty(), "holds no entries");
    Ok(file)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::json;

    fn dir_with(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    /// Doubles are right when `want` is `2 * x`.
    fn doubling(file: &Value, r: &mut Recorder) {
        for (index, entry) in json::section(file, "cases").iter().enumerate() {
            r.case("double", json::name_of(entry, index), |c| {
                let x = json::number_at(entry, "in.x")?;
                c.close("2x", 2.0 * x, json::number_at(entry, "want")?, 1e-12);
                Ok(())
            });
        }
    }

    const RUNNERS: &[(&str, Runner)] = &[("doubling", doubling)];

    #[test]
    fn right_numbers_pass_and_are_counted() {
        let dir = dir_with(&[(
            "doubling.json",
            r#"{"notes": ["x"], "cases": [{"in": {"x": 2}, "want": 4}, {"in": {"x": 3}, "want": 6}]}"#,
        )]);
        let report = run_dir(dir.path(), RUNNERS).unwrap();
        assert!(report.passed(), "{report}");
        assert_eq!((report.files[0].cases, report.files[0].failed), (2, 0));
        assert_eq!(report.files[0].worst, Some(0.0));
    }

    #[test]
    fn a_wrong_number_fails_its_case_and_the_report() {
        let dir =
            dir_with(&[("doubling.json", r#"{"cases": [{"in": {"x": 2}, "want": 5}, {"in": {"x": 3}, "want": 6}]}"#)]);
        let report = run_dir(dir.path(), RUNNERS).unwrap();
        assert!(!report.passed());
        assert_eq!((report.files[0].cases, report.files[0].failed), (2, 1));
        let text = report.to_string();
        assert!(text.contains("got 4.0") && text.contains("want 5.0"), "{text}");
    }

    #[test]
    fn a_missing_key_fails_with_its_path() {
        let dir = dir_with(&[("doubling.json", r#"{"cases": [{"in": {}, "want": 4}]}"#)]);
        let report = run_dir(dir.path(), RUNNERS).unwrap();
        assert!(!report.passed());
        let text = report.to_string();
        assert!(text.contains("missing key `in.x`"), "{text}");
    }

    #[test]
    fn a_file_without_a_runner_is_listed_by_kind_and_count() {
        let dir = dir_with(&[(
            "halving.json",
            r#"{"cases": [{"algo": "a", "x": 1}, {"algo": "a"}, {"algo": "b", "name": "odd"}]}"#,
        )]);
        let report = run_dir(dir.path(), RUNNERS).unwrap();
        assert!(report.passed());
        let text = report.to_string();
        assert!(text.contains("halving.json: cases/a × 2"), "{text}");
        assert!(text.contains("halving.json: cases/b × 1"), "{text}");
    }

    #[test]
    fn an_entry_that_the_runner_passes_over_is_a_failure() {
        let dir = dir_with(&[(
            "doubling.json",
            r#"{"cases": [{"in": {"x": 2}, "want": 4}], "tripling": [{"in": {"x": 2}}]}"#,
        )]);
        let report = run_dir(dir.path(), RUNNERS).unwrap();
        assert!(!report.passed());
        let text = report.to_string();
        assert!(text.contains("ran or listed 1 of 2 entries"), "{text}");
    }

    #[test]
    fn an_invalid_or_empty_file_fails_and_the_other_files_still_run() {
        let dir = dir_with(&[
            ("a.json", "{ not json"),
            ("b.json", r#"{"notes": ["no entries"]}"#),
            ("c.json", "[1]"),
            ("doubling.json", r#"{"cases": [{"in": {"x": 2}, "want": 4}]}"#),
        ]);
        let report = run_dir(dir.path(), RUNNERS).unwrap();
        assert!(!report.passed());
        let failed: Vec<usize> = report.files.iter().map(|f| f.failures.len()).collect();
        assert_eq!(failed, [1, 1, 1, 0]);
        assert_eq!(report.files[3].cases, 1);
    }

    #[test]
    fn an_empty_or_absent_directory_is_an_error() {
        let dir = dir_with(&[("README.md", "")]);
        assert!(run_dir(dir.path(), RUNNERS).is_err());
        assert!(run_dir(&dir.path().join("absent"), RUNNERS).is_err());
    }

    #[test]
    fn a_runner_that_panics_outside_a_case_fails_its_file() {
        fn careless(_: &Value, _: &mut Recorder) {
            panic!("no option called that");
        }
        let dir = dir_with(&[("careless.json", r#"{"cases": [{"x": 1}]}"#)]);
        let report = run_dir(dir.path(), &[("careless", careless)]).unwrap();
        assert!(!report.passed());
        assert!(report.to_string().contains("outside a case"), "{report}");
    }

    #[test]
    fn the_repository_s_own_golden_files_pass() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        let report = crate::run_dir(&dir).unwrap();
        assert!(report.passed(), "{report}");
    }
}
