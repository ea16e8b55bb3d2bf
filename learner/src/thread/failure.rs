//! How the learner ends when it does not end well.

use std::any::Any;
use std::time::Duration;

use pronk_buffer::NextError;

use super::batch_name::BatchName;
use super::{Diagnosis, Quarantine};
use crate::LearnError;

/// Why the learner loop ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnerLoopError {
    /// The learner returned an error.
    #[error("update {update} failed on {batch}: {source}; its steps are counted as lost under `learner_error`")]
    Learn {
        /// Which update of this run was being computed, counted from 1.
        update: u64,
        /// Which data it was computed from.
        batch: BatchName,
        /// What the learner said.
        source: Box<LearnError>,
    },
    /// The learner panicked.
    #[error("update {update} panicked on {batch}: {message}; its steps are counted as lost under `learner_panic`")]
    Panicked {
        /// Which update of this run was being computed, counted from 1.
        update: u64,
        /// Which data it was computed from.
        batch: BatchName,
        /// The panic's message.
        message: String,
    },
    /// Too many batches in a row had to be taken out of the run.
    #[error(
        "{in_a_row} batches in a row were quarantined, the limit of `max_consecutive_quarantined`; the weights are \
         those of the last finite update; lower the learning rate or look for values that grow without bound. The \
         last one: {last}"
    )]
    Quarantined {
        /// How many in a row.
        in_a_row: u32,
        /// The last of them.
        last: Box<Quarantine>,
    },
    /// No train batch came in time, and the run was told to end then.
    #[error("the learner starved: {0}")]
    Starved(Box<Diagnosis>),
    /// The source of train batches failed.
    #[error("no train batch after {passes} passes: {source}")]
    Source {
        /// Passes completed before.
        passes: u64,
        /// What the source said.
        source: NextError,
    },
}

/// A thread of the learner that failed: its name and why.
#[derive(Debug, thiserror::Error)]
#[error("thread `{thread}` {cause}")]
pub struct LearnerFailure {
    /// Name of the thread.
    pub thread: String,
    /// What happened to it.
    pub cause: LearnerFailureCause,
}

/// What happened to the learner thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnerFailureCause {
    /// Its loop ended with an error.
    #[error("failed: {0}")]
    Failed(#[source] LearnerLoopError),
    /// It panicked outside the learner, which is a defect of a source, a clock or of the loop itself.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The operating system refused the thread.
    #[error("could not be started: {0}; lower the number of threads or raise the limit of the process")]
    NotStarted(#[source] std::io::Error),
    /// It did not end in time; it is abandoned and ends with the process.
    #[error(
        "did not end within {waited:?}: it has been in state `{state}` for {since:?}, and is left behind with its newest \
         updates; lower `train_batch_size` or `sgd_minibatch_size` if a pass takes as long as that"
    )]
    NotJoined {
        /// The deadline that passed.
        waited: Duration,
        /// The state it is in.
        state: &'static str,
        /// Since when.
        since: Duration,
    },
}

/// The text of a caught panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
