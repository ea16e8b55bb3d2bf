/// Identifies a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// The rollout worker's number.
    pub worker: u32,
    /// The worker's restarts before it.
    pub incarnation: u32,
    /// The fragment's number within the incarnation.
    pub sequence: u64,
}
