use indexmap::IndexMap;
use serde_json::Value;

use super::merge::{Entry, Merge, check_weight};
use super::{BATCH_COUNT, Info, InfoError};
use crate::ids::{ByPolicy, PolicyId};

/// The statistics of each policy, in order of first appearance.
///
/// ```
/// use pronk_metrics::{Info, LearnerInfo, default_policy};
///
/// let mut info = LearnerInfo::new();
/// info.insert(default_policy(), Info::tree([("learner_stats", Info::tree([("total_loss", 0.5)]))]));
/// assert_eq!(info.number("default_policy", "learner_stats.total_loss"), Some(0.5));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearnerInfo(IndexMap<PolicyId, Info>);

impl LearnerInfo {
    /// No policies.
    pub fn new() -> LearnerInfo {
        LearnerInfo::default()
    }

    /// The statistics of `policy`.
    pub fn get(&self, policy: &str) -> Option<&Info> {
        self.0.get(policy)
    }

    /// The number at `path` in the statistics of `policy`.
    pub fn number(&self, policy: &str, path: &str) -> Option<f64> {
        self.get(policy)?.number(path)
    }

    /// Sets the statistics of `policy` and returns the old ones.
    pub fn insert(&mut self, policy: PolicyId, info: Info) -> Option<Info> {
        self.0.insert(policy, info)
    }

    /// The policies with their statistics.
    pub fn iter(&self) -> impl Iterator<Item = (&PolicyId, &Info)> {
        self.0.iter()
    }

    /// Whether there are no policies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `{policy: tree}` as JSON; missing and non-finite values become null.
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.iter().map(|(policy, info)| (policy.to_string(), info.to_json())).collect())
    }

    /// Merges the infos of several updates, each policy and leaf over the updates that have it. Ignores a key
    /// `batch_count` beside the policies.
    ///
    /// The weight of each info, for example its rows, applies to means. Merging in stages, with the sums of
    /// the weights, equals merging at once, so a mailbox may fold reports.
    ///
    /// # Errors
    /// A tree in one info where another has a leaf, arrays of different shapes, or a negative or non-finite
    /// weight.
    ///
    /// ```
    /// use pronk_metrics::{Info, LearnerInfo, default_policy};
    ///
    /// let info = |loss: f64| {
    ///     let mut info = LearnerInfo::new();
    ///     info.insert(default_policy(), Info::tree([("total_loss", loss)]));
    ///     info
    /// };
    /// let merged = LearnerInfo::merge_all([(info(1.0), 300.0), (info(5.0), 100.0)])?;
    /// assert_eq!(merged.number("default_policy", "total_loss"), Some(2.0));
    /// # Ok::<(), pronk_metrics::InfoError>(())
    /// ```
    pub fn merge_all(infos: impl IntoIterator<Item = (LearnerInfo, f64)>) -> Result<LearnerInfo, InfoError> {
        let mut total_rows = 0.0;
        let mut by_policy: IndexMap<PolicyId, Vec<(Info, f64)>> = IndexMap::new();
        for (info, rows) in infos {
            check_weight(rows)?;
            total_rows += rows;
            for (policy, info) in info.into_policies() {
                by_policy.entry(policy).or_default().push((info, rows));
            }
        }
        Self::reduce(by_policy, |_| total_rows)
    }

    /// As [`merge_all`](Self::merge_all), with the rows of each policy in each info as weights.
    pub fn merge_by_rows(
        infos: impl IntoIterator<Item = (LearnerInfo, ByPolicy<u64>)>,
    ) -> Result<LearnerInfo, InfoError> {
        let mut by_policy: IndexMap<PolicyId, Vec<(Info, f64)>> = IndexMap::new();
        for (info, rows) in infos {
            for (policy, info) in info.into_policies() {
                let rows = rows.get(&policy).map_or(0.0, |rows| *rows as f64);
                by_policy.entry(policy).or_default().push((info, rows));
            }
        }
        Self::reduce(by_policy, |infos| infos.iter().map(|(_, rows)| rows).sum())
    }

    fn reduce(
        by_policy: IndexMap<PolicyId, Vec<(Info, f64)>>,
        total_rows: impl Fn(&[(Info, f64)]) -> f64,
    ) -> Result<LearnerInfo, InfoError> {
        let merged = by_policy.into_iter().map(|(policy, infos)| {
            let entries: Vec<Entry<'_>> = infos.iter().map(|(info, rows)| Entry { info, weight: *rows }).collect();
            let merged = Merge::reports(&policy, total_rows(&infos)).reduce(&entries)?;
            Ok((policy, merged))
        });
        merged.collect::<Result<_, _>>().map(LearnerInfo)
    }

    pub(super) fn into_policies(self) -> impl Iterator<Item = (PolicyId, Info)> {
        self.0.into_iter().filter(|(policy, _)| &**policy != BATCH_COUNT)
    }
}

impl FromIterator<(PolicyId, Info)> for LearnerInfo {
    fn from_iter<I: IntoIterator<Item = (PolicyId, Info)>>(policies: I) -> LearnerInfo {
        LearnerInfo(policies.into_iter().collect())
    }
}

impl IntoIterator for LearnerInfo {
    type Item = (PolicyId, Info);
    type IntoIter = indexmap::map::IntoIter<PolicyId, Info>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Extend<(PolicyId, Info)> for LearnerInfo {
    fn extend<I: IntoIterator<Item = (PolicyId, Info)>>(&mut self, policies: I) {
        self.0.extend(policies);
    }
}
