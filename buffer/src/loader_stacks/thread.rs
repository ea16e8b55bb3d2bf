use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pronk_metrics::{StateClock, ThreadState, thread_states};
use tracing::debug_span;

use super::failure::panic_text;
use super::metrics::SharedTimer;
use super::upstream::{LoadingGuard, Upstream};
use super::{Loaded, Loader, LoaderCause, LoaderFailure};
use crate::sync::Arc;
use crate::sync::Instant;
use crate::sync::channel::{Receiver, Select, Sender};
use crate::{NextError, ShutdownToken, Source};

/// How long a loader waits for a batch before it checks whether to end, or whether a checkpoint is taken: the
/// learner waits for that.
const LOOK_EVERY: Duration = Duration::from_millis(5);

thread_states! {
    /// What a loader thread is doing; the states are disjoint and sum to its wall time.
    pub enum LoaderState {
        /// Making its loader.
        Starting = "starting",
        /// Waiting for the learner to return a stack: learning is the bottleneck.
        WaitingForStack = "waiting_for_stack",
        /// Waiting for a batch, or for its turn at the source: learning is not the bottleneck.
        WaitingForData = "waiting_for_data",
        /// Copying a batch into a stack.
        Loading = "loading",
    }
}

/// A stack with a batch in it, or with the reason why not. The reason travels with the stack, so that the
/// queue never holds more entries than there are stacks.
pub(super) type Ready<T> = (Loaded<T>, Result<(), Box<dyn Error + Send + Sync>>);

/// The channels and resources of a loader thread.
pub(super) struct LoaderThread<S, T> {
    pub(super) name: String,
    pub(super) upstream: Arc<Upstream<S>>,
    pub(super) idle: Receiver<T>,
    pub(super) home: Sender<T>,
    pub(super) ready: Sender<Ready<T>>,
    pub(super) failures: Sender<LoaderFailure>,
    /// Shut down when the adapter closes or the run ends.
    pub(super) tokens: [ShutdownToken; 2],
    pub(super) queue_timer: SharedTimer,
    pub(super) load_timer: SharedTimer,
    pub(super) clock: StateClock<LoaderState>,
}

impl<S: Source, T> LoaderThread<S, T> {
    /// The body of the thread. It sends a failure before its end of the ready queue closes, so a reader that
    /// finds the queue closed finds the failure.
    pub(super) fn run<L: Loader<S::Item, Stack = T>>(
        mut self,
        make_loader: impl FnOnce() -> Result<L, Box<dyn Error + Send + Sync>>,
    ) {
        // After a panic neither the loader nor the stack is used again; a source that panicked poisons its
        // lock.
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut loader = make_loader().map_err(LoaderCause::NotMade)?;
            self.load_until_the_end(&mut loader).map_err(LoaderCause::Failed)
        }));
        let cause = match caught {
            Ok(Ok(())) => return,
            Ok(Err(cause)) => cause,
            Err(payload) => LoaderCause::Panicked(panic_text(&*payload)),
        };
        let state = LoaderState::NAMES.get(self.clock.state().index()).copied().unwrap_or("unknown");
        let failure = LoaderFailure { thread: std::mem::take(&mut self.name), state, cause };
        // There is room for one failure of every thread; the receiver is gone only with the adapter.
        let _ = self.failures.try_send(failure);
    }

    fn load_until_the_end<L: Loader<S::Item, Stack = T>>(
        &mut self,
        loader: &mut L,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        // The stack first: a batch waiting for a stack here would not be counted as backlog.
        while let Some(mut stack) = self.idle_stack() {
            let asked = Instant::now();
            let mut passing_on = None;
            let outcome = match self.next_batch() {
                Ok((batch, guard)) => {
                    passing_on = Some(guard);
                    self.queue_timer.push(asked.elapsed());
                    self.clock.enter(LoaderState::Loading);
                    let began = Instant::now();
                    let loaded = debug_span!("load").in_scope(|| loader.load(batch, &mut stack));
                    self.load_timer.push(began.elapsed());
                    loaded?;
                    Ok(())
                }
                Err(NextError::Failed(error)) => Err(error),
                Err(NextError::Closed | NextError::TimedOut | NextError::Resting) => {
                    // Returned, so that other loaders waiting for a stack see the end too.
                    drop(Loaded::new(stack, self.home.clone()));
                    return Ok(());
                }
            };
            // There is room for every stack; the receiver is gone only with the adapter.
            drop(self.ready.try_send((Loaded::new(stack, self.home.clone()), outcome)));
            drop(passing_on);
        }
        Ok(())
    }

    /// A stack to load into; `None` at the end.
    fn idle_stack(&mut self) -> Option<T> {
        self.clock.enter(LoaderState::WaitingForStack);
        // Ends come first: stacks that are idle then stay idle.
        let mut wait = Select::new_biased();
        for token in &self.tokens {
            wait.recv(token.ended());
        }
        wait.recv(&self.idle);
        let ready = wait.select();
        match self.tokens.get(ready.index()) {
            Some(token) => {
                // A selected operation must be completed; this one reports that the shutdown guard was
                // dropped.
                let _ = ready.recv(token.ended());
                None
            }
            None => ready.recv(&self.idle).ok(),
        }
    }

    /// The next batch, or an error that is no timeout.
    fn next_batch(&mut self) -> Result<(S::Item, LoadingGuard<S>), NextError> {
        self.clock.enter(LoaderState::WaitingForData);
        let is_ending = || self.tokens.iter().any(ShutdownToken::is_shut_down);
        loop {
            match self.upstream.next(LOOK_EVERY, is_ending) {
                None => return Err(NextError::Closed),
                Some(Err(NextError::TimedOut | NextError::Resting)) => {}
                Some(next) => return next,
            }
        }
    }
}
