use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, SeekFrom, Write};
use std::path::{Path, PathBuf};

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::file::{ReadSeek, ReportFile};
use super::{ReportError, Reporter};
use crate::result::ResultDict;

#[cfg(test)]
mod tests;

/// A CSV table with a row for each result, written at once, and a column for each number.
///
/// *Columns*: every leaf that was a number or a boolean at least once, named by its path joined with `/`, in
/// order of first appearance. New columns rewrite the file atomically with a wider header; older rows have
/// empty cells there. Texts and lists are left out, as are results without numbers.
///
/// *Cells*: integers with all digits, other numbers with as many as needed to read the same number back,
/// `true` and `false`; empty without a number. Names are quoted as in RFC 4180; lines end with a line feed.
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
    /// Creates the file and missing parent folders, or empties the file. Errors name the path.
    pub fn create(path: impl Into<PathBuf>) -> Result<Csv, ReportError> {
        Ok(Csv { file: ReportFile::create(NAME, path)?, columns: IndexSet::new() })
    }

    /// Moves the file to `path`, in place of a table that has other rows, too, if there is one: that is
    /// moved to the path that `tail` names. Errors name the path.
    pub fn take_place_of(&mut self, path: &Path, tail: impl FnOnce() -> PathBuf) -> Result<(), ReportError> {
        self.file.take_place_of(path, tail)
    }

    /// Rewrites the file with the columns `wider`: its own, followed by new ones.
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

    /// A row that fails leaves the file as it was.
    fn goes_on(&self) -> bool {
        true
    }
}

const NAME: &str = "csv";

/// A leaf as a cell; `None` if the table leaves it out.
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

/// The name, in quotes if it has special characters.
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
