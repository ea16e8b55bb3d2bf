//! Statistics of updates: trees whose leaves know how to merge.

mod builder;
mod error;
mod leaf;
mod learner_info;
mod merge;

pub use builder::LearnerInfoBuilder;
pub use error::InfoError;
use indexmap::IndexMap;
pub use leaf::{Leaf, LeafValue, Reduction};
pub use learner_info::LearnerInfo;
use serde_json::Value;

/// The statistics of one update of one policy, as a tree with ordered keys. A leaf made from a plain number
/// or vector merges by the rule of its name (see [`Reduction::ByName`]); [`Info::leaf`] sets another rule.
///
/// ```
/// use pronk_metrics::{Info, Reduction};
///
/// let info = Info::tree([
///     ("learner_stats", Info::tree([("total_loss", 0.5), ("max_q", 3.0)])),
///     ("n_rows", Info::leaf(500.0, Reduction::Sum)),
/// ]);
/// assert_eq!(info.number("learner_stats.max_q"), Some(3.0));
/// assert_eq!(info.to_json()["n_rows"], 500.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Info {
    /// A statistic without a value; if the first of several has none, nor has their merger.
    #[default]
    None,
    /// A statistic.
    Leaf(Leaf),
    /// Statistics by name.
    Tree(InfoTree),
    /// Statistics by number.
    List(Vec<Info>),
}

/// The children of an [`Info::Tree`].
pub type InfoTree = IndexMap<String, Info>;

impl Info {
    /// A leaf with this rule.
    pub fn leaf(value: impl Into<LeafValue>, rule: Reduction) -> Info {
        Info::Leaf(Leaf::new(value, rule))
    }

    /// A tree of these children; of two with the same key the later one stays.
    pub fn tree<K: Into<String>, V: Into<Info>>(children: impl IntoIterator<Item = (K, V)>) -> Info {
        Info::Tree(children.into_iter().map(|(key, info)| (key.into(), info.into())).collect())
    }

    /// The node at `path`: keys or list indices, joined by dots.
    pub fn get(&self, path: &str) -> Option<&Info> {
        path.split('.').try_fold(self, |info, key| match info {
            Info::Tree(children) => children.get(key),
            Info::List(items) => items.get(key.parse::<usize>().ok()?),
            Info::None | Info::Leaf(_) => None,
        })
    }

    /// The number at `path`.
    pub fn number(&self, path: &str) -> Option<f64> {
        match self.get(path)? {
            Info::Leaf(leaf) => leaf.value().as_number(),
            Info::None | Info::Tree(_) | Info::List(_) => None,
        }
    }

    /// The tree as JSON; missing and non-finite values become null.
    pub fn to_json(&self) -> Value {
        match self {
            Info::None => Value::Null,
            Info::Leaf(leaf) => leaf.value().to_json(),
            Info::Tree(children) => {
                Value::Object(children.iter().map(|(key, info)| (key.clone(), info.to_json())).collect())
            }
            Info::List(items) => items.iter().map(Info::to_json).collect(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Info::None => "none",
            Info::Leaf(_) => "a leaf",
            Info::Tree(_) => "a tree",
            Info::List(_) => "a list",
        }
    }
}

impl<V: Into<LeafValue>> From<V> for Info {
    fn from(value: V) -> Info {
        Info::leaf(value, Reduction::ByName)
    }
}

/// The `learner_stats` of a result, or else those of its policies by name, as RLlib 1.x's
/// `get_learner_stats`: policies without `learner_stats` are left out.
///
/// ```
/// use pronk_metrics::{Info, learner_stats};
///
/// let stats = Info::tree([("vf_loss", 1.0)]);
/// let single = Info::tree([("learner_stats", stats.clone()), ("td_error", 3.0.into())]);
/// assert_eq!(learner_stats(&single), stats);
/// let multi = Info::tree([("p0", single), ("batch_count", 500.0.into())]);
/// assert_eq!(learner_stats(&multi), Info::tree([("p0", stats)]));
/// ```
pub fn learner_stats(grad_info: &Info) -> Info {
    let Info::Tree(children) = grad_info else {
        return Info::Tree(InfoTree::new());
    };
    if let Some(own) = children.get(LEARNER_STATS) {
        return own.clone();
    }
    let of_policies = children.iter().filter_map(|(policy, info)| match info {
        Info::Tree(children) => Some((policy.clone(), children.get(LEARNER_STATS)?.clone())),
        Info::None | Info::Leaf(_) | Info::List(_) => None,
    });
    Info::Tree(of_policies.collect())
}

const LEARNER_STATS: &str = "learner_stats";

/// A key beside the policies in RLlib's results that is no policy.
const BATCH_COUNT: &str = "batch_count";

#[cfg(test)]
mod tests;
