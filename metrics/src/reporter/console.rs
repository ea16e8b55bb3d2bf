mod bar;
mod line;

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use console::Term;

use super::{ReportError, Reporter};
use crate::result::ResultDict;

use bar::Bar;

/// One line per result: progress, time left, env-steps and their rate, return, policy lag, and the learner's
/// three largest states of the iteration.
///
/// On a terminal, [`stderr`](Console::stderr) and [`stdout`](Console::stdout) redraw one line, with a bar if
/// the result has `progress` and there are 100 columns, above `bottleneck.sentence`. `finish` leaves the last
/// result as a plain line. In files, pipes, CI jobs and dumb terminals, each result is a plain line in
/// columns. Missing figures are `-`; the time left assumes a constant rate. If the terminal or the reader of
/// a pipe is gone, `report` returns that error.
///
/// ```
/// use pronk_metrics::{Console, Reporter, ResultDict};
///
/// let mut result = ResultDict::new();
/// result.set("training_iteration", 7);
/// result.set("progress", 0.25);
/// result.set("time_total_s", 61.5);
/// result.set("num_env_steps_sampled", 412_000);
/// result.set("throughput.env_steps_per_s", 103_000);
/// result.set("episode_return_mean", 187.25);
/// result.set("ledger.time_this_iter.learner.learning", 0.61);
///
/// let mut line = Vec::new();
/// Console::new(&mut line).report(&result)?;
/// assert_eq!(
///     String::from_utf8(line)?,
///     "iter     7   25%  eta  3m05s  env-steps  412k   103k/s  return   187.25  lag     -  learner: learning 61%\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Console<W> {
    view: View<W>,
}

#[derive(Debug)]
enum View<W> {
    Lines(W),
    Bar(Box<Bar>),
}

impl Console<io::Stdout> {
    /// Writes to standard output.
    pub fn stdout() -> Self {
        let out = io::stdout();
        if can_redraw(&out) { Console::on(Term::buffered_stdout()) } else { Console::new(out) }
    }
}

impl Console<io::Stderr> {
    /// Writes to standard error.
    pub fn stderr() -> Self {
        let out = io::stderr();
        if can_redraw(&out) { Console::on(Term::buffered_stderr()) } else { Console::new(out) }
    }
}

impl<W: Write + Send> Console<W> {
    /// Writes plain lines to `out`.
    pub fn new(out: W) -> Self {
        Console { view: View::Lines(out) }
    }

    fn on(term: Term) -> Self {
        Console { view: View::Bar(Box::new(Bar::new(term))) }
    }
}

impl<W: Write + Send> Reporter for Console<W> {
    fn name(&self) -> &str {
        NAME
    }

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        let shown = match &mut self.view {
            View::Lines(out) => {
                // A single write, so that lines of other threads do not come between.
                let line = line::of(result) + "\n";
                out.write_all(line.as_bytes()).and_then(|()| out.flush())
            }
            View::Bar(bar) => bar.show(result),
        };
        shown.map_err(|error| ReportError::new(NAME, error))
    }

    fn finish(&mut self) -> Result<(), ReportError> {
        let finished = match &mut self.view {
            View::Lines(out) => out.flush(),
            View::Bar(bar) => bar.finish(),
        };
        finished.map_err(|error| ReportError::new(NAME, error))
    }
}

const NAME: &str = "console";

/// Whether `stream` is an interactive terminal whose cursor can move.
fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !console::is_dumb() && !is_ci(std::env::var_os("CI").as_deref())
}

/// Whether the variable `CI` is set: some CI systems provide a terminal that records every redraw.
fn is_ci(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}

#[cfg(test)]
mod tests;
