use std::time::Duration;

use super::rounds::RoundGate;
use super::turns::Turns;
use crate::{CannotSave, NextError, SavedSource, Source};

/// The learner's source under deterministic admission: before each ask for a train batch it waits for the
/// round, and grants the workers the turns of one more batch.
///
/// It is the outermost source, because the learner's asks count and not those of loader threads, which take
/// batches ahead.
#[derive(Debug)]
pub struct Ask<S, W> {
    source: S,
    /// `None` without threads.
    turns: Option<Turns<W>>,
    gate: RoundGate,
    /// Train batches so far.
    batches: u64,
    /// Whether turns were granted for the next one.
    has_asked: bool,
    /// Train batches that return to the minibatch buffer of a resumed run, which had asked for them before.
    returning: usize,
    /// Whether the turns of the first batch were granted when the run began.
    first_is_granted: bool,
}

impl<S: Source, W> Ask<S, W> {
    /// Wraps the source of train batches.
    pub fn new(source: S, turns: Option<Turns<W>>, gate: RoundGate) -> Self {
        Self { source, turns, gate, batches: 0, has_asked: false, returning: 0, first_is_granted: true }
    }

    /// The same for a resumed run, whose first `returning` batches go back into the minibatch buffer. If its
    /// rotation goes on, too, its turns ahead are used.
    #[must_use]
    pub fn resumed(self, returning: usize) -> Self {
        let first_is_granted = self.turns.as_ref().is_none_or(|turns| turns.granted() == 0);
        Self { returning, first_is_granted, ..self }
    }
}

impl<S: Source, W> Source for Ask<S, W> {
    type Item = S::Item;

    fn next(&mut self, timeout: Duration) -> Result<S::Item, NextError> {
        if self.returning > 0 {
            let batch = self.source.next(timeout)?;
            self.returning -= 1;
            return Ok(batch);
        }
        if !self.has_asked {
            self.gate.pass(self.batches, timeout)?;
            if let Some(turns) = self.turns.as_ref().filter(|_| self.batches > 0 || !self.first_is_granted) {
                turns.grant();
            }
            self.has_asked = true;
        }
        let batch = self.source.next(timeout)?;
        self.has_asked = false;
        self.batches += 1;
        self.gate.taken(self.batches);
        Ok(batch)
    }

    fn backlog(&self) -> usize {
        self.source.backlog()
    }

    fn drain(&mut self) -> Vec<S::Item> {
        self.source.drain()
    }

    fn save(&mut self, saved: &mut SavedSource, ahead: &mut dyn FnMut(&S::Item)) -> Result<(), CannotSave> {
        self.source.save(saved, ahead)
    }
}
