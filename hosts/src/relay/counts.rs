//! What a relay counts.

use crate::sync::atomic::{AtomicU64, Ordering};

/// What a relay has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStatus {
    /// Versions that it fetched, and their bytes.
    pub versions: u64,
    /// Bytes of these.
    pub fetched_bytes: u64,
    /// Pieces that it sent to hosts.
    pub pieces: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Fetches that failed: hosts then asked the learner.
    pub failed: u64,
}

/// The same, while it counts.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) versions: AtomicU64,
    pub(super) fetched_bytes: AtomicU64,
    pub(super) pieces: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Counts {
    pub(super) fn read(&self) -> RelayStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Self { versions, fetched_bytes, pieces, sent_bytes, failed } = self;
        RelayStatus {
            versions: read(versions),
            fetched_bytes: read(fetched_bytes),
            pieces: read(pieces),
            sent_bytes: read(sent_bytes),
            failed: read(failed),
        }
    }
}
