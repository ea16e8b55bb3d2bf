use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The name of a policy; cheap to clone.
pub type PolicyId = Arc<str>;

/// A map by policy. Single-agent runs have one policy, [`DEFAULT_POLICY`].
pub type ByPolicy<T> = BTreeMap<PolicyId, T>;

/// The policy of a single-agent run.
pub const DEFAULT_POLICY: &str = "default_policy";

/// [`DEFAULT_POLICY`] as a [`PolicyId`], made once in a process.
///
/// ```
/// assert_eq!(&*pronk_metrics::default_policy(), "default_policy");
/// ```
pub fn default_policy() -> PolicyId {
    static ID: LazyLock<PolicyId> = LazyLock::new(|| PolicyId::from(DEFAULT_POLICY));
    PolicyId::clone(&ID)
}
