//! [`Evaluator`]: a thread that evaluates policies beside a run.

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::{Fold, Gate, InqueueSender, Mailbox, Notifier, ShutdownToken, inqueue, mailbox, shutdown};
use pronk_metrics::{ClockReader, StateClock, TimeLedger, thread_states};

use crate::sync::thread::{self, JoinHandle};

thread_states! {
    /// The state of an evaluator.
    pub enum EvaluatorState {
        /// Waiting for an order.
        Waiting = "waiting",
        /// Making environments and playing episodes.
        Evaluating = "evaluating",
        /// Saving the policy that was evaluated.
        Saving = "saving",
    }
}

/// The thread `evaluator`: it makes a report of each order, and posts it to a mailbox.
///
/// One order waits at most, so that nothing queues up behind a slow evaluation.
///
/// ```
/// use std::time::Duration;
///
/// use pronk_buffer::{Fold, Notifier, shutdown};
/// use pronk_metrics::TimeLedger;
/// use pronk_rollout::{Evaluator, EvaluatorState};
///
/// /// Evaluations made.
/// struct Made(u32);
///
/// impl Fold for Made {
///     fn fold(&mut self, later: Self) {
///         self.0 += later.0;
///     }
/// }
///
/// let (_guard, token) = shutdown();
/// let notifier = Notifier::new();
/// let evaluator = Evaluator::start(&token, &notifier, &TimeLedger::new(), |_weights: [f32; 4], clock| {
///     clock.enter(EvaluatorState::Evaluating);
///     // … play episodes, and look at the token between two steps
///     Made(1)
/// })?;
/// assert!(evaluator.order([0.0; 4]).is_ok());
/// let made = notifier.wait_for(Duration::from_secs(60), || evaluator.try_take());
/// assert!(made.is_some_and(|Made(n)| n == 1));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Evaluator<O, R> {
    orders: InqueueSender<O>,
    reports: Mailbox<R>,
    clock: ClockReader,
    /// Shut down as the thread ends.
    ended: ShutdownToken,
    handle: JoinHandle<()>,
}

impl<O: Send + 'static, R: Fold + Send + 'static> Evaluator<O, R> {
    /// The thread's name.
    pub const NAME: &str = "evaluator";

    /// Starts the thread, which ends with the run of `token`. `evaluate` enters the states of its work; it
    /// has to contain its own panics and to end soon after the run.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        token: &ShutdownToken,
        notifier: &Notifier,
        time: &TimeLedger,
        mut evaluate: impl FnMut(O, &mut StateClock<EvaluatorState>) -> R + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, to_do) = inqueue(1, Gate::Bounded, token).map_err(io::Error::other)?;
        let (sender, reports) = mailbox(NonZeroUsize::MIN, notifier);
        let (alive, ended) = shutdown();
        let mut clock = StateClock::new(Self::NAME, EvaluatorState::Waiting);
        let reader = clock.reader();
        let body = move || {
            while let Ok(order) = to_do.pop(Duration::MAX) {
                let report = evaluate(order, &mut clock);
                clock.enter(EvaluatorState::Waiting);
                // Without a reader there is no run.
                let _ = sender.post(report);
            }
            // What it owns is dropped before it counts as ended: environments may take their time.
            drop((evaluate, clock));
            drop(alive);
        };
        let handle = thread::Builder::new().name(Self::NAME.to_owned()).spawn(body)?;
        time.add(reader.clone());
        Ok(Self { orders, reports, clock: reader, ended, handle })
    }

    /// Hands over an order, if the one before is no longer waiting and the run has not ended; else returns
    /// it.
    ///
    /// # Errors
    /// The order.
    pub fn order(&self, order: O) -> Result<(), O> {
        use pronk_buffer::TryPushError::{Closed, Full};
        self.orders.try_push(order).map_err(|(Full(order) | Closed(order))| order)
    }

    /// The oldest report, if there is one.
    pub fn try_take(&self) -> Option<R> {
        self.reports.try_take()
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_shut_down()
    }

    /// Waits until the thread has ended, after the run's guard was dropped: for at most `deadline`, or
    /// `to_save` if it is saving. Returns the reports that were not taken, and whether it has ended.
    pub fn join(self, deadline: Duration, to_save: Duration) -> (Vec<R>, bool) {
        let Self { orders, reports, clock, ended, handle } = self;
        drop(orders);
        let waits = |deadline| ended.sleep(deadline).is_err();
        let saves = || clock.read().current == Some("saving");
        let has_ended = waits(deadline) || saves() && waits(to_save.saturating_sub(deadline));
        if has_ended {
            // Waits for its last instructions only.
            let _ = handle.join();
        }
        (reports.drain(), has_ended)
    }
}

#[cfg(test)]
mod tests;
