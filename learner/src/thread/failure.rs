//! Failures of the learner.

use std::any::Any;
use std::time::Duration;

use pronk_buffer::NextError;

use super::batch_name::BatchName;
use super::{Diagnosis, Quarantine};
use crate::LearnError;

/// Why the learner loop failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnerLoopError {
    /// The learner returned an error.
    #[error("update {update} failed on {batch}: {source}; its steps are counted as lost under `learner_error`")]
    Learn {
        /// The number of the update in this run, from 1.
        update: u64,
        /// Its data.
        batch: BatchName,
        /// The learner's error.
        source: Box<LearnError>,
    },
    /// The learner panicked.
    #[error("update {update} panicked on {batch}: {message}; its steps are counted as lost under `learner_panic`")]
    Panicked {
        /// The number of the update in this run, from 1.
        update: u64,
        /// Its data.
        batch: BatchName,
        /// The panic's message.
        message: String,
    },
    /// Too many consecutive batches were quarantined.
    #[error(
        "{in_a_row} batches in a row were quarantined, the limit of `max_consecutive_quarantined`; the weights are \
         those of the last finite update; lower the learning rate or look for values that grow without bound. The \
         last one: {last}"
    )]
    Quarantined {
        /// Their number.
        in_a_row: u32,
        /// The last of them.
        last: Box<Quarantine>,
    },
    /// The journal found a reason to end the run.
    #[error("at update {update}: {source}")]
    Journal {
        /// Updates of the run.
        update: u64,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No train batch came in time, under `on_starved: fail`.
    #[error("the learner starved: {0}")]
    Starved(Box<Diagnosis>),
    /// The source of train batches failed.
    #[error("no train batch after {passes} passes: {source}")]
    Source {
        /// Completed passes.
        passes: u64,
        /// The source's error.
        source: NextError,
    },
}

/// A failed thread of the learner.
#[derive(Debug, thiserror::Error)]
#[error("thread `{thread}` {cause}")]
pub struct LearnerFailure {
    /// Name of the thread.
    pub thread: String,
    /// The cause.
    pub cause: LearnerFailureCause,
}

/// Why the learner thread failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnerFailureCause {
    /// Its loop ended with an error.
    #[error("failed: {0}")]
    Failed(#[source] LearnerLoopError),
    /// It panicked outside the learner: a bug in a source, a clock or the loop itself.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The operating system refused the thread.
    #[error("could not be started: {0}; lower the number of threads or raise the limit of the process")]
    NotStarted(#[source] std::io::Error),
    /// It did not end in time and is abandoned.
    #[error(
        "did not end within {waited:?}: it has been in state `{state}` for {since:?}, and is abandoned with its newest \
         updates; lower `train_batch_size` or `sgd_minibatch_size` if a pass takes as long as that"
    )]
    NotJoined {
        /// The deadline.
        waited: Duration,
        /// Its state.
        state: &'static str,
        /// For how long.
        since: Duration,
    },
}

/// The text of a caught panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
