use std::collections::VecDeque;
use std::time::Duration;

use super::turns::Turns;
use crate::inqueue::{PopError, receive};
use crate::sync::Instant;
use crate::sync::channel::Receiver;
use crate::{CannotSave, MultiAgentBatch, NextError, SavedSource, ShutdownToken, Source};

/// Takes fragments from the workers' lanes in the order of their turns.
///
/// The turns of a worker that gives up pass on to the others. With a limit, it closes once the fragments of
/// all turns are taken and the workers have ended.
#[derive(Debug)]
pub struct InOrder<W> {
    lanes: Vec<Receiver<MultiAgentBatch>>,
    order: Receiver<usize>,
    /// The worker whose fragment is awaited.
    turn: Option<usize>,
    /// `None` if a recorded run is repeated.
    turns: Option<Turns<W>>,
    token: ShutdownToken,
    /// Fragments that were put in order before they were asked for, for a checkpoint or out of one.
    ordered: VecDeque<MultiAgentBatch>,
}

impl<W> InOrder<W> {
    pub(super) fn new(
        lanes: Vec<Receiver<MultiAgentBatch>>,
        order: Receiver<usize>,
        turns: Option<Turns<W>>,
        token: ShutdownToken,
    ) -> Self {
        Self { lanes, order, turn: None, turns, token, ordered: VecDeque::new() }
    }

    /// Returns these fragments first, which a checkpoint held.
    #[must_use]
    pub fn after(mut self, fragments: Vec<MultiAgentBatch>) -> Self {
        self.ordered = fragments.into();
        self
    }

    /// The worker whose turn is next. After the last turn it waits until all workers have ended.
    fn next_turn(&self, left: impl Fn() -> Duration) -> Result<usize, NextError> {
        let Some(turns) = &self.turns else { return Ok(receive(&self.order, &self.token, left())?) };
        turns.end_with_the_last();
        let next = receive(&self.order, &self.token, left());
        if matches!(next, Err(PopError::Closed)) {
            // Workers book the steps that are in no fragment before they drop their ends. What the last
            // result counts must not depend on how fast they are.
            let is_open = |lane| !matches!(receive(lane, &self.token, left()), Err(PopError::Closed));
            if self.lanes.iter().any(is_open) {
                return Err(NextError::TimedOut);
            }
        }
        Ok(next?)
    }

    /// The fragment of the turn was taken.
    fn taken(&mut self) {
        self.turn = None;
        if let Some(turns) = &self.turns {
            turns.taken();
        }
    }
}

impl<W> Source for InOrder<W> {
    type Item = MultiAgentBatch;

    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        if self.token.is_shut_down() {
            return Err(NextError::Closed);
        }
        if let Some(fragment) = self.ordered.pop_front() {
            return Ok(fragment);
        }
        let began = Instant::now();
        loop {
            let left = || timeout.saturating_sub(began.elapsed());
            let worker = match self.turn {
                Some(worker) => worker,
                None => {
                    let next = self.next_turn(left)?;
                    *self.turn.insert(next)
                }
            };
            match receive(&self.lanes[worker], &self.token, left()) {
                Ok(fragment) => {
                    self.taken();
                    return Ok(fragment);
                }
                Err(PopError::TimedOut) => return Err(NextError::TimedOut),
                Err(PopError::Closed) if self.token.is_shut_down() => return Err(NextError::Closed),
                // It has given up.
                Err(PopError::Closed) if self.turns.as_ref().is_some_and(|turns| turns.pass_on(worker)) => {
                    self.turn = None;
                }
                Err(PopError::Closed) => return Err(NextError::Closed),
            }
        }
    }

    fn backlog(&self) -> usize {
        self.ordered.len() + self.lanes.iter().map(Receiver::len).sum::<usize>()
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        let queued = self.lanes.iter().flat_map(Receiver::try_iter);
        self.ordered.drain(..).chain(queued).collect()
    }

    fn save(&mut self, _saved: &mut SavedSource, ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        while let Some(worker) = self.turn.take().or_else(|| self.order.try_recv().ok()) {
            let Ok(fragment) = self.lanes[worker].try_recv() else {
                // Its worker has given up, or has not pushed it yet: the fragments behind it wait, too.
                self.turn = Some(worker);
                break;
            };
            self.ordered.push_back(fragment);
            self.taken();
        }
        self.ordered.iter().for_each(ahead);
        Ok(())
    }
}

impl<W> Drop for InOrder<W> {
    /// Ends the workers' waits, and drops the fragments: the channels would keep their storage and tickets
    /// until the last worker is gone.
    fn drop(&mut self) {
        if let Some(turns) = &self.turns {
            turns.end();
        }
        drop(self.drain());
    }
}
