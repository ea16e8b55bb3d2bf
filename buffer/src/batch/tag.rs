use serde::{Deserialize, Serialize};

/// Identifies a fragment, from its first step to the entry of the ledger that settles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag {
    /// How many times the run was resumed before it.
    pub life: u64,
    /// The rollout worker's number.
    pub worker: u32,
    /// The worker's restarts before it.
    pub incarnation: u32,
    /// How many fragments the worker completed before it, its restarts and replacements included.
    pub slot: u64,
    /// The version of the weights that it began with.
    pub version: u64,
}
