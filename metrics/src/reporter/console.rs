use std::io::{self, Write};

use super::{ReportError, Reporter};
use crate::result::ResultDict;

/// One plain line per result.
#[derive(Debug)]
pub struct Console<W> {
    out: W,
}

impl Console<io::Stdout> {
    /// Lines on standard output.
    pub fn stdout() -> Self {
        Console::new(io::stdout())
    }
}

impl Console<io::Stderr> {
    /// Lines on standard error.
    pub fn stderr() -> Self {
        Console::new(io::stderr())
    }
}

impl<W: Write + Send> Console<W> {
    /// Lines into `out`.
    pub fn new(out: W) -> Self {
        Console { out }
    }
}

impl<W: Write + Send> Reporter for Console<W> {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, _result: &ResultDict) -> Result<(), ReportError> {
        self.out.flush().map_err(|error| ReportError::new(NAME, error))
    }
}

const NAME: &str = "console";
