//! When and what a trainer saves.

use std::path::Path;
use std::time::Duration;

use super::handle::Trainer;
use super::periodic::Periodic;
use super::run::{self, Whole};
use crate::checkpoint::{CheckpointError, save_all};

impl Trainer {
    /// Writes weights and optimiser into `dir`: see [`Run::save`](crate::Run::save). While the run goes on, it goes on; after
    /// a failure, it writes what of them is whole, as [`Run::whole`](crate::Run::whole) says.
    ///
    /// *Blocks* until the learner has finished the pass it is in, and on the disk.
    ///
    /// # Errors
    /// The learner takes too long, nothing is whole, or the folder could not be written.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let Some(engine) = &self.engine else {
            return run::save_whole(&self.remains.checkpoints, dir.as_ref());
        };
        let state = engine.learner_state(self.finish_deadline);
        let state = state.map_err(|error| CheckpointError::NoState { reason: error.to_string() })?;
        save_all(&self.spec.checkpoints(&self.config, state), dir.as_ref())
    }

    /// Saves into `dir` as [`save`](Self::save) does: at the end of the first iteration in which `every` has passed
    /// since the last time, and once more as the run ends, by a limit, [`finish`](Self::finish), a signal or a failure.
    ///
    /// What it writes has everything that learning goes on with. Where a failure leaves the weights alone
    /// whole ([`Whole::PublishedWeights`]), the checkpoint before stays; save those into another folder.
    /// Dropping a trainer saves nothing. A second call replaces the first.
    ///
    /// A save that fails does not end the run: each cause is logged once, is in the results under
    /// `checkpoints_failed` and in [`Run::checkpoint_failures`](crate::Run::checkpoint_failures), and the next is tried when it is due.
    ///
    /// *Blocks*: nothing here; an iteration that saves takes as long as [`save`](Self::save) besides, while workers and
    /// learner go on.
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
        self.periodic = Some(Periodic::new(every, dir.as_ref().to_owned()));
    }

    /// Saves if the time has come and the learner is there to be asked.
    pub(super) fn save_when_due(&mut self) {
        let is_due = self.periodic.as_ref().is_some_and(Periodic::is_due);
        if is_due && self.engine.as_ref().is_some_and(|engine| !engine.outqueue().is_closed()) {
            self.save_now();
        }
    }

    /// Saves what a run that has ended left, if it is complete: weights alone must not take the place of
    /// more.
    pub(super) fn save_last(&mut self) {
        if self.remains.whole == Whole::Learner {
            self.save_now();
        }
    }

    fn save_now(&mut self) {
        let Some(mut periodic) = self.periodic.take() else { return };
        periodic.save(|dir| self.save(dir));
        self.periodic = Some(periodic);
    }
}
