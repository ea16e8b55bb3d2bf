use std::time::Duration;

use pronk_buffer::{Closed, InqueueReceiver, PopError};

use crate::env::poll_interval;
use crate::sync::Instant;

/// What ended a wait for groups.
pub(crate) enum Waited<T> {
    Answer(T),
    /// It is time to check for hangs.
    CheckForHangs,
    TimedOut,
}

/// The schedule of checks for hangs. Checks also happen while other groups keep answering.
pub(crate) struct HangChecks {
    /// `None` without a timeout.
    every: Option<Duration>,
    last: Instant,
}

impl HangChecks {
    /// Checks for calls that take longer than the timeout.
    pub(crate) fn new(env_hang_timeout: Option<Duration>) -> Self {
        Self { every: env_hang_timeout.map(poll_interval), last: Instant::now() }
    }

    /// Waits for an answer until the next check or the deadline.
    pub(crate) fn wait<T>(
        &mut self,
        answers: &InqueueReceiver<T>,
        deadline: Option<Instant>,
    ) -> Result<Waited<T>, Closed> {
        loop {
            let now = Instant::now();
            if self.are_due(now) {
                return Ok(Waited::CheckForHangs);
            }
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
            let until_look = self.left(now);
            match answers.pop(left.min(until_look)) {
                Ok(answer) => return Ok(Waited::Answer(answer)),
                Err(PopError::Closed) => return Err(Closed(())),
                Err(PopError::TimedOut) if left <= until_look => return Ok(Waited::TimedOut),
                Err(PopError::TimedOut) => {}
            }
        }
    }

    /// Time until the next check.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.every.map_or(Duration::MAX, |every| every.saturating_sub(now - self.last))
    }

    /// Whether a check is due; if so, schedules the next.
    pub(crate) fn are_due(&mut self, now: Instant) -> bool {
        let due = self.left(now).is_zero();
        if due {
            self.last = now;
        }
        due
    }
}
