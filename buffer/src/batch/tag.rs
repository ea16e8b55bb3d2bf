/// Which fragment this is: it identifies samples in the ledger and orders them in a deterministic run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Number of the rollout worker.
    pub worker: u32,
    /// How often that worker was restarted before.
    pub incarnation: u32,
    /// Number of the fragment within the incarnation.
    pub sequence: u64,
}
