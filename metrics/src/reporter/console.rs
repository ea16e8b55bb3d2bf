use std::io::{self, Write};

use super::{ReportError, Reporter};
use crate::result::ResultDict;

/// One plain line per result: progress, env-steps and their rate, return, policy lag, and the three states that the
/// learner spent most of the iteration in.
///
/// The line is plain text in columns, without colours or cursor movement, so it reads the same in a file. A figure
/// that the result does not have is shown as `-`. When nobody reads the other end of a pipe any more, `report`
/// returns that as its error.
///
/// ```
/// use pronk_metrics::{Console, Reporter, ResultDict};
///
/// let mut result = ResultDict::new();
/// result.set("training_iteration", 7);
/// result.set("num_env_steps_sampled", 412_000);
/// result.set("throughput.env_steps_per_s", 103_000);
/// result.set("episode_return_mean", 187.25);
/// result.set("ledger.time_this_iter.learner.learning", 0.61);
///
/// let mut line = Vec::new();
/// Console::new(&mut line).report(&result)?;
/// assert_eq!(
///     String::from_utf8(line)?,
///     "iter     7     -  env-steps  412k   103k/s  return    187.2  lag     -  learner: learning 61%\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

    fn report(&mut self, result: &ResultDict) -> Result<(), ReportError> {
        // One write for the whole line, so that lines of other threads do not come between.
        let line = line_of(result) + "\n";
        let written = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| ReportError::new(NAME, error))
    }
}

const NAME: &str = "console";

fn line_of(result: &ResultDict) -> String {
    let show = |path: &str, text: fn(f64) -> String| result.number(path).map_or_else(|| "-".to_owned(), text);
    let mut line = format!(
        "iter {:>5}  {:>4}  env-steps {:>5}  {:>5}/s  return {:>8}  lag {:>5}",
        show("training_iteration", |iteration| format!("{iteration:.0}")),
        show("progress", percent),
        show("num_env_steps_sampled", short),
        show("throughput.env_steps_per_s", short),
        show("episode_return_mean", |mean| format!("{mean:.1}")),
        show("policy_lag.mean", |lag| format!("{lag:.1}")),
    );
    let states = learner_states(result);
    if !states.is_empty() {
        line.push_str("  learner: ");
        line.push_str(&states.join(", "));
    }
    line
}

/// The largest shares of the learner's time, largest first; what rounds to nothing is left out.
fn learner_states(result: &ResultDict) -> Vec<String> {
    const SHOWN: usize = 3;
    let shares = result.get("ledger.time_this_iter.learner").and_then(|states| states.as_object());
    let mut shares: Vec<(&str, f64)> = shares
        .into_iter()
        .flatten()
        .filter_map(|(state, share)| Some((state.as_str(), share.as_f64()?)))
        .filter(|(_, share)| *share >= 0.005)
        .collect();
    shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    shares.iter().take(SHOWN).map(|(state, share)| format!("{state} {}", percent(*share))).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// A count or rate in three digits and a power of a thousand: `999`, `1.23k`, `412k`, `7.00M`.
fn short(value: f64) -> String {
    let mut scaled = value;
    for unit in ["", "k", "M", "G", "T"] {
        let decimals = match (unit, scaled.abs()) {
            ("", _) => 0,
            (_, size) if size < 9.995 => 2,
            (_, size) if size < 99.95 => 1,
            _ => 0,
        };
        // Not 1000: what would round up to it belongs to the next unit.
        if scaled.abs() < 999.5 {
            return format!("{scaled:.decimals$}{unit}");
        }
        scaled /= 1000.0;
    }
    format!("{value:.1e}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn figures_have_three_digits_and_fit_their_column() {
        for (value, text) in [
            (0.0, "0"),
            (7.4, "7"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1234.0, "1.23k"),
            (9994.0, "9.99k"),
            (9996.0, "10.0k"),
            (99_960.0, "100k"),
            (412_345.0, "412k"),
            (999_600.0, "1.00M"),
            (7e6, "7.00M"),
            (1.5e12, "1.50T"),
            (3e15, "3.0e15"),
            (-1234.0, "-1.23k"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn the_three_largest_states_are_shown() {
        let mut result = ResultDict::new();
        for (state, share) in [("starting", 0.0), ("publishing", 0.06), ("starved", 0.3), ("learning", 0.61)] {
            result.set(&format!("ledger.time_this_iter.learner.{state}"), share);
        }
        result.set("ledger.time_this_iter.learner.reporting", 0.03);
        let line = line_of(&result);
        assert!(line.ends_with("learner: learning 61%, starved 30%, publishing 6%"), "{line}");
    }

    #[test]
    fn absent_and_unusable_figures_keep_the_columns() {
        let empty = line_of(&ResultDict::new());
        assert_eq!(empty, "iter     -     -  env-steps     -      -/s  return        -  lag     -");

        let mut result = ResultDict::new();
        result.set("progress", f64::NAN);
        result.set("episode_return_mean", f64::NEG_INFINITY);
        result.set("policy_lag", "none yet");
        result.set("ledger.time_this_iter.learner", 3);
        assert_eq!(line_of(&result), empty);
    }

    #[test]
    fn lines_of_ordinary_results_are_aligned() {
        let mut result = ResultDict::new();
        let mut widths = Vec::new();
        for (iteration, progress, steps, mean) in [(1, 0.001, 96.0, -3.25), (250, 0.995, 1.25e7, 475.0)] {
            result.set("training_iteration", iteration);
            result.set("progress", progress);
            result.set("num_env_steps_sampled", steps);
            result.set("throughput.env_steps_per_s", steps / 3.0);
            result.set("episode_return_mean", mean);
            result.set("policy_lag.mean", progress);
            widths.push(line_of(&result).len());
        }
        assert_eq!(widths[0], widths[1]);
        assert_eq!(widths[0], line_of(&ResultDict::new()).len());
    }

    #[test]
    fn a_closed_pipe_is_an_error_and_no_panic() {
        let (reader, writer) = io::pipe().unwrap();
        let mut console = Console::new(writer);
        console.report(&ResultDict::new()).unwrap();
        drop(reader);
        let error = console.report(&ResultDict::new()).unwrap_err();
        assert_eq!(error.reporter, "console");
        let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::BrokenPipe);
    }
}
