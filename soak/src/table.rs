//! The table of finished cells: a line each on the terminal and in `soak.jsonl`, and `soak.md` at the end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::cells::Cell;
use crate::census::Census;
use crate::checker::{Checker, Memory};

/// What a cell has shown.
pub(crate) struct Row {
    cell: &'static Cell,
    pass: u64,
    took: Duration,
    faults: u64,
    processes: u64,
    results: u64,
    env_steps: f64,
    longest_stall: Duration,
    memory: Option<Memory>,
    /// The most of everything.
    most: Census,
    failures: Vec<String>,
}

impl Row {
    pub(crate) fn of(cell: &'static Cell, pass: u64, took: Duration, faults: u64, mut checker: Checker) -> Self {
        let memory = checker.flat();
        let most = checker.samples.iter().fold(Census::default(), |most, (_, census)| most.max(census));
        let Checker { processes, results, env_steps, longest_stall, .. } = checker;
        let failures = checker.failures();
        Self { cell, pass, took, faults, processes, results, env_steps, longest_stall, memory, most, failures }
    }

    fn memory(&self) -> String {
        match self.memory {
            None => "–".to_owned(),
            Some(Memory::Slope { per_hour, error, .. }) => format!("{per_hour:+.2} ± {error:.2} MiB/h"),
            Some(Memory::Growth { mib }) => format!("{mib:+.1} MiB, too short for a slope"),
        }
    }

    fn verdict(&self) -> String {
        if self.failures.is_empty() { "passed".to_owned() } else { format!("FAILED: {}", self.failures.join("; ")) }
    }

    fn markdown(&self) -> String {
        let Self { cell, pass, took, faults, processes, results, env_steps, longest_stall, most, .. } = self;
        format!(
            "| {pass} | `{}`: {} | {} | {faults} | {processes} | {results} | {env_steps} | {:.1} | {} | {} | {} | {} | {} | {} | {} |\n",
            cell.name,
            cell.about,
            took.as_secs(),
            longest_stall.as_secs_f64(),
            most.memory_kib >> 10,
            self.memory(),
            most.threads,
            most.descriptors,
            most.shared,
            most.children,
            self.verdict().replace('|', "/").replace('\n', " "),
        )
    }

    fn line(&self) -> String {
        let Self { cell, took, faults, env_steps, longest_stall, most, .. } = self;
        format!(
            "{:<16} {:>5} s  {faults:>4} faults  {env_steps:>10} env-steps  stall {:>4.1} s  {:>4} MiB ({})  {}",
            cell.name,
            took.as_secs(),
            longest_stall.as_secs_f64(),
            most.memory_kib >> 10,
            self.memory(),
            self.verdict(),
        )
    }
}

/// The rows so far, and where they are written.
pub(crate) struct Table {
    folder: PathBuf,
    rows: Vec<Row>,
    /// Cells that could not be played, and why.
    not_checked: Vec<String>,
}

const HEAD: &str = "| pass | cell | s | faults from outside | processes | results | env-steps | longest stall, s | \
    memory, most, MiB | after the warm-up | threads | descriptors | shared memory | children | verdict |\n\
    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

impl Table {
    /// Begins new files in this folder.
    pub(crate) fn begin(folder: &Path) -> anyhow::Result<Self> {
        fs::write(folder.join("soak.jsonl"), "")?;
        let table = Self { folder: folder.to_owned(), rows: Vec::new(), not_checked: Vec::new() };
        table.write()?;
        Ok(table)
    }

    pub(crate) fn not_checked(&mut self, cell: &Cell, why: &str) -> anyhow::Result<()> {
        self.not_checked.push(format!("NOT CHECKED: `{}`, as {why}", cell.name));
        writeln!(std::io::stdout().lock(), "{:<16} NOT CHECKED, as {why}", cell.name)?;
        self.write()
    }

    pub(crate) fn add(&mut self, row: Row) -> anyhow::Result<()> {
        writeln!(std::io::stdout().lock(), "{}", row.line())?;
        let line = json!({
            "cell": row.cell.name,
            "pass": row.pass,
            "secs": row.took.as_secs_f64(),
            "faults": row.faults,
            "processes": row.processes,
            "results": row.results,
            "env_steps": row.env_steps,
            "longest_stall_secs": row.longest_stall.as_secs_f64(),
            "memory": row.memory(),
            "most": row.most,
            "failures": row.failures,
        });
        writeln!(File::options().append(true).open(self.folder.join("soak.jsonl"))?, "{line}")?;
        self.rows.push(row);
        self.write()
    }

    pub(crate) fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.failures.is_empty())
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut text = HEAD.to_owned();
        self.rows.iter().for_each(|row| text += &row.markdown());
        self.not_checked.iter().for_each(|line| text += &format!("\n{line}\n"));
        Ok(fs::write(self.folder.join("soak.md"), text)?)
    }
}
