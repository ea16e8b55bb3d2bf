//! Requests for the state of a running learner.

use std::time::Duration;

use pronk_buffer::CannotSave;
use pronk_metrics::ByPolicy;

use super::saved::{CutStorage, LearnerCut};
use crate::LearnerState;
use crate::sync::Instant;
use crate::sync::channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};

/// How long a waiting learner may leave a request unanswered.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_millis(50);

/// What a running learner is asked for, and the channel for the answer.
pub(super) enum Request {
    /// The learner alone.
    State(Sender<ByPolicy<LearnerState>>),
    /// Everything on its side of the run, for a checkpoint.
    Cut { number: u64, storage: CutStorage, reply: Sender<Result<LearnerCut, CannotSave>> },
}

/// Why a running learner did not return its state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Its current pass takes longer.
    #[error("the learner did not finish its pass within {waited:?}; wait longer, or ask for smaller train batches")]
    TimedOut {
        /// The deadline.
        waited: Duration,
    },
    /// It has ended; joining it returns the learner.
    #[error("the learner has ended; join it to get its state")]
    Ended,
    /// A source of train batches cannot be saved.
    #[error("{why}")]
    CannotSave {
        /// Why.
        why: String,
    },
    /// `Learner::save` panicked on the asking thread: in an inline run, or after the learner's thread had
    /// ended.
    #[error("the learner panicked when asked for its state; see the panic on stderr, and mend `Learner::save`")]
    Panicked,
}

/// The asking end.
#[derive(Debug)]
pub(super) struct StateRequests(Sender<Request>);

/// Both ends; the loop answers on the second.
pub(super) fn state_requests() -> (StateRequests, Receiver<Request>) {
    // A rendezvous channel: no request can be stranded in it when the loop ends.
    let (sender, receiver) = bounded(0);
    (StateRequests(sender), receiver)
}

/// How long an asker waits before it wakes the learner again.
const WAKE_EVERY: Duration = Duration::from_millis(2);

impl StateRequests {
    /// Asks for what `request` makes of the channel of the answer. `wake` ends a wait of the learner early.
    pub(super) fn ask<T>(
        &self,
        deadline: Duration,
        wake: impl Fn(),
        request: impl FnOnce(Sender<T>) -> Request,
    ) -> Result<T, StateError> {
        let began = Instant::now();
        let (reply, answer) = bounded(1);
        let mut request = request(reply);
        loop {
            wake();
            let left = deadline.saturating_sub(began.elapsed());
            match self.0.send_timeout(request, left.min(WAKE_EVERY)) {
                Ok(()) => break,
                Err(SendTimeoutError::Timeout(_)) if left.is_zero() => {
                    return Err(StateError::TimedOut { waited: deadline });
                }
                Err(SendTimeoutError::Timeout(unsent)) => request = unsent,
                Err(SendTimeoutError::Disconnected(_)) => return Err(StateError::Ended),
            }
        }
        answer.recv_timeout(deadline.saturating_sub(began.elapsed())).map_err(|error| match error {
            RecvTimeoutError::Timeout => StateError::TimedOut { waited: deadline },
            RecvTimeoutError::Disconnected => StateError::Ended,
        })
    }
}
