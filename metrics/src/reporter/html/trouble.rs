//! What went wrong in a run, in words.

use std::collections::VecDeque;
use std::fmt::Write;

use serde_json::Value;

use super::text::{counted, escape, nothing, shortened, whole};
use crate::result::ResultDict;

/// So many texts of a kind are kept, the newest.
const MAX_TEXTS: usize = 20;
const MAX_TEXT_CHARS: usize = 1500;

/// Counts of what went wrong, and the newest texts about it.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    n_failures: u64,
    n_restarts: u64,
    n_quarantined: u64,
    /// Failures of workers.
    failures: Texts,
    /// Batches that no update was made of.
    quarantines: Texts,
    /// What the learner found out when it had nothing to learn from.
    starved: Texts,
    /// What ended the run, if something did.
    run_failed: Vec<String>,
    /// Whole lists, as the newest result has them.
    gave_up: Vec<String>,
    abandoned: Vec<String>,
    reporters: Vec<String>,
    checkpoints: Vec<String>,
}

/// The newest texts of a kind, each with how often it came and the env-steps at which it came last.
#[derive(Debug, Default)]
struct Texts(VecDeque<(String, u64, u64)>);

impl Trouble {
    /// Takes in what one result tells, at so many env-steps.
    pub(super) fn take(&mut self, result: &ResultDict, env_steps: u64) {
        let count = |path: &str| result.get(path).and_then(Value::as_u64).unwrap_or(0);
        let text = |path: &str| result.get(path).and_then(Value::as_str);
        self.n_failures = self.n_failures.saturating_add(count("workers.failures_this_iter"));
        self.n_restarts = self.n_restarts.max(count("workers.restarts")).max(count("num_remote_worker_restarts"));
        let n_quarantined = count("learner_health.batches_quarantined").max(count("counters.num_batches_quarantined"));
        if n_quarantined > self.n_quarantined {
            self.n_quarantined = n_quarantined;
            // The text stays in the dict until the next batch replaces it, so only a new batch makes it new.
            self.quarantines.add(text("learner_health.last_quarantine"), env_steps);
        }
        self.starved.add(text("learner_health.starved"), env_steps);
        for failure in result.get("workers.newest_failures").and_then(Value::as_array).into_iter().flatten() {
            self.failures.add(failure.as_str(), env_steps);
        }
        self.run_failed.extend(text("run_failed").map(|text| shortened(text, MAX_TEXT_CHARS)));
        for (kept, path) in [
            (&mut self.gave_up, "workers.gave_up"),
            (&mut self.abandoned, "workers.abandoned"),
            (&mut self.reporters, "reporters_failed"),
            (&mut self.checkpoints, "checkpoints_failed"),
        ] {
            if let Some(texts) = result.get(path).and_then(Value::as_array) {
                let newest = &texts[texts.len().saturating_sub(MAX_TEXTS)..];
                *kept = newest.iter().filter_map(Value::as_str).map(|text| shortened(text, MAX_TEXT_CHARS)).collect();
            }
        }
    }

    /// Writes all of it, or that there is none.
    pub(super) fn draw(&self, out: &mut String) {
        let before = out.len();
        let counts = [
            (self.n_failures, "failure of a worker's environments", "failures of workers' environments"),
            (self.n_restarts, "restart of a worker", "restarts of workers"),
            (self.n_quarantined, "batch quarantined", "batches quarantined"),
        ];
        if counts.iter().any(|(n, ..)| *n > 0) {
            out.push_str("<ul class=\"counts\">");
            for (n, one, many) in counts.iter().filter(|(n, ..)| *n > 0) {
                let _ = write!(out, "<li><b>{}</b> {}</li>", whole(*n), if *n == 1 { one } else { many });
            }
            out.push_str("</ul>\n");
        }
        plain(out, "What ended the run", &self.run_failed);
        plain(out, "Workers that gave up", &self.gave_up);
        plain(out, "Threads left behind", &self.abandoned);
        plain(out, "Reporters that failed", &self.reporters);
        plain(out, "Checkpoints that could not be saved", &self.checkpoints);
        self.failures.draw("Newest failures of workers", out);
        self.quarantines.draw("Quarantined batches", out);
        self.starved.draw("Learner without data", out);
        if out.len() == before {
            nothing(out, "The results tell of nothing that went wrong.");
        }
    }
}

impl Texts {
    fn add(&mut self, text: Option<&str>, env_steps: u64) {
        let Some(text) = text.map(|text| shortened(text, MAX_TEXT_CHARS)) else { return };
        let known = self.0.iter().position(|(known, ..)| *known == text);
        let n = known.and_then(|at| self.0.remove(at)).map_or(0, |(_, n, _)| n);
        self.0.push_back((text, n + 1, env_steps));
        if self.0.len() > MAX_TEXTS {
            self.0.pop_front();
        }
    }

    fn draw(&self, heading: &str, out: &mut String) {
        list(out, heading, self.0.iter().rev(), |(text, n, env_steps)| {
            let times = if *n > 1 { format!("in {}, ", counted(*n, "result")) } else { String::new() };
            let when = format!(" <span>{times}at {} env-steps</span>", whole(*env_steps));
            escape(text) + &when
        });
    }
}

fn plain(out: &mut String, heading: &str, texts: &[String]) {
    list(out, heading, texts.iter(), |text| escape(text));
}

fn list<T>(out: &mut String, heading: &str, items: impl ExactSizeIterator<Item = T>, html: impl Fn(T) -> String) {
    if items.len() > 0 {
        let _ = write!(out, "<h3>{heading}</h3>\n<ul class=\"texts\">");
        items.for_each(|item| {
            let _ = writeln!(out, "<li>{}</li>", html(item));
        });
        out.push_str("</ul>\n");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_are_added_up_and_the_newest_texts_kept() {
        let mut trouble = Trouble::default();
        for i in 0..1000 {
            let mut result = ResultDict::new();
            result.set("workers.failures_this_iter", 2);
            result.set("workers.restarts", i);
            result.set("workers.newest_failures", json!([format!("failure {i}"), "always"]));
            result.set("learner_health.batches_quarantined", 1 + i / 999);
            result.set("learner_health.last_quarantine", "loss is NaN");
            trouble.take(&result, 10 * i);
        }
        let mut out = String::new();
        trouble.draw(&mut out);
        assert!(out.contains("<b>2,000</b> failures") && out.contains("<b>999</b> restarts"), "{out}");
        assert!(out.contains("failure 999 ") && !out.contains("failure 900 "), "{out}");
        assert!(out.contains("always <span>in 1,000 results, at 9,990 env-steps</span>"), "{out}");
        assert!(out.contains("loss is NaN <span>in 2 results,"), "{out}");
    }

    #[test]
    fn a_run_without_trouble_says_so() {
        let mut out = String::new();
        Trouble::default().draw(&mut out);
        assert!(out.contains("nothing that went wrong"));
    }
}
