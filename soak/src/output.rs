//! The output of a cell's process: its results, and how the run ended, a line of JSON each.

use std::io::Write;

use pronk::{Reporter, ResultDict, reporter_fn};

/// Prints every result.
pub(crate) fn reporter() -> impl Reporter + 'static {
    reporter_fn("output", |result: &ResultDict| Ok(write(&result.to_json_line())?))
}

pub(crate) fn write(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")
}
