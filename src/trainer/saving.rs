//! Checkpoints of a running or ended trainer.

use std::path::Path;
use std::time::Duration;

use pronk_learner::LearnerCut;

use super::cut::Cut;
use super::handle::Trainer;
use super::run;
use super::saves::Saves;
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

    /// The last checkpoint of a run that can go on exactly, before its threads end.
    pub(super) fn save_last(&mut self) {
        let is_running = self.engine.as_ref().is_some_and(|engine| !engine.outqueue().is_closed());
        // A signal may have ended a fragment in its middle.
        let is_at_rest = self.rests() && !self.shutdown.is_released();
        let is_complete = self.turn_reports.is_none() || self.iteration_is_complete();
        if !is_running || !is_at_rest || !is_complete || !self.is_newer_than_resumed() {
            return;
        }
        self.wait_for_saves();
        if self.saves.as_ref().is_none_or(|saves| saves.newest() == Some((self.iterations, true))) {
            return;
        }
        if let Some(cut) = self.cut() {
            self.save_cut(cut);
        }
    }

    /// The last checkpoint of a run whose threads have ended, without the positions of its workers. It does
    /// not take the place of an exact one, unless the run has reached its limit.
    pub(super) fn save_ended(&mut self, last: Option<Box<LearnerCut>>, restarts: Vec<Duration>) {
        self.wait_for_saves();
        let has_exact = self.saves.as_ref().is_some_and(Saves::is_exact);
        let is_needed = self.saves.is_some() && (!has_exact || self.has_learned_all());
        if let Some(cut) = last.filter(|_| is_needed && self.is_newer_than_resumed()) {
            self.save_cut(Cut::of(*cut, restarts));
        }
    }

    /// Whether there is anything that the checkpoint which the run goes on from does not have.
    fn is_newer_than_resumed(&self) -> bool {
        self.resumed.as_ref().is_none_or(|resumed| self.iterations > resumed.from_iteration)
    }

    /// Waits until the last checkpoint is written.
    pub(super) fn finish_saves(&mut self) {
        if let Some(saves) = &mut self.saves
            && !saves.finish(self.finish_deadline)
        {
            self.remains.not_joined.push("checkpoint".to_owned());
        }
    }

    fn wait_for_saves(&mut self) {
        if let Some(saves) = &self.saves {
            saves.thread().wait(self.finish_deadline);
        }
    }
}
