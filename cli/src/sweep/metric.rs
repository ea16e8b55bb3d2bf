//! Which metrics there are: the numbers in a result.

use pronk::DEFAULT_POLICY;
use serde_json::Value;

use crate::environment::{Environment, SHARED};
use crate::run_file::{Policies, RunFile};

/// The list of all keys of a result.
const RESULTS: &str = include_str!("../../results.md");

/// What an algorithm says of its updates. No list has the names, but the first result with one has all.
pub(super) const STATISTIC: &str = "info.learner.<policy>.learner_stats.<stat>";

/// A key in the list.
struct Key {
    /// `<…>` stands for any name.
    path: &'static str,
    kind: &'static str,
}

impl Key {
    /// All keys of results, but those of workers on other machines, for which no run of a sweep listens.
    fn all() -> impl Iterator<Item = Self> {
        let keys = RESULTS.lines().filter(|line| line.starts_with("| `")).flat_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (paths, kind) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            paths.split(", ").map(move |path| Self { path: path.trim_matches('`'), kind })
        });
        keys.filter(|key| !key.path.starts_with("hosts."))
    }

    fn is_number(&self) -> bool {
        self.kind.starts_with("integer") || self.kind.starts_with("number")
    }

    /// With the names that `metric` has in their places.
    fn named_as(&self, metric: &str) -> String {
        let mut given = metric.split('.');
        let name = |key: &'static str| {
            let given = given.next();
            if key.starts_with('<') { given.unwrap_or(key) } else { key }
        };
        self.path.split('.').map(name).collect::<Vec<_>>().join(".")
    }
}

/// Checks that results have a number at the path `metric`; its key in the list.
///
/// # Errors
/// They have none.
pub(super) fn check(metric: &str) -> Result<&'static str, String> {
    match Key::all().find(|key| key.named_as(metric) == metric) {
        Some(key) if key.is_number() => Ok(key.path),
        Some(key) => Err(format!("`{metric}` is no number, but of the type {}", key.kind)),
        None => {
            let all: Vec<String> = Key::all().filter(Key::is_number).map(|key| key.named_as(metric)).collect();
            Err(unknown(metric, &all))
        }
    }
}

/// Checks that results of `run` have the policy that is named in a metric with this key.
///
/// # Errors
/// They have not.
pub(super) fn check_policy(metric: &str, key: &str, run: &RunFile, env: &Environment) -> Result<(), String> {
    let policy = match (env, run.multi_agent.policies) {
        (Environment::Single(_), _) if key.contains("policy_reward_") => {
            return Err(format!("`{metric}` is of several agents, and `{}` has one", run.env));
        }
        (Environment::Single(_), _) => DEFAULT_POLICY,
        (Environment::Several(_), Policies::Shared) => SHARED,
        // Only the environment knows its agents.
        (Environment::Several(_), Policies::Separate) => return Ok(()),
    };
    match key.split('.').zip(metric.split('.')).find(|(key, _)| *key == "<policy>") {
        Some((_, given)) if given != policy => Err(format!("`{metric}`: the policy is called `{policy}`")),
        _ => Ok(()),
    }
}

/// Checks a metric that is a [`STATISTIC`] by a result; `None` if that has no statistics yet.
///
/// # Errors
/// There is no such statistic.
pub(super) fn check_statistic(metric: &str, result: &Value) -> Option<Result<(), String>> {
    let (path, name) = metric.rsplit_once('.')?;
    let statistics = value_at(result, path)?.as_object().filter(|statistics| !statistics.is_empty())?;
    if statistics.contains_key(name) {
        return Some(Ok(()));
    }
    let all: Vec<String> = statistics.keys().map(|name| format!("{path}.{name}")).collect();
    Some(Err(unknown(metric, &all)))
}

/// What is at a path in a result.
pub(super) fn value_at<'a>(result: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(result, |place, key| place.get(key))
}

/// The error that results have no such key, with the one that is spelled most like it.
fn unknown(metric: &str, known: &[String]) -> String {
    let likeness = |known: &String| strsim::jaro_winkler(metric, known);
    let nearest = known.iter().map(|known| (likeness(known), known)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest.filter(|(likeness, _)| *likeness > 0.8) {
        Some((_, nearest)) => format!("no result has `{metric}`: did you mean `{nearest}`?"),
        None => format!("no result has `{metric}`: docs/results.md lists the numbers in a result"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_metric_is_a_number_in_the_list_of_results() {
        let known = [
            ("episode_return_mean", "episode_return_mean"),
            ("sampler_results.episode_reward_max", "sampler_results.episode_reward_max"),
            ("evaluation.best.episode_reward_mean", "evaluation.best.episode_reward_mean"),
            ("info.learner.team.learner_stats.entropy", STATISTIC),
            ("ledger.time.learner.states.learning", "ledger.time.<thread>.states.<state>"),
        ];
        for (metric, key) in known {
            assert_eq!(check(metric), Ok(key));
        }
        let wrong = [
            ("episode_retrun_mean", "did you mean `episode_return_mean`?"),
            ("sampler_results.episode_reward", "did you mean `sampler_results.episode_reward_m"),
            ("info.learner.team.learner_stat.entropy", "did you mean `info.learner.team.learner_stats.entropy`?"),
            ("episode_return_mean.x", "did you mean `episode_return_mean`?"),
            ("score", "docs/results.md"),
            ("", "docs/results.md"),
            ("bottleneck.limit", "is no number, but of the type text"),
            ("hist_stats.episode_reward", "of the type list of numbers"),
            ("hosts.connected", "no result has"),
        ];
        for (metric, expected) in wrong {
            let error = check(metric).unwrap_err();
            assert!(error.contains(expected), "{metric}: {error}");
        }
    }

    #[test]
    fn a_statistic_is_known_by_the_first_result_that_has_some() {
        let of = |name: &str| format!("info.learner.default_policy.learner_stats.{name}");
        let result = |stats: Value| json!({ "info": { "learner": { "default_policy": { "learner_stats": stats } } } });
        assert_eq!(check_statistic(&of("entropy"), &json!({ "info": { "learner": {} } })), None);
        assert_eq!(check_statistic(&of("entropy"), &result(json!({}))), None);
        let stats = result(json!({ "entropy": null, "vf_loss": 1.0 }));
        assert_eq!(check_statistic(&of("entropy"), &stats), Some(Ok(())));
        let error = check_statistic(&of("entrophy"), &stats).unwrap().unwrap_err();
        assert!(error.contains(&format!("did you mean `{}`?", of("entropy"))), "{error}");
    }
}
