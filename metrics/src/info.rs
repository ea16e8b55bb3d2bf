//! What an update found out: trees of statistics whose leaves know how they are merged.

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

/// A tree of statistics, as one update of one policy returns it.
///
/// Keys keep their order. A leaf made from a plain number or vector is merged by the rule of its name (see
/// [`Reduction::ByName`]); [`Info::leaf`] makes one with a rule of its own.
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
    /// A statistic without a value; when the first of several is none, so is their merger.
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
    /// A leaf with a rule of its own.
    pub fn leaf(value: impl Into<LeafValue>, rule: Reduction) -> Info {
        Info::Leaf(Leaf::new(value, rule))
    }

    /// A tree of these children; of two with one key the later counts.
    pub fn tree<K: Into<String>, V: Into<Info>>(children: impl IntoIterator<Item = (K, V)>) -> Info {
        Info::Tree(children.into_iter().map(|(key, info)| (key.into(), info.into())).collect())
    }

    /// What is at `path`: keys, or places in a list, joined by dots.
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

    /// The tree as JSON; what is none, NaN or infinite becomes null.
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

/// The `learner_stats` of a result: its own, or else those of its policies by name.
///
/// As RLlib 1.x's `get_learner_stats`: whatever has no `learner_stats` is left out, so the tree may be empty.
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

/// An entry beside the policies in RLlib's results that is no policy.
const BATCH_COUNT: &str = "batch_count";

#[cfg(test)]
mod tests;
