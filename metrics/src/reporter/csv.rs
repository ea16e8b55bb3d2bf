use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, SeekFrom, Write};
use std::path::PathBuf;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::file::{ReadSeek, ReportFile};
use super::{ReportError, Reporter};
use crate::result::ResultDict;

#[cfg(test)]
mod tests;

/// A table of all results: a row for each, on disk before the next is computed, and a column for each number.
///
/// *Columns*: every leaf of the result that was a number or a truth value at least once, called by its path
/// joined with `/`, in the order of their first appearance. When new ones appear, say because a second policy
/// begins to learn, the file is rewritten with a wider header beside the old one and takes its place when it
/// is whole; rows from before have empty cells there. Only the columns' names stay in memory, not the rows.
///
/// *Left out*: texts and lists, which JSON lines hold. A result without any number is no row.
///
/// *Cells*: integers with all their digits, other numbers with as many as give the same number back, `true`
/// and `false`. What is absent, null or not a number is an empty cell. Names are quoted as RFC 4180 asks;
/// lines end with a line feed.
///
/// ```
/// use pronk_metrics::{Csv, Reporter, ResultDict};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run-1/progress.csv");
/// let mut table = Csv::create(&path)?;
/// let mut result = ResultDict::new();
/// result.set("training_iteration", 1);
/// table.report(&result)?;
/// result.set("training_iteration", 2);
/// result.set("policy_lag.mean", 1.5);
/// table.report(&result)?;
/// assert_eq!(std::fs::read_to_string(&path)?, "training_iteration,policy_lag/mean\n1,\n2,1.5\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Csv {
    file: ReportFile,
    columns: IndexSet<String>,
}

impl Csv {
    /// Makes the file, and the folders above it that are missing. A file of that name is emptied.
    ///
    /// # Errors
    /// A folder or the file cannot be made; the error names it.
    pub fn create(path: impl Into<PathBuf>) -> Result<Csv, ReportError> {
        Ok(Csv { file: ReportFile::create(NAME, path)?, columns: IndexSet::new() })
    }

    /// Gives the file the columns `wider`, which are its own ones and new ones behind them.
    fn widen(&mut self, wider: &IndexSet<String>) -> Result<(), ReportError> {
        let n_new = wider.len() - self.columns.len();
        let old_header = header(&self.columns).len() as u64;
        self.file.replace(|old, new| widen_rows(old, old_header, new, &header(wider), n_new))
    }
}

impl Reporter for Csv {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let cell_of = |(keys, leaf): (Vec<&str>, &Value)| Some((keys.join("/"), cell(leaf)?));
        let cells: IndexMap<String, String> = result.leaves().into_iter().filter_map(cell_of).collect();
        if cells.is_empty() {
            return Ok(());
        }
        if self.columns.is_empty() {
            let columns: IndexSet<String> = cells.keys().cloned().collect();
            self.file.append((header(&columns) + &row(&columns, &cells)).as_bytes())?;
            self.columns = columns;
            return Ok(());
        }
        if cells.keys().any(|path| !self.columns.contains(path)) {
            let mut wider = self.columns.clone();
            wider.extend(cells.keys().cloned());
            self.widen(&wider)?;
            self.columns = wider;
        }
        self.file.append(row(&self.columns, &cells).as_bytes())
    }
}

const NAME: &str = "csv";

/// A leaf as a cell; none where the table has no place for it.
fn cell(leaf: &Value) -> Option<String> {
    match leaf {
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        _ => None,
    }
}

fn header(columns: &IndexSet<String>) -> String {
    line(columns.iter().map(|name| quoted(name)))
}

fn row(columns: &IndexSet<String>, cells: &IndexMap<String, String>) -> String {
    line(columns.iter().map(|name| Cow::from(cells.get(name).map_or("", String::as_str))))
}

fn line<'a>(cells: impl Iterator<Item = Cow<'a, str>>) -> String {
    let mut line = cells.collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// The name between quotes where it has signs that mean something in a table.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\"")).into()
    } else {
        name.into()
    }
}

/// Copies a table under a new header, with `n_new` empty cells at the end of each row.
fn widen_rows(
    old: &mut dyn ReadSeek,
    old_header_bytes: u64,
    new: &mut dyn Write,
    header: &str,
    n_new: usize,
) -> io::Result<()> {
    new.write_all(header.as_bytes())?;
    old.seek(SeekFrom::Start(old_header_bytes))?;
    let empty_cells = ",".repeat(n_new);
    // Cells are numbers, so a line is a row.
    for row in BufReader::new(old).lines() {
        writeln!(new, "{}{empty_cells}", row?)?;
    }
    Ok(())
}
