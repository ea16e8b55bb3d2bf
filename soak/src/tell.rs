//! What the process of a cell says: results, and how the run ended, a line of JSON each.

use std::io::Write;

use pronk::{ReportError, Reporter, ResultDict};
use serde_json::Value;

/// Says every result.
pub(crate) struct Teller;

impl Reporter for Teller {
    fn name(&self) -> &str {
        "teller"
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        say(&result.to_json_line()).map_err(|error| ReportError::new("teller", error))
    }
}

pub(crate) fn say_value(value: &Value) -> std::io::Result<()> {
    say(&value.to_string())
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")
}
