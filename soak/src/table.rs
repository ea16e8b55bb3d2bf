//! The table of finished cells: a line each on the terminal and in `soak.txt`, and with more figures in
//! `soak.jsonl`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cells::Cell;
use crate::checker::{Checker, Memory};

/// What a cell has shown.
pub(crate) struct Row {
    pub(crate) pass: u64,
    pub(crate) took: Duration,
    pub(crate) faults: u64,
    pub(crate) checker: Checker,
}

/// Where rows are written, and how many there are so far.
pub(crate) struct Table {
    folder: PathBuf,
    n_passed: usize,
    n_failed: usize,
    n_not_checked: usize,
}

impl Table {
    /// Begins new files in this folder.
    pub(crate) fn begin(folder: &Path) -> anyhow::Result<Self> {
        fs::write(folder.join("soak.jsonl"), "")?;
        fs::write(folder.join("soak.txt"), "")?;
        Ok(Self { folder: folder.to_owned(), n_passed: 0, n_failed: 0, n_not_checked: 0 })
    }

    pub(crate) fn not_checked(&mut self, cell: &Cell, why: &str) -> anyhow::Result<()> {
        self.n_not_checked += 1;
        self.print(&format!("{:<16} NOT CHECKED, as {why}", cell.name))
    }

    pub(crate) fn add(&mut self, row: Row) -> anyhow::Result<()> {
        let Row { pass, took, faults, mut checker } = row;
        let memory = match checker.flat() {
            None => "no samples after the warm-up".to_owned(),
            Some(Memory { resident, heap }) => format!("{resident}; heap {heap}"),
        };
        let failures = checker.failures();
        let verdict =
            if failures.is_empty() { "passed".to_owned() } else { format!("FAILED: {}", failures.join("; ")) };
        self.n_passed += usize::from(failures.is_empty());
        self.n_failed += usize::from(!failures.is_empty());
        let most_mib = checker.samples.iter().map(|sample| sample.census.memory_kib >> 10).max();
        let Checker { cell, processes, results, env_steps, longest_stall, .. } = checker;
        let (secs, stall_secs) = (took.as_secs_f64(), longest_stall.as_secs_f64());
        self.print(&format!(
            "{:<16} {secs:>5.0} s  {faults:>4} faults  {env_steps:>10} env-steps  stall {stall_secs:>4.1} s  \
             {:>4} MiB ({memory})  {verdict}",
            cell.name,
            most_mib.unwrap_or_default(),
        ))?;
        let line: Value = json!({
            "cell": cell.name, "about": cell.about, "pass": pass, "secs": secs, "faults": faults,
            "processes": processes, "results": results, "env_steps": env_steps, "longest_stall_secs": stall_secs,
            "most_mib": most_mib, "memory": memory, "failures": failures,
        });
        self.append("soak.jsonl", &line.to_string())
    }

    /// Prints the sum; whether there were runs and every one has passed.
    pub(crate) fn end(&self) -> anyhow::Result<bool> {
        let Self { n_passed, n_failed, n_not_checked, .. } = self;
        self.print(&format!("{n_passed} runs passed, {n_failed} FAILED, {n_not_checked} cells NOT CHECKED"))?;
        Ok(*n_passed > 0 && *n_failed == 0)
    }

    fn print(&self, line: &str) -> anyhow::Result<()> {
        writeln!(std::io::stdout().lock(), "{line}")?;
        self.append("soak.txt", line)
    }

    fn append(&self, file: &str, line: &str) -> anyhow::Result<()> {
        Ok(writeln!(File::options().append(true).open(self.folder.join(file))?, "{line}")?)
    }
}
