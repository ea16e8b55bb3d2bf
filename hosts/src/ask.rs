//! Questions that are asked once, and the pauses before they are asked again.

use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::link::{CallError, Link, Op};
use crate::wire::{WireError, open};

/// The first pause before a question is asked again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why a question has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Asks once. *Blocks* for at most `deadline`.
pub(crate) fn ask<A: DeserializeOwned>(
    link: &dyn Link,
    op: Op,
    question: Bytes,
    deadline: Duration,
) -> Result<(A, Bytes), AskError> {
    Ok(open(&link.call(op, question, deadline)?)?)
}

/// Pauses between attempts, each twice as long as the one before.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (2 * pause).min(LONGEST_PAUSE);
        pause
    }
}
