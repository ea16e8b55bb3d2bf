//! Checkpoints that a run writes by itself.

use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Trainer;
use super::run::Whole;
use crate::checkpoint::CheckpointError;

/// A folder that the run saves into.
pub(super) struct Periodic {
    every: Duration,
    dir: PathBuf,
    /// When it was last tried.
    last: Instant,
    /// The first failure of each cause.
    pub(super) failures: Vec<CheckpointError>,
}

impl Trainer {
    /// Saves into `dir` as [`save`](Self::save) does: at the end of the first iteration in which `every` has passed since the last
    /// time, and once more as the run ends, by a limit, [`finish`](Self::finish), a signal or a failure.
    ///
    /// What it writes has everything that learning goes on with. Where a failure leaves the weights alone whole
    /// ([`Whole::PublishedWeights`]), the checkpoint before stays; save those into another folder. Dropping a trainer saves
    /// nothing. A second call replaces the first.
    ///
    /// A save that fails does not end the run: each cause is logged once, is in the results under `checkpoints_failed` and in
    /// [`Run::checkpoint_failures`](crate::Run::checkpoint_failures), and the next is tried when it is due.
    ///
    /// *Blocks*: nothing here; an iteration that saves takes as long as [`save`](Self::save) besides, while workers and learner go
    /// on.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    /// use pronk::Checkpoint;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let mut trainer = Trainer::new(config, |_: &EnvContext| CartPole::new())?;
    /// trainer.checkpoint_every(Duration::from_secs(60), folder.path());
    /// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert!(run.checkpoint_failures.is_empty());
    /// assert!(Checkpoint::load(folder.path())?.state.updates > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint_every(&mut self, every: Duration, dir: impl AsRef<Path>) {
        let dir = dir.as_ref().to_owned();
        self.periodic = Some(Periodic { every, dir, last: Instant::now(), failures: Vec::new() });
    }

    /// Saves if the time has come and the learner is there to be asked.
    pub(super) fn save_when_due(&mut self) {
        let is_due = self.periodic.as_ref().is_some_and(|periodic| periodic.last.elapsed() >= periodic.every);
        if is_due && self.engine.as_ref().is_some_and(|engine| !engine.outqueue().is_closed()) {
            self.save_now();
        }
    }

    /// Saves what a run that has ended left, if it is complete: weights alone must not take the place of more.
    pub(super) fn save_last(&mut self) {
        if self.remains.whole == Whole::Learner {
            self.save_now();
        }
    }

    fn save_now(&mut self) {
        let Some(mut periodic) = self.periodic.take() else { return };
        if let Err(error) = self.save(&periodic.dir) {
            periodic.note(error);
        }
        periodic.last = Instant::now();
        self.periodic = Some(periodic);
    }
}

impl Periodic {
    fn note(&mut self, error: CheckpointError) {
        if self.failures.iter().all(|known| !is_same_cause(known, &error)) {
            tracing::warn!(%error, "a periodic checkpoint could not be saved; the run goes on");
            self.failures.push(error);
        }
    }
}

/// Whether two failures differ in nothing but the file: every checkpoint has files of other names.
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
