//! [`FailureLog`]: what is said of failures while a run goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use super::report::WorkerReport;
use crate::sync::{Arc, Instant, Mutex, PoisonError};

/// Kinds of failures that are told apart; later ones are only counted.
const MAX_KINDS: usize = 20;

/// The shortest time between two counts.
const COUNT_EVERY: Duration = Duration::from_secs(30);

/// The longest line that is made of a failure, in characters.
const LONGEST: usize = 400;

/// Logs failures of environments as they are reported: each kind when it happens first, and every 30 s at
/// most how many there were since. The reports have them all.
///
/// Two failures are of one kind if their texts differ in numbers only.
///
/// ```
/// use pronk_rollout::{FailureLog, WorkerReport};
///
/// let failures = vec!["environment 2 of rollout-1 failed at step 7: out of licences".to_owned()];
/// FailureLog::default().note(&WorkerReport { n_failures: 1, failures, ..WorkerReport::default() });
/// ```
#[derive(Clone, Debug, Default)]
pub struct FailureLog(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    kinds: BTreeSet<String>,
    /// All failures.
    n: u64,
    /// Failures of which nothing was said, and the newest of them.
    untold: u64,
    newest: String,
    /// When something was last said.
    told: Option<Instant>,
}

impl FailureLog {
    /// Logs what is new in a report.
    pub fn note(&self, report: &WorkerReport) {
        // Most reports have none, and workers must not wait for each other.
        if report.n_failures == 0 {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.take_in(report, Instant::now()).iter().for_each(|line| tracing::warn!("{line}"));
    }

    /// A failure in one line: of a traceback what it ends with.
    pub fn one_line(failure: &str) -> String {
        one_line(failure)
    }
}

impl Known {
    /// Counts the failures of a report, and returns the lines to be said of them.
    fn take_in(&mut self, report: &WorkerReport, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        self.n += report.n_failures;
        // A report does not list all.
        self.untold += report.n_failures.saturating_sub(report.failures.len() as u64);
        for text in &report.failures {
            if self.kinds.len() < MAX_KINDS && self.kinds.insert(kind(text)) {
                lines.push(one_line(text));
                self.told.get_or_insert(now);
            } else {
                self.untold += 1;
                self.newest = one_line(text);
            }
        }
        if self.untold > 0 && self.told.is_none_or(|told| now.duration_since(told) >= COUNT_EVERY) {
            let Self { n, untold, newest, .. } = &*self;
            lines.push(format!("environments have failed {untold} times more, {n} times in all; the newest: {newest}"));
            (self.untold, self.told) = (0, Some(now));
        }
        lines
    }
}

/// The words of a failure, without its numbers.
fn kind(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.contains(|letter: char| letter.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

/// A failure in one line: of a traceback what it ends with.
fn one_line(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(char::is_whitespace));
    let lines = lines.map(|line| line.trim_end().trim_end_matches("Traceback (most recent call last):").trim_end());
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failures: &[&str]) -> WorkerReport {
        let mut report = WorkerReport::default();
        failures.iter().for_each(|failure| report.add_failure((*failure).to_owned()));
        report
    }

    #[test]
    fn the_first_failure_of_a_kind_is_said_at_once_and_later_ones_are_counted() {
        let (mut known, began) = (Known::default(), Instant::now());
        let at = |secs| began + Duration::from_secs(secs);
        let first = "environment 0 of rollout-1 failed at step 7 of the episode with seed 3: the reward is NaN";
        assert_eq!(known.take_in(&report(&[first]), at(0)), [first]);
        // Other numbers make no other kind.
        let same = "environment 12 of rollout-2 failed at step 900 of the episode with seed 4: the reward is NaN";
        assert!(known.take_in(&report(&[same]), at(1)).is_empty());
        let other = "environment 0 of rollout-1 failed while it was made: out of licences";
        assert_eq!(known.take_in(&report(&[same, other, same]), at(2)), [other]);
        let counted = format!("environments have failed 4 times more, 6 times in all; the newest: {same}");
        assert_eq!(known.take_in(&report(&[same]), at(30)), [counted]);
        assert!(known.take_in(&report(&[same]), at(59)).is_empty());
        let folded = WorkerReport { n_failures: 1000, ..report(&[same]) };
        let counted = format!("environments have failed 1001 times more, 1007 times in all; the newest: {same}");
        assert_eq!(known.take_in(&folded, at(60)), [counted]);
    }

    #[test]
    fn an_environment_that_never_fails_twice_in_the_same_words_does_not_flood_the_log() {
        let (mut known, began) = (Known::default(), Instant::now());
        let said: usize = (0..1000u32)
            .map(|n| {
                let letter = |n: u32| char::from_u32(u32::from('a') + n).unwrap();
                let text = format!("the level {}{} is missing", letter(n % 26), letter(n / 26 % 26));
                known.take_in(&report(&[&text]), began).len()
            })
            .sum();
        assert_eq!(said, MAX_KINDS);
    }

    #[test]
    fn a_traceback_becomes_one_line() {
        let text = "environment 0 of rollout-1 (Case-v0, incarnation 0) failed in reset with episode seed 7: Traceback \
                    (most recent call last):\n  File \"env.py\", line 7, in reset\n    raise RuntimeError(\"no level\")\n\
                    RuntimeError: no level\n";
        let line = "environment 0 of rollout-1 (Case-v0, incarnation 0) failed in reset with episode seed 7: \
                    RuntimeError: no level";
        assert_eq!(one_line(text), line);
        assert_eq!(one_line(&"é".repeat(1000)).chars().count(), LONGEST + 1);
    }
}
