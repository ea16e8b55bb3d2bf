use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pronk_buffer::{Mailbox, Source};
use pronk_metrics::{ByPolicy, ClockReader};

use super::diagnosis::THREAD_NAME;
use crate::sync::channel::{Receiver, RecvTimeoutError, bounded};
use crate::sync::thread::{self, JoinHandle};
use crate::thread::failure::{LearnerFailure, LearnerFailureCause, panic_text};
use crate::thread::learner_loop::LearnerLoop;
use crate::thread::requests::{Request, StateError, StateRequests, state_requests};
use crate::thread::saved::{CutStorage, LearnerCut};
use crate::{HoldsBatch, Learner, LearnerMetrics, LearnerReport, LearnerState};

/// The end of a learner's thread. After a failure that left the learner intact, its state is that of its last
/// update.
#[derive(Default)]
pub struct LearnerEnd {
    /// The learner, unless an update was interrupted or the thread missed the deadline.
    pub learner: Option<Box<dyn Learner>>,
    /// The failure, if there was one.
    pub failure: Option<LearnerFailure>,
    /// Everything on the learner's side, if its last update was completed and the loop was [to save
    /// it](crate::LearnerLoopConfig::cut_at_end).
    pub last: Option<Box<LearnerCut>>,
}

impl LearnerEnd {
    fn failed(cause: LearnerFailureCause) -> Self {
        Self { learner: None, failure: Some(failure(cause)), last: None }
    }
}

/// A [`LearnerLoop`] on its own thread, `learner`.
///
/// It ends when no more train batches can come, when its [`outqueue`](Self::outqueue) or the run's shutdown
/// guard is dropped, or when it fails; [`join`](Self::join) then returns the learner and the failure. Its end
/// closes the outqueue and wakes workers blocked on the inqueue.
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
    /// Starts `learner_loop` on a thread; `outqueue` comes from the same constructor.
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
        let (sender, ending) = bounded(1);
        let handle = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || {
                // The loop is dropped when the closure returns or unwinds, so its channels close before the
                // join.
                let ended = catch_unwind(AssertUnwindSafe(move || {
                    let failed = learner_loop.run().err();
                    let failure = failed.map(|error| failure(LearnerFailureCause::Failed(error)));
                    let last = learner_loop.last_cut();
                    LearnerEnd { learner: learner_loop.finish(), failure, last }
                }));
                // A panic of the learner is an error of the loop. This one came from around it, perhaps
                // inside another call of the learner, whose state may be invalid too.
                let ended = ended
                    .unwrap_or_else(|payload| LearnerEnd::failed(LearnerFailureCause::Panicked(panic_text(&*payload))));
                // Fails only if the handle was dropped; the ledgers are complete anyway.
                let _ = sender.send(ended);
            })
            .map_err(|error| failure(LearnerFailureCause::NotStarted(error)))?;
        Ok(Self { outqueue, metrics, state, requests, ending, handle })
    }

    /// The outqueue: a report of every pass.
    pub fn outqueue(&self) -> &Mailbox<LearnerReport> {
        &self.outqueue
    }

    /// Live metrics of the thread.
    pub fn metrics(&self) -> &LearnerMetrics {
        &self.metrics
    }

    /// The learner's state between two passes; the thread keeps running.
    ///
    /// *Blocks* for the current pass, up to `deadline`.
    ///
    /// # Errors
    /// The pass takes longer, or the thread has ended.
    pub fn state(&self, deadline: Duration) -> Result<ByPolicy<LearnerState>, StateError> {
        self.requests.ask(deadline, || {}, Request::State)
    }

    /// Everything on the learner's side of the run between two passes, for the checkpoint `number`: see
    /// [`LearnerLoop::cut`]. `wake` ends a wait of its source early, if it can be.
    ///
    /// *Blocks* for the current pass, up to `deadline`.
    ///
    /// # Errors
    /// The pass takes longer, the thread has ended, or a source cannot be saved.
    pub fn cut(
        &self,
        number: u64,
        storage: CutStorage,
        deadline: Duration,
        wake: impl Fn(),
    ) -> Result<LearnerCut, StateError> {
        let request = |reply| Request::Cut { number, storage, reply };
        let cut = self.requests.ask(deadline, wake, request)?;
        cut.map_err(|error| StateError::CannotSave { why: error.to_string() })
    }

    /// Whether the thread still runs.
    pub fn is_running(&self) -> bool {
        !self.handle.is_finished()
    }

    /// Waits for the end of the thread, up to `deadline`, and returns the learner if it is intact. It does
    /// not end the thread: drop the shutdown guard first. A thread that fails, panics or misses the deadline
    /// is the failure in the result.
    pub fn join(self, deadline: Duration) -> LearnerEnd {
        let ended = match self.ending.recv_timeout(deadline) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Timeout) => return LearnerEnd::failed(not_joined(&self.state, deadline)),
            // Unreachable, since the closure above catches panics and sends.
            Err(RecvTimeoutError::Disconnected) => {
                LearnerEnd::failed(LearnerFailureCause::Panicked("ended without a word".to_owned()))
            }
        };
        // Waits for the thread's last instructions only.
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
