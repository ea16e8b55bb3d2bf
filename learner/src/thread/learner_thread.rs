use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pronk_buffer::{Mailbox, Source};
use pronk_metrics::{ByPolicy, ClockReader};

use super::diagnosis::THREAD_NAME;
use crate::thread::failure::{LearnerFailure, LearnerFailureCause, panic_text};
use crate::thread::learner_loop::LearnerLoop;
use crate::thread::requests::{StateError, StateRequests, state_requests};
use crate::{HoldsBatch, Learner, LearnerMetrics, LearnerReport, LearnerState};

/// How a learner's thread ended.
///
/// A learner that is whole comes back with the failure: `save` then gives its state as its last update left
/// it.
#[derive(Default)]
pub struct LearnerEnd {
    /// The learner, unless it may be broken off in the middle of an update, or did not come back in time.
    pub learner: Option<Box<dyn Learner>>,
    /// What went wrong, if something did.
    pub failure: Option<LearnerFailure>,
}

impl LearnerEnd {
    fn failed(cause: LearnerFailureCause) -> Self {
        Self { learner: None, failure: Some(failure(cause)) }
    }
}

/// A [`LearnerLoop`] on a thread of its own, called `learner`.
///
/// It ends when no train batch can come any more, at its next report once its [`outqueue`](Self::outqueue)
/// was dropped, when the run's shutdown guard is, or when it fails; [`join`](Self::join) returns the learner,
/// and the failure if any. When it ends, the outqueue closes and workers that wait for room in the inqueue
/// wake up with their fragment back.
///
/// *Blocks*: only `join`, up to its deadline. Dropping the handle detaches the thread.
#[derive(Debug)]
pub struct LearnerThread {
    outqueue: Mailbox<LearnerReport>,
    metrics: LearnerMetrics,
    state: ClockReader,
    requests: StateRequests,
    ending: Receiver<LearnerEnd>,
    handle: JoinHandle<()>,
}

impl LearnerThread {
    /// Starts `learner_loop` on a thread; `outqueue` is the one made with it.
    ///
    /// # Errors
    /// The operating system refuses another thread.
    pub fn spawn<S>(mut learner_loop: LearnerLoop<S>, outqueue: Mailbox<LearnerReport>) -> Result<Self, LearnerFailure>
    where
        S: Source<Item: HoldsBatch + Send> + Send + 'static,
    {
        let metrics = learner_loop.metrics().clone();
        let state = learner_loop.state_reader();
        let (requests, receiver) = state_requests();
        learner_loop.answer_on(receiver);
        let (sender, ending) = mpsc::sync_channel(1);
        let handle = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || {
                // The loop is gone when the closure returns or unwinds, so its ends are closed before anyone
                // joins.
                let ended = catch_unwind(AssertUnwindSafe(move || {
                    let failed = learner_loop.run().err();
                    let failure = failed.map(|error| failure(LearnerFailureCause::Failed(error)));
                    LearnerEnd { learner: learner_loop.finish(), failure }
                }));
                // A panic of the learner itself is an error of the loop. This one came from what is around
                // it, perhaps while the learner was being told of something: its state is not to be trusted
                // either.
                let ended = ended
                    .unwrap_or_else(|payload| LearnerEnd::failed(LearnerFailureCause::Panicked(panic_text(&*payload))));
                // Fails only once the handle was dropped; the ledgers have the figures.
                let _ = sender.send(ended);
            })
            .map_err(|error| failure(LearnerFailureCause::NotStarted(error)))?;
        Ok(Self { outqueue, metrics, state, requests, ending, handle })
    }

    /// Where the thread reports every pass.
    pub fn outqueue(&self) -> &Mailbox<LearnerReport> {
        &self.outqueue
    }

    /// The live handle on what the thread measures.
    pub fn metrics(&self) -> &LearnerMetrics {
        &self.metrics
    }

    /// The learner's state between two passes; the thread keeps running.
    ///
    /// *Blocks* until the pass under way is done, up to `deadline`.
    ///
    /// # Errors
    /// The pass took longer, or the thread has ended.
    pub fn state(&self, deadline: Duration) -> Result<ByPolicy<LearnerState>, StateError> {
        self.requests.ask(deadline)
    }

    /// Whether the thread still runs.
    pub fn is_running(&self) -> bool {
        !self.handle.is_finished()
    }

    /// Waits for the end, up to `deadline`, and gives the learner back where it is whole.
    ///
    /// It does not ask the thread to end: drop the shutdown guard first. That the thread failed, panicked, or
    /// did not end in time is the failure of what is returned, with the cause.
    pub fn join(self, deadline: Duration) -> LearnerEnd {
        let ended = match self.ending.recv_timeout(deadline) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Timeout) => return LearnerEnd::failed(not_joined(&self.state, deadline)),
            // Unreachable while the closure above catches panics: it sends before it ends.
            Err(RecvTimeoutError::Disconnected) => {
                LearnerEnd::failed(LearnerFailureCause::Panicked("ended without a word".to_owned()))
            }
        };
        // Only the thread's last instructions are left to wait for.
        let _ = self.handle.join();
        ended
    }
}

pub(crate) fn failure(cause: LearnerFailureCause) -> LearnerFailure {
    LearnerFailure { thread: THREAD_NAME.to_owned(), cause }
}

pub(crate) fn not_joined(state: &ClockReader, waited: Duration) -> LearnerFailureCause {
    let time = state.read();
    LearnerFailureCause::NotJoined {
        waited,
        state: time.current.unwrap_or("ended"),
        since: Duration::try_from_secs_f64(time.since_secs).unwrap_or_default(),
    }
}
