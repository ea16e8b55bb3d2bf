use std::sync::Arc;

/// The name of a policy; cloning it copies a pointer.
pub type PolicyId = Arc<str>;

/// The name of the only policy of a single-agent run.
pub const DEFAULT_POLICY: &str = "default_policy";

/// [`DEFAULT_POLICY`] as a [`PolicyId`].
///
/// ```
/// assert_eq!(&*pronk_metrics::default_policy(), "default_policy");
/// ```
pub fn default_policy() -> PolicyId {
    PolicyId::from(DEFAULT_POLICY)
}
