//! What the loop holds, and what becomes of it when the loop ends.

use pronk_buffer::{MinibatchBuffer, Source};
use pronk_metrics::StepLedger;

/// The minibatch buffer with everything in front of it. On drop, what is held here, and what workers still
/// push until the queue is gone, is counted as dropped under `shutdown`.
pub(super) struct DrainOnDrop<S: Source> {
    pub(super) ring: MinibatchBuffer<S>,
    pub(super) steps: StepLedger,
}

impl<S: Source> Drop for DrainOnDrop<S> {
    fn drop(&mut self) {
        // First, for a worker may push between the drain and the moment the queue is gone.
        self.steps.shut_down();
        // The source may be what panicked; its batches then count themselves as it is dropped.
        if !std::thread::panicking() {
            self.ring.drain();
        }
    }
}
