//! [`Periodic`]: periodic checkpoints.

use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::checkpoint::CheckpointError;

/// The folder and schedule of periodic checkpoints.
pub(super) struct Periodic {
    every: Duration,
    dir: PathBuf,
    /// The last attempt.
    last: Instant,
    /// The first failure of each cause.
    pub(super) failures: Vec<CheckpointError>,
}

impl Periodic {
    pub(super) fn new(every: Duration, dir: PathBuf) -> Self {
        Self { every, dir, last: Instant::now(), failures: Vec::new() }
    }

    pub(super) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.every
    }

    /// Calls `save` and records its failure.
    pub(super) fn save(&mut self, save: impl FnOnce(&Path) -> Result<(), CheckpointError>) {
        if let Err(error) = save(&self.dir) {
            self.note(error);
        }
        self.last = Instant::now();
    }

    fn note(&mut self, error: CheckpointError) {
        if self.failures.iter().all(|known| !is_same_cause(known, &error)) {
            tracing::warn!(%error, "a periodic checkpoint could not be saved; the run goes on");
            self.failures.push(error);
        }
    }
}

/// Whether two failures differ only in the file, whose name changes with every checkpoint.
fn is_same_cause(one: &CheckpointError, other: &CheckpointError) -> bool {
    use CheckpointError::{Io, NoState};
    match (one, other) {
        (Io { doing, cause, .. }, Io { doing: other_doing, cause: other_cause, .. }) => {
            doing == other_doing && cause.kind() == other_cause.kind()
        }
        (NoState { reason }, NoState { reason: other_reason }) => reason == other_reason,
        _ => discriminant(one) == discriminant(other),
    }
}
