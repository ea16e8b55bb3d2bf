//! Accounts for batches that remain when the loop ends.

use pronk_buffer::{MinibatchBuffer, Source};
use pronk_metrics::StepLedger;

/// The minibatch buffer and its sources. On drop, all batches in them, and those that workers still push,
/// count as dropped under `shutdown`.
pub(super) struct DrainOnDrop<S: Source> {
    pub(super) ring: MinibatchBuffer<S>,
    pub(super) steps: StepLedger,
}

impl<S: Source> Drop for DrainOnDrop<S> {
    fn drop(&mut self) {
        // First, because a worker may push between the drain and the end of the queue.
        self.steps.shut_down();
        // If the source has panicked, its batches count themselves when it is dropped.
        if !std::thread::panicking() {
            self.ring.drain();
        }
    }
}
