//! [`Output`]: what a child prints, and how it ended, for error messages.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStderr, ExitStatus};

use crate::settings::ChildOutput;

/// Bytes of output kept for error messages.
const KEPT: usize = 8 << 10;

/// The standard error of a child.
pub(crate) struct Output {
    /// `None` once the child has closed it.
    pub(crate) pipe: Option<ChildStderr>,
    /// The newest of it.
    last: Vec<u8>,
    shown: ChildOutput,
    /// The line that has begun, if lines are logged.
    line: Vec<u8>,
}

impl Output {
    pub(crate) fn new(pipe: ChildStderr, shown: ChildOutput) -> Self {
        Self { pipe: Some(pipe), last: Vec::new(), shown, line: Vec::new() }
    }

    /// Reads once, without blocking if there is something to read.
    pub(crate) fn read(&mut self) {
        let mut bytes = [0; KEPT];
        match self.pipe.as_mut().map(|pipe| pipe.read(&mut bytes)) {
            Some(Ok(0) | Err(_)) => self.pipe = None,
            Some(Ok(n)) => self.take(&bytes[..n]),
            None => {}
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        match self.shown {
            // A closed standard error of this process must not fail the run.
            ChildOutput::Shown => drop(io::stderr().write_all(bytes)),
            ChildOutput::Logged => self.log(bytes),
            ChildOutput::Hidden => {}
        }
        self.last.extend_from_slice(bytes);
        if self.last.len() > 2 * KEPT {
            self.last.drain(..self.last.len() - KEPT);
        }
    }

    fn log(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > KEPT {
                self.log_line();
            }
        }
    }

    fn log_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        tracing::info!("{}", String::from_utf8_lossy(&line).trim_end());
    }

    pub(crate) fn text(&self) -> String {
        let from = self.last.len().saturating_sub(KEPT);
        String::from_utf8_lossy(&self.last[from..]).into_owned()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.log_line();
        }
    }
}

/// How a process ended, in words.
pub(crate) fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL: by hand, or by the system when memory ran out)",
                11 => " (SIGSEGV: it touched memory that is not its own)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("was killed by signal {signal}{name}")
        }
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => format!("ended: {status}"),
    }
}
