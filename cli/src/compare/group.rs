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
        let mut to_target: Vec<u64> = runs.iter().filter_map(|run| run.env_steps_to_target).collect();
        to_target.sort_unstable();
        let env_steps_to_target = to_target.get(to_target.len().saturating_sub(1) / 2).copied();
        Self { returns: spread(returns), env_steps_to_target, reached: to_target.len(), runs }
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
    serializer.collect_seq(runs.iter().map(|run| &run.run))
}
