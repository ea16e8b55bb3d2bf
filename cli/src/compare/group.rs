//! Runs that differ in their seed alone.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::summary::Summary;
use crate::spread::spread;

/// Runs with equal settings, seeds aside.
#[derive(Debug, Serialize)]
pub(super) struct Group<'a> {
    #[serde(serialize_with = "names")]
    pub(super) runs: Vec<&'a Summary>,
    /// Lowest, median and highest return of the last results.
    pub(super) returns: Option<[f64; 3]>,
    /// Median over the runs that reached it.
    pub(super) env_steps_to_target: Option<u64>,
    /// How many runs reached the target.
    pub(super) reached: usize,
}

impl<'a> Group<'a> {
    fn of(runs: Vec<&'a Summary>) -> Self {
        let returns = runs.iter().filter_map(|run| run.episode_return_mean).collect();
        let to_target: Vec<f64> =
            runs.iter().filter_map(|run| run.env_steps_to_target).map(|steps| steps as f64).collect();
        let reached = to_target.len();
        let env_steps_to_target = spread(to_target).map(|[_, median, _]| median.round() as u64);
        Self { returns: spread(returns), env_steps_to_target, reached, runs }
    }

    pub(super) fn first(&self) -> &'a Summary {
        self.runs[0]
    }
}

/// The groups, in the order of their first runs.
pub(super) fn groups(runs: &[Summary]) -> Vec<Group<'_>> {
    let mut groups: Vec<Vec<&Summary>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| group[0].settings == run.settings) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.into_iter().map(Group::of).collect()
}

/// The settings that differ, by path, with both values.
pub(super) fn differences<'a>(ours: &'a Value, theirs: &'a Value) -> BTreeMap<String, [&'a Value; 2]> {
    let mut found = BTreeMap::new();
    collect(ours, theirs, String::new(), &mut found);
    found
}

fn collect<'a>(ours: &'a Value, theirs: &'a Value, path: String, found: &mut BTreeMap<String, [&'a Value; 2]>) {
    if ours == theirs {
        return;
    }
    let (Value::Object(a), Value::Object(b)) = (ours, theirs) else {
        found.insert(path, [ours, theirs]);
        return;
    };
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
        let side = |side: &'a serde_json::Map<String, Value>| side.get(key).unwrap_or(&Value::Null);
        collect(side(a), side(b), below(key), found);
    }
}

fn names<S: serde::Serializer>(runs: &[&Summary], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| run.run.display().to_string()))
}

#[cfg(test)]
mod tests {
    use pronk::RunState;

    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_runs_is_between_the_two_in_the_middle() {
        let run = |seed: u64, env_steps_to_target: Option<u64>| Summary {
            run: "run".into(),
            env: String::new(),
            algorithm: String::new(),
            seed,
            state: RunState::Finished,
            env_steps: 0,
            secs: 0.0,
            episode_return_mean: Some(seed as f64),
            best_return_mean: None,
            env_steps_to_target,
            secs_to_target: None,
            settings: Value::Null,
        };
        let runs = [run(1, Some(100)), run(2, Some(900)), run(3, None), run(4, Some(201)), run(5, Some(300))];
        let groups = groups(&runs);
        assert_eq!((groups.len(), groups[0].reached), (1, 4));
        assert_eq!((groups[0].env_steps_to_target, groups[0].returns), (Some(251), Some([1.0, 3.0, 5.0])));
    }
}
