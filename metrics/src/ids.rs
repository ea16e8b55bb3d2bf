use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The name of a policy; cloning it copies a pointer.
pub type PolicyId = Arc<str>;

/// Something for each policy, in the order of their names. A single-agent run has one policy,
/// [`DEFAULT_POLICY`].
pub type ByPolicy<T> = BTreeMap<PolicyId, T>;

/// The name of the only policy of a single-agent run.
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
