use indexmap::IndexMap;

use super::merge::{Entry, Merge, check_weight};
use super::{Info, InfoError, InfoTree, LEARNER_STATS, LearnerInfo};
use crate::ids::{PolicyId, default_policy};

/// Collects the results of an update's minibatches, devices and policies, and merges them once.
///
/// Behaves as RLlib 2.2's `LearnerInfoBuilder`. Results with a key `tower_0` come from several devices:
/// `tower_0` to `tower_{n-1}` are merged first, then overlaid with the other keys, `learner_stats` key by
/// key.
///
/// ```
/// use pronk_metrics::{Info, LearnerInfoBuilder};
///
/// let mut builder = LearnerInfoBuilder::new(2);
/// builder.add(None, Info::tree([
///     ("tower_0", Info::tree([("learner_stats", Info::tree([("kl", 0.25)]))])),
///     ("tower_1", Info::tree([("learner_stats", Info::tree([("kl", 0.75)]))])),
///     ("learner_stats", Info::tree([("cur_lr", 0.001)])),
/// ]))?;
/// let info = builder.finalize()?;
/// assert_eq!(info.number("default_policy", "learner_stats.kl"), Some(0.5));
/// assert_eq!(info.number("default_policy", "learner_stats.cur_lr"), Some(0.001));
/// # Ok::<(), pronk_metrics::InfoError>(())
/// ```
#[derive(Debug)]
pub struct LearnerInfoBuilder {
    n_devices: usize,
    results: IndexMap<PolicyId, Vec<(Info, Option<f64>)>>,
    finalized: bool,
}

impl LearnerInfoBuilder {
    /// A builder for the results of `n_devices` devices, at least one.
    pub fn new(n_devices: usize) -> LearnerInfoBuilder {
        LearnerInfoBuilder { n_devices: n_devices.max(1), results: IndexMap::new(), finalized: false }
    }

    /// Adds the results of one minibatch of `policy`, or of the default policy. Means weigh all minibatches
    /// equally.
    ///
    /// # Errors
    /// The builder was finalized, or a device's results are missing or cannot be merged with the others'.
    pub fn add(&mut self, policy: Option<&PolicyId>, results: Info) -> Result<(), InfoError> {
        self.push(policy, results, None)
    }

    /// As [`add`](Self::add), but means weigh this minibatch by its `rows`. Results without a weight then
    /// count as one row.
    ///
    /// # Errors
    /// Those of `add`, and negative or non-finite `rows`.
    pub fn add_weighted(&mut self, policy: Option<&PolicyId>, results: Info, rows: f64) -> Result<(), InfoError> {
        check_weight(rows)?;
        self.push(policy, results, Some(rows))
    }

    /// Adds the results of one minibatch of several policies. Ignores a key `batch_count`.
    ///
    /// # Errors
    /// Those of [`add`](Self::add); the policies before the failing one stay added.
    pub fn add_multi_agent(&mut self, results: LearnerInfo) -> Result<(), InfoError> {
        self.check_open()?;
        results.into_policies().try_for_each(|(policy, info)| self.push(Some(&policy), info, None))
    }

    /// Merges the results, policies in the order of their first results.
    ///
    /// # Errors
    /// The builder was finalized before, or two results of a policy have different trees.
    pub fn finalize(&mut self) -> Result<LearnerInfo, InfoError> {
        self.check_open()?;
        self.finalized = true;
        let merged = std::mem::take(&mut self.results).into_iter().map(|(policy, results)| {
            let merged = reduce_minibatches(&policy, &results)?;
            Ok((policy, merged))
        });
        merged.collect()
    }

    fn push(&mut self, policy: Option<&PolicyId>, results: Info, rows: Option<f64>) -> Result<(), InfoError> {
        self.check_open()?;
        let policy = policy.cloned().unwrap_or_else(default_policy);
        let results = match results {
            Info::Tree(children) if children.contains_key("tower_0") => {
                merge_towers(&policy, children, self.n_devices)?
            }
            other => other,
        };
        self.results.entry(policy).or_default().push((results, rows));
        Ok(())
    }

    fn check_open(&self) -> Result<(), InfoError> {
        if self.finalized { Err(InfoError::Finalized) } else { Ok(()) }
    }
}

fn reduce_minibatches(policy: &PolicyId, results: &[(Info, Option<f64>)]) -> Result<Info, InfoError> {
    let entries: Vec<Entry<'_>> =
        results.iter().map(|(info, rows)| Entry { info, weight: rows.unwrap_or(1.0) }).collect();
    if results.iter().all(|(_, rows)| rows.is_none()) {
        Merge::unweighted(policy).reduce(&entries)
    } else {
        Merge::weighted(policy, entries.iter().map(|entry| entry.weight).sum()).reduce(&entries)
    }
}

fn merge_towers(policy: &PolicyId, mut results: InfoTree, n_devices: usize) -> Result<Info, InfoError> {
    let mut towers = Vec::new();
    for device in 0..n_devices {
        let key = format!("tower_{device}");
        let tower = results.shift_remove(&key);
        towers.push(tower.ok_or(InfoError::MissingTower { policy: policy.clone(), tower: key, n_devices })?);
    }
    let entries: Vec<Entry<'_>> = towers.iter().map(|info| Entry { info, weight: 1.0 }).collect();
    let mut merged = match Merge::unweighted(policy).reduce(&entries)? {
        Info::Tree(children) => children,
        // A tower that is a leaf has no keys to overlay.
        other if results.is_empty() => return Ok(other),
        _ => InfoTree::new(),
    };
    for (key, info) in results {
        match (info, merged.get_mut(&key)) {
            (Info::Tree(over), Some(Info::Tree(under))) if key == LEARNER_STATS => under.extend(over),
            (info, _) => {
                merged.insert(key, info);
            }
        }
    }
    Ok(Info::Tree(merged))
}
