use std::time::{Duration, Instant};

use pronk_buffer::{Closed, InqueueReceiver, PopError};

use crate::env::poll_interval;

/// What came first while groups were waited for.
pub(crate) enum Waited<T> {
    Answer(T),
    /// Time to look whether some hang.
    Look,
    TimedOut,
}

/// When groups are looked at next, whether they hang. They are looked at while others answer, too.
pub(crate) struct Looks {
    /// `None` where they may hang for ever.
    every: Option<Duration>,
    last: Instant,
}

impl Looks {
    /// For groups that hang after so long.
    pub(crate) fn new(env_hang_timeout: Option<Duration>) -> Self {
        Self { every: env_hang_timeout.map(poll_interval), last: Instant::now() }
    }

    /// Waits for an answer, until it is time for a look or `deadline` is over.
    pub(crate) fn wait<T>(
        &mut self,
        answers: &InqueueReceiver<T>,
        deadline: Option<Instant>,
    ) -> Result<Waited<T>, Closed> {
        loop {
            let now = Instant::now();
            if self.are_due(now) {
                return Ok(Waited::Look);
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

    /// How long until the next look.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.every.map_or(Duration::MAX, |every| every.saturating_sub(now - self.last))
    }

    /// Whether it is time for a look, which is then the last one.
    pub(crate) fn are_due(&mut self, now: Instant) -> bool {
        let due = self.left(now).is_zero();
        if due {
            self.last = now;
        }
        due
    }
}
