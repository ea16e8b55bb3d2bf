//! Checkpoints of a running or ended trainer.

use std::path::Path;

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

    /// The last checkpoint of the run, as it ends: exact if everything rests, else without the positions of
    /// workers. One that is not exact does not take the place of an exact one.
    pub(super) fn save_last(&mut self) {
        let Some(saves) = &self.saves else { return };
        let is_saved = saves.iteration == Some(self.iterations);
        let rests = self.rests() && self.iteration_is_complete();
        if is_saved || (self.rests() && !rests && saves.iteration.is_some()) {
            return;
        }
        let is_running = self.engine.as_ref().is_some_and(|engine| !engine.outqueue().is_closed());
        let Some(result) = self.last.clone().filter(|_| is_running) else { return };
        if let Some(cut) = self.cut() {
            self.save_cut(cut, &result);
        }
    }

    /// The last checkpoint of a run whose learner has ended well, if none was taken since the last result.
    pub(super) fn save_ended(&mut self, last: Option<Box<LearnerCut>>) {
        let is_saved = |saves: &Saves| saves.iteration == Some(self.iterations);
        let is_needed = self.saves.as_ref().is_some_and(|saves| !is_saved(saves));
        let has_exact = self.rests() && self.saves.as_ref().is_some_and(|saves| saves.iteration.is_some());
        let (Some(cut), Some(result), true) = (last, self.last.clone(), is_needed) else { return };
        // A run that ended at its limit is complete; one that failed goes on from where it was exact.
        if !has_exact || self.steps.limit_reached() {
            self.wait_for_saves();
            self.save_cut(Cut::of(*cut), &result);
        }
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
