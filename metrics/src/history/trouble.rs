//! Failures of a run.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::shorten::shortened;
use crate::result::ResultDict;

/// The number of texts kept of each kind.
const MAX_TEXTS: usize = 20;
const MAX_TEXT_CHARS: usize = 1500;

/// Counts of failures, and the newest texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    n_failures: u64,
    n_restarts: u64,
    n_quarantined: u64,
    n_failed_evaluations: u64,
    /// Failures of workers.
    failures: Texts,
    /// Quarantined batches.
    quarantines: Texts,
    /// Diagnoses of a starved learner.
    starved: Texts,
    /// Failures of evaluations.
    evaluations: Texts,
    /// The errors that ended the run.
    run_failed: Vec<String>,
    /// Lists of the newest result.
    gave_up: Vec<String>,
    abandoned: Vec<String>,
    reporters: Vec<String>,
    checkpoints: Vec<String>,
}

/// The newest texts of a kind, each with the number of results with it and the env-steps of the last.
#[derive(Clone, Debug, Default)]
struct Texts(VecDeque<(String, u64, u64)>);

impl Trouble {
    /// Adds a result at `env_steps`.
    pub(super) fn take(&mut self, result: &ResultDict, env_steps: u64) {
        let count = |path: &str| result.get(path).and_then(Value::as_u64).unwrap_or(0);
        let text = |path: &str| result.get(path).and_then(Value::as_str);
        self.n_failures = self.n_failures.saturating_add(count("workers.failures_this_iter"));
        self.n_restarts = self.n_restarts.max(count("workers.restarts")).max(count("num_remote_worker_restarts"));
        let n_quarantined = count("learner_health.batches_quarantined").max(count("counters.num_batches_quarantined"));
        if n_quarantined > self.n_quarantined {
            self.n_quarantined = n_quarantined;
            // The text stays in the dict until the next quarantine: only a higher count makes it new.
            self.quarantines.add(text("learner_health.last_quarantine"), env_steps);
        }
        self.starved.add(text("learner_health.starved"), env_steps);
        let n_failed = count("evaluation.failed");
        if n_failed > self.n_failed_evaluations {
            self.n_failed_evaluations = n_failed;
            self.evaluations.add(text("evaluation.last_failure"), env_steps);
        }
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

    /// Counts, and non-empty lists of texts with headings.
    pub(super) fn to_json(&self) -> Value {
        let counts = [
            ("failures of workers' environments", self.n_failures),
            ("restarts of workers", self.n_restarts),
            ("quarantined batches", self.n_quarantined),
            ("failed evaluations", self.n_failed_evaluations),
        ];
        let counts: Vec<_> = counts.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| json!([name, n])).collect();
        let plain = |texts: &[String]| texts.iter().map(|text| json!({"text": text})).collect::<Vec<_>>();
        let lists = [
            ("What ended the run", plain(&self.run_failed)),
            ("Workers that gave up", plain(&self.gave_up)),
            ("Abandoned threads", plain(&self.abandoned)),
            ("Reporters that failed", plain(&self.reporters)),
            ("Checkpoints that could not be saved", plain(&self.checkpoints)),
            ("Newest failures of workers", self.failures.to_json()),
            ("Quarantined batches", self.quarantines.to_json()),
            ("Learner without data", self.starved.to_json()),
            ("Failures of evaluations", self.evaluations.to_json()),
        ];
        let lists = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
        let lists: Vec<_> = lists.map(|(heading, texts)| json!({"heading": heading, "texts": texts})).collect();
        json!({"counts": counts, "lists": lists})
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

    /// Newest first, with the number of results with the text and the env-steps of the last.
    fn to_json(&self) -> Vec<Value> {
        let texts = self.0.iter().rev();
        texts.map(|(text, n, env_steps)| json!({"text": text, "results": n, "env_steps": env_steps})).collect()
    }
}

#[cfg(test)]
mod tests {
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
        let told = trouble.to_json();
        assert_eq!(told["counts"][0], json!(["failures of workers' environments", 2000]));
        assert_eq!(told["counts"][1], json!(["restarts of workers", 999]));
        let failures = told["lists"][0]["texts"].as_array().unwrap();
        assert_eq!(failures[0], json!({"text": "always", "results": 1000, "env_steps": 9990}));
        assert_eq!((&failures[1]["text"], failures.len()), (&json!("failure 999"), MAX_TEXTS));
        assert_eq!(told["lists"][1]["texts"][0]["results"], 2);
    }

    #[test]
    fn a_failure_of_an_evaluation_is_new_when_the_count_is_higher() {
        let mut trouble = Trouble::default();
        for (env_steps, failed) in [(10, 0), (20, 1), (30, 1), (40, 2)] {
            let mut result = ResultDict::new();
            result.set("evaluation.failed", failed);
            result.set("evaluation.last_failure", json!((failed > 0).then_some("stuck")));
            trouble.take(&result, env_steps);
        }
        let told = trouble.to_json();
        assert_eq!(told["counts"], json!([["failed evaluations", 2]]));
        assert_eq!(told["lists"][0]["texts"], json!([{"text": "stuck", "results": 2, "env_steps": 40}]));
    }

    #[test]
    fn a_run_without_trouble_has_nothing_to_list() {
        assert_eq!(Trouble::default().to_json(), json!({"counts": [], "lists": []}));
    }
}
