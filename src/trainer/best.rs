//! [`Best`]: the best policy of a run, in memory and on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk_metrics::ByPolicy;

use crate::checkpoint::{Checkpoint, CheckpointError, Score, save_all};

/// The folder of the best policy, below that of the run's checkpoints.
const FOLDER: &str = "best";

/// The best policy of a run: the one with the highest mean return in an evaluation, the earliest of equals.
/// With several agents these are all policies that played, each with the score.
#[derive(Default)]
pub(super) struct Best {
    /// Where it is saved, if the run saves checkpoints.
    dir: Option<PathBuf>,
    score: Option<Score>,
    /// Missing in a resumed run whose folder has lost it.
    kept: Option<Arc<ByPolicy<Checkpoint>>>,
    /// Whether it is on disk, as far as it has to be.
    is_saved: bool,
}

impl Best {
    /// Of a run that saves below `dir`, and that goes on from a checkpoint in `from` which knows of this best
    /// score.
    pub(super) fn of(dir: Option<&Path>, from: Option<&Path>, score: Option<Score>) -> Self {
        let dir = dir.map(|dir| dir.join(FOLDER));
        // A folder of which the checkpoint does not know may be of an older run.
        let Some(known) = score else { return Self { dir, is_saved: true, ..Self::default() } };
        let found = from.map(|from| Checkpoint::load_all(from.join(FOLDER)));
        let kept = found.and_then(|found| {
            found.inspect_err(|error| tracing::warn!(%error, "the best policy of the resumed run is lost")).ok()
        });
        // The killed process may have found a better one after the checkpoint.
        let newer = kept.as_ref().and_then(score_of).filter(|newer| newer.return_mean > known.return_mean);
        let score = newer.or(Some(known));
        let kept = kept.filter(|kept| score_of(kept) == score).map(Arc::new);
        let on_disk = |dir: &PathBuf| Checkpoint::load_all(dir).is_ok_and(|there| score_of(&there) == score);
        let is_saved = kept.is_none() || dir.as_ref().is_none_or(on_disk);
        Self { dir, score, kept, is_saved }
    }

    pub(super) fn score(&self) -> Option<Score> {
        self.score
    }

    pub(super) fn kept(&self) -> Option<Arc<ByPolicy<Checkpoint>>> {
        self.kept.clone()
    }

    pub(super) fn is_beaten_by(&self, return_mean: f64) -> bool {
        self.score.is_none_or(|best| return_mean > best.return_mean)
    }

    /// Keeps this one instead.
    pub(super) fn keep(&mut self, policies: Arc<ByPolicy<Checkpoint>>) {
        (self.score, self.is_saved) = (score_of(&policies), false);
        self.kept = Some(policies);
    }

    /// Whether it is to be saved, be it that the last try has failed.
    pub(super) fn is_unsaved(&self) -> bool {
        !self.is_saved && self.dir.is_some()
    }

    /// Saves it, unless it is.
    ///
    /// *Blocks* on the disk.
    pub(super) fn save(&mut self) -> Result<(), CheckpointError> {
        if let (Some(dir), Some(kept), false) = (&self.dir, &self.kept, self.is_saved) {
            save_all(&**kept, dir)?;
        }
        self.is_saved = true;
        Ok(())
    }
}

/// The score, which is the same for all policies that played.
pub(super) fn score_of(policies: &ByPolicy<Checkpoint>) -> Option<Score> {
    policies.values().next().and_then(|one| one.score)
}

#[cfg(test)]
mod tests;
