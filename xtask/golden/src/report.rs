//! What a golden run found, file by file, and how it is printed.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// The outcome of a whole directory.
#[derive(Debug, Default)]
pub struct Report {
    /// One entry per file, in the order of their names.
    pub files: Vec<FileReport>,
}

impl Report {
    /// Every file could be read, every entry is accounted for, and every comparison held.
    pub fn passed(&self) -> bool {
        self.files.iter().all(|file| file.failures.is_empty())
    }
}

/// The outcome of one golden file.
#[derive(Debug)]
pub struct FileReport {
    /// The file's name.
    pub file: String,
    /// Cases that were run.
    pub cases: usize,
    /// Cases with at least one failure.
    pub failed: usize,
    /// Numbers and values that were compared, over all cases.
    pub comparisons: usize,
    /// The largest relative error of any number; `None` where no number was compared.
    pub worst: Option<f64>,
    /// Every failure, in the order of the file.
    pub failures: Vec<Failure>,
    /// Entries that nothing can run yet.
    pub no_runner: Vec<NotRun>,
    /// Entries where pronk does something else on purpose.
    pub deviations: Vec<NotRun>,
}

impl FileReport {
    pub(crate) fn new(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            cases: 0,
            failed: 0,
            comparisons: 0,
            worst: None,
            failures: Vec::new(),
            no_runner: Vec::new(),
            deviations: Vec::new(),
        }
    }
}

/// One comparison that did not hold, or one case that broke off.
#[derive(Debug)]
pub struct Failure {
    /// The kind of the case.
    pub kind: String,
    /// The name of the case.
    pub name: String,
    /// What was compared, or why the case broke off.
    pub what: String,
    /// Both sides of the comparison; `None` for a case that broke off.
    pub got_want: Option<(String, String)>,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.name, self.what)?;
        if let Some((got, want)) = &self.got_want {
            write!(f, "\n      got {got}\n     want {want}")?;
        }
        Ok(())
    }
}

/// One entry that was not compared, and why.
#[derive(Debug)]
pub struct NotRun {
    /// The kind of the entry.
    pub kind: String,
    /// The name of the entry.
    pub name: String,
    /// Why it was not compared.
    pub why: String,
}

impl NotRun {
    pub(crate) fn new(kind: &str, name: impl Display, why: impl Display) -> Self {
        Self { kind: kind.to_owned(), name: name.to_string(), why: why.to_string() }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<26} {:>6} {:>7} {:>7} {:>12} {:>10} {:>10}",
            "file", "cases", "passed", "failed", "comparisons", "worst err", "not run"
        )?;
        for file in &self.files {
            let worst = file.worst.map_or_else(|| "-".to_owned(), |error| format!("{error:.1e}"));
            writeln!(
                f,
                "{:<26} {:>6} {:>7} {:>7} {:>12} {:>10} {:>10}",
                file.file,
                file.cases,
                file.cases - file.failed,
                file.failed,
                file.comparisons,
                worst,
                file.no_runner.len() + file.deviations.len(),
            )?;
        }
        self.list(f, "no runner yet", |file| &file.no_runner)?;
        self.list(f, "deviations, on purpose", |file| &file.deviations)?;
        if !self.passed() {
            writeln!(f, "\nfailures")?;
        }
        for file in &self.files {
            for failure in &file.failures {
                writeln!(f, "  {}: {failure}", file.file)?;
            }
        }
        let failures: usize = self.files.iter().map(|file| file.failures.len()).sum();
        let cases: usize = self.files.iter().map(|file| file.cases).sum();
        writeln!(f, "\n{cases} cases run, {failures} failures")
    }
}

impl Report {
    /// One line per file, kind and reason, with the number of entries and their names.
    fn list(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        entries: impl Fn(&FileReport) -> &Vec<NotRun>,
    ) -> fmt::Result {
        let mut is_first = true;
        for file in &self.files {
            let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
            for entry in entries(file) {
                let group = groups.entry((&entry.kind, &entry.why)).or_default();
                group.push(&entry.name);
            }
            for ((kind, why), names) in groups {
                if is_first {
                    writeln!(f, "\n{title}")?;
                    is_first = false;
                }
                write!(f, "  {}: {kind} × {}: {why}", file.file, names.len())?;
                // Unnamed entries are called `#0`, `#1`, …: their count says as much.
                let named: Vec<&str> = names.into_iter().filter(|n| !n.starts_with('#')).collect();
                if named.is_empty() {
                    writeln!(f)?;
                } else {
                    writeln!(f, " ({})", named.join(", "))?;
                }
            }
        }
        Ok(())
    }
}
