//! The output of a cell's process: its results, what is allocated at each, and how the run ended, a line of
//! JSON each.

use std::io::Write;

use pronk::{Reporter, ResultDict, reporter_fn};
use serde_json::json;

use crate::ALLOCATOR;

/// Prints every result, and before it how much is allocated.
pub(crate) fn reporter() -> impl Reporter + 'static {
    reporter_fn("output", |result: &ResultDict| {
        write(&json!({ "heap_kib": ALLOCATOR.allocated() >> 10 }).to_string())?;
        Ok(write(&result.to_json_line())?)
    })
}

pub(crate) fn write(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")
}
