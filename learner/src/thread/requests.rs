//! Requests for the state of a running learner.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use pronk_metrics::ByPolicy;

use crate::LearnerState;

/// How long a waiting learner may leave a request unanswered.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_millis(50);

/// The channel for the answer.
pub(super) type Reply = Sender<ByPolicy<LearnerState>>;

/// Why a running learner did not return its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// `Learner::save` panicked on the asking thread: in an inline run, or after the learner's thread had
    /// ended.
    #[error("the learner panicked when asked for its state; see the panic on stderr, and mend `Learner::save`")]
    Panicked,
}

/// The asking end.
#[derive(Debug)]
pub(super) struct StateRequests(Sender<Reply>);

/// Both ends; the loop answers on the second.
pub(super) fn state_requests() -> (StateRequests, Receiver<Reply>) {
    // A rendezvous channel: no request can be stranded in it when the loop ends.
    let (sender, receiver) = bounded(0);
    (StateRequests(sender), receiver)
}

impl StateRequests {
    pub(super) fn ask(&self, deadline: Duration) -> Result<ByPolicy<LearnerState>, StateError> {
        let began = Instant::now();
        let (reply, state) = bounded(1);
        self.0.send_timeout(reply, deadline).map_err(|error| match error {
            SendTimeoutError::Timeout(_) => StateError::TimedOut { waited: deadline },
            SendTimeoutError::Disconnected(_) => StateError::Ended,
        })?;
        state.recv_timeout(deadline.saturating_sub(began.elapsed())).map_err(|error| match error {
            RecvTimeoutError::Timeout => StateError::TimedOut { waited: deadline },
            RecvTimeoutError::Disconnected => StateError::Ended,
        })
    }
}
