use std::time::Duration;

use crate::inqueue::{PopError, receive};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::channel::{Receiver, Sender, bounded};
use crate::{NextError, Notifier, ShutdownToken};

/// Makes the rounds of a run: after every `batches` train batches the learner waits until the trainer begins
/// the next round.
///
/// ```
/// use pronk_buffer::{Notifier, rounds, shutdown};
///
/// let (_guard, token) = shutdown();
/// let (mut rounds, _learner) = rounds(10, &Notifier::new(), &token);
/// rounds.begin();
/// assert!(!rounds.is_over());
/// ```
pub fn rounds(batches: u64, notifier: &Notifier, token: &ShutdownToken) -> (Rounds, RoundGate) {
    // A round to begin, and a wake-up.
    let (begin, begun) = bounded(2);
    let (batches, reached, taken) = (batches.max(1), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let gate = RoundGate {
        batches,
        passed: 0,
        begun,
        reached: Arc::clone(&reached),
        taken: Arc::clone(&taken),
        notifier: notifier.clone(),
        token: token.clone(),
    };
    (Rounds { begin, batches, begun: 0, reached, taken }, gate)
}

/// Why the learner's wait ends.
#[derive(Debug)]
enum Wake {
    /// The next round begins.
    Begin,
    /// A request waits.
    Look,
}

/// The trainer's end.
#[derive(Debug)]
pub struct Rounds {
    begin: Sender<Wake>,
    batches: u64,
    /// Rounds that the trainer has begun.
    begun: u64,
    /// Rounds that the learner has ended, the one before the first included.
    reached: Arc<AtomicU64>,
    /// Train batches that the learner has taken.
    taken: Arc<AtomicU64>,
}

impl Rounds {
    /// Begins the next round, if the learner has ended the one before or taken all of its train batches.
    pub fn begin(&mut self) {
        if self.has_taken_all() {
            self.begun += 1;
            // There is room: the learner has taken the one before, and there is at most one wake-up.
            let _ = self.begin.try_send(Wake::Begin);
        }
    }

    /// Ends the learner's wait for the next round early, so that it looks for requests.
    pub fn wake(&self) {
        // One at a time: the place for the beginning of a round stays free.
        if self.begin.is_empty() {
            let _ = self.begin.try_send(Wake::Look);
        }
    }

    /// Whether the learner has taken all train batches of the round; it may not have trained on them.
    pub fn has_taken_all(&self) -> bool {
        self.taken.load(Ordering::Acquire) >= self.begun * self.batches
    }

    /// Whether the learner has ended the round and reported all of it.
    pub fn is_over(&self) -> bool {
        self.reached.load(Ordering::Acquire) > self.begun
    }
}

/// The learner's end.
#[derive(Debug)]
pub struct RoundGate {
    batches: u64,
    /// Rounds that the learner has begun.
    passed: u64,
    begun: Receiver<Wake>,
    reached: Arc<AtomicU64>,
    taken: Arc<AtomicU64>,
    notifier: Notifier,
    token: ShutdownToken,
}

impl RoundGate {
    /// Waits for the round of the ask number `ask`, from 0; [`NextError::Resting`] if it has not begun.
    pub(super) fn pass(&mut self, ask: u64, timeout: Duration) -> Result<(), NextError> {
        if ask < self.passed * self.batches {
            return Ok(());
        }
        // Only the first time: a wait that timed out resumes.
        if self.reached.swap(self.passed + 1, Ordering::AcqRel) <= self.passed {
            self.notifier.notify();
        }
        match receive(&self.begun, &self.token, timeout) {
            Ok(Wake::Begin) => {
                self.passed += 1;
                Ok(())
            }
            Ok(Wake::Look) | Err(PopError::TimedOut) => Err(NextError::Resting),
            Err(PopError::Closed) => Err(NextError::Closed),
        }
    }

    /// Counts the train batches that were taken.
    pub(super) fn taken(&self, batches: u64) {
        self.taken.store(batches, Ordering::Release);
    }
}
