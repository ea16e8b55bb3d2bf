use std::mem::discriminant;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::checkpoint::CheckpointError;

/// A folder that the run saves into.
pub(crate) struct Periodic {
    pub(super) every: Duration,
    pub(super) dir: PathBuf,
    /// When it was last tried.
    pub(super) last: Instant,
    /// The first failure of each cause.
    pub(super) failures: Vec<CheckpointError>,
}

impl Periodic {
    pub(super) fn note(&mut self, error: CheckpointError) {
        if self.failures.iter().all(|known| !is_same_cause(known, &error)) {
            tracing::warn!(%error, "a periodic checkpoint could not be saved; the run goes on");
            self.failures.push(error);
        }
    }
}

/// Whether two failures differ in nothing but the file: every checkpoint has files of other names.
pub(crate) fn is_same_cause(one: &CheckpointError, other: &CheckpointError) -> bool {
    use CheckpointError::{Io, NoState};
    match (one, other) {
        (Io { doing, cause, .. }, Io { doing: other_doing, cause: other_cause, .. }) => {
            doing == other_doing && cause.kind() == other_cause.kind()
        }
        (NoState { reason }, NoState { reason: other_reason }) => reason == other_reason,
        _ => discriminant(one) == discriminant(other),
    }
}
