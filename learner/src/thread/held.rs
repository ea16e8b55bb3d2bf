//! What the loop holds, and what becomes of it when the loop ends.

use pronk_buffer::{MinibatchBuffer, MultiAgentBatch, Source};

/// The minibatch buffer with everything in front of it; on drop, what is still held is counted as dropped.
pub(super) struct Held<S: Source<Item = MultiAgentBatch>> {
    pub(super) ring: MinibatchBuffer<S>,
}

impl<S: Source<Item = MultiAgentBatch>> Drop for Held<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The source may be what panicked; its batches then count themselves as they are dropped.
            return;
        }
        for mut batch in self.ring.drain() {
            if let Some(ticket) = batch.take_ticket() {
                ticket.dropped("shutdown");
            }
        }
    }
}
