use std::collections::BTreeMap;
use std::time::Duration;

use pronk_buffer::Closed;

use crate::pool::{Answer, Arrivals, EnvPool};
use crate::sync::Instant;

/// The answers of a pool, as the source of [`Gather::collect`](crate::Gather::collect).
pub(super) struct Waiting<'a> {
    pub(super) groups: &'a mut dyn EnvPool,
    /// The group to wait for; `None` takes any.
    pub(super) turn: Option<usize>,
    pub(super) early: &'a mut BTreeMap<usize, Answer>,
    pub(super) began: Instant,
}

impl Arrivals for Waiting<'_> {
    type Answer = Answer;
    type Error = Closed;

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn next(&mut self, deadline: Option<Duration>) -> Result<Option<Answer>, Closed> {
        // Without turns, those that arrived while a checkpoint waited for all.
        let early = match self.turn {
            Some(turn) => self.early.remove(&turn),
            None => self.early.pop_first().map(|(_, answer)| answer),
        };
        if let Some(answer) = early {
            return Ok(Some(answer));
        }
        loop {
            let timeout = deadline.map(|deadline| deadline.saturating_sub(self.now()));
            let Some(answer) = self.groups.recv(timeout)? else { return Ok(None) };
            if self.turn.is_none_or(|turn| turn == answer.group) {
                return Ok(Some(answer));
            }
            self.early.insert(answer.group, answer);
        }
    }
}
