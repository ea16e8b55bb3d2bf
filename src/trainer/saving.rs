//! Checkpoints of a running or ended trainer.

use std::path::Path;
use std::time::Duration;

use super::handle::Trainer;
use super::periodic::Periodic;
use super::run::{self, Whole};
use crate::checkpoint::{CheckpointError, save_all};

impl Trainer {
    /// Saves weights and optimiser into `dir`, as [`Run::save`](crate::Run::save) does, while the run
    /// continues. After a failure it saves what is intact: see [`Run::whole`](crate::Run::whole).
    ///
    /// *Blocks* until the learner has finished its pass, and on the disk.
    ///
    /// # Errors
    /// The learner missed its deadline, nothing is intact, or the folder could not be written.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let Some(engine) = &self.engine else {
            return run::save_whole(&self.remains.checkpoints, dir.as_ref());
        };
        let state = engine.learner_state(self.finish_deadline);
        let state = state.map_err(|error| CheckpointError::NoState { reason: error.to_string() })?;
        let published = self.weights.load();
        save_all(&self.spec.checkpoints(&self.config, state, &published.moments), dir.as_ref())
    }

    /// Saves into `dir`, as [`save`](Self::save) does, after the first iteration in which `every` has passed
    /// since the last save, and at the end of the run.
    ///
    /// It saves complete learners only: if a failure leaves just the weights ([`Whole::PublishedWeights`]),
    /// the previous checkpoint stays. Dropping a trainer saves nothing. A second call replaces the first.
    ///
    /// A failed save does not end the run: each cause is logged once and is in the results under
    /// `checkpoints_failed` and in [`Run::checkpoint_failures`](crate::Run::checkpoint_failures); the next
    /// save is tried when due.
    ///
    /// *Blocks* nothing itself; an iteration that saves takes longer by [`save`](Self::save).
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

    /// Saves if due and the learner is running.
    pub(super) fn save_when_due(&mut self) {
        let is_due = self.periodic.as_ref().is_some_and(Periodic::is_due);
        if is_due && self.engine.as_ref().is_some_and(|engine| !engine.outqueue().is_closed()) {
            self.save_now();
        }
    }

    /// Saves the ended run if its learner is complete: weights alone must not replace a complete checkpoint.
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
