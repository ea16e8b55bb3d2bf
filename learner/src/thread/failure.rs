//! How the learner ends when it does not end well.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use pronk_buffer::{BatchError, MultiAgentBatch, NextError, Tag};
use pronk_metrics::PolicyId;

use super::{Diagnosis, Quarantine};
use crate::LearnError;

/// How many fragments of a batch an error names.
const TAGS_NAMED: usize = 4;

/// Why the learner loop cannot go on.
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

/// What made a pass unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NonFinite {
    /// The batch itself held a value that is not finite.
    #[error("the batch of '{policy}' is not finite: {error}")]
    Batch {
        /// The policy whose samples they are.
        policy: PolicyId,
        /// Which value.
        error: BatchError,
    },
    /// The loss or a gradient was not finite; that update was not made. Those that the pass made before it, of other minibatches
    /// or policies, stay.
    #[error("the update is not finite: {0}")]
    Update(LearnError),
}

impl NonFinite {
    /// The reason the batch's steps are counted under in the step ledger.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Batch { .. } => "non_finite_batch",
            Self::Update(_) => "non_finite_loss",
        }
    }
}

/// The fragments a batch was made of, for people who look for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchName(Vec<(PolicyId, Vec<Tag>)>);

impl BatchName {
    pub(crate) fn of(batch: &MultiAgentBatch) -> Self {
        Self(batch.policies().map(|(policy, part)| (policy.clone(), part.tags().to_vec())).collect())
    }

    /// Per policy, the tags of the fragments.
    pub fn tags(&self) -> &[(PolicyId, Vec<Tag>)] {
        &self.0
    }
}

impl fmt::Display for BatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("batch [")?;
        for (index, (policy, tags)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{policy}:")?;
            for tag in tags.iter().take(TAGS_NAMED) {
                write!(f, " worker {} incarnation {} fragment {},", tag.worker, tag.incarnation, tag.sequence)?;
            }
            match tags.len() {
                0 => f.write_str(" untagged")?,
                n if n > TAGS_NAMED => write!(f, " and {} more", n - TAGS_NAMED)?,
                _ => {}
            }
        }
        f.write_str("]")
    }
}

/// A thread of the learner that failed: its name and why.
#[derive(Debug, thiserror::Error)]
#[error("thread `{thread}` {cause}")]
pub struct LearnerFailure {
    /// Name of the thread.
    pub thread: String,
    /// What happened to it.
    pub cause: FailureCause,
}

/// What happened to the learner thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FailureCause {
    /// Its loop ended with an error.
    #[error("failed: {0}")]
    Failed(#[source] LearnerLoopError),
    /// It panicked outside the learner, which is a defect of a source, a clock or of the loop itself.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The operating system refused the thread.
    #[error("could not be started: {0}; lower the number of threads or raise the limit of the process")]
    NotStarted(#[source] std::io::Error),
    /// It did not end in time; it is left behind and ends with the process.
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
