//! Drops fragments that are too old.

use std::time::Duration;

use crate::sync::Instant;
use crate::{CannotSave, MultiAgentBatch, NextError, SavedSource, Source, VersionReader};

#[cfg(test)]
mod tests;

/// Drops fragments whose newest step lags more than `max_lag` versions behind the newest weights, counted
/// under `"too_old"`. A single-agent fragment has one version; with several agents, columns may have begun
/// under earlier ones.
///
/// It stands before [`MixInReplay`](crate::MixInReplay): what is too old when it comes is neither trained on
/// nor stored, and what is replayed, which is old by design, is not looked at again.
///
/// ```
/// use std::time::Duration;
/// use pronk_buffer::{Gate, MaxLag, MultiAgentBatch, Source, inqueue, shutdown, weight_cell};
/// # use pronk_buffer::{ActionKind, BatchShape, ObsKind, SampleBatch, Tag};
/// # let shape = BatchShape {
/// #     steps: 50,
/// #     columns: 1,
/// #     obs_len: 4,
/// #     obs_kind: ObsKind::F32,
/// #     act_len: 1,
/// #     act_kind: ActionKind::U32,
/// #     dist_len: 2,
/// #     state_len: 0,
/// # };
/// # let fragment = || MultiAgentBatch::single(SampleBatch::blank(shape, Tag::default()));
///
/// let (_guard, token) = shutdown();
/// let (mut publisher, weights) = weight_cell(());
/// let (sender, receiver) = inqueue(16, Gate::Bounded, &token)?;
/// let mut fragments = MaxLag::new(receiver, 1, weights.version_reader());
/// sender.push(fragment())?; // of the first weights, version 0
/// publisher.publish(());
/// publisher.publish(());
/// assert!(fragments.next(Duration::ZERO).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MaxLag<S> {
    source: S,
    max_lag: u64,
    version: VersionReader,
}

impl<S: Source<Item = MultiAgentBatch>> MaxLag<S> {
    /// Takes fragments from `source`, and compares their versions with the newest one.
    pub fn new(source: S, max_lag: u64, version: VersionReader) -> Self {
        Self { source, max_lag, version }
    }

    fn is_too_old(&self, fragment: &MultiAgentBatch) -> bool {
        let lag = |newest| self.version.current().saturating_sub(newest);
        fragment.newest_version().is_some_and(|newest| lag(newest) > self.max_lag)
    }
}

impl<S: Source<Item = MultiAgentBatch>> Source for MaxLag<S> {
    type Item = MultiAgentBatch;

    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        let began = Instant::now();
        loop {
            // The deadline bounds waiting only: fragments that have arrived are taken even after it.
            let mut fragment = self.source.next(timeout.saturating_sub(began.elapsed()))?;
            if !self.is_too_old(&fragment) {
                return Ok(fragment);
            }
            if let Some(ticket) = fragment.take_ticket() {
                ticket.dropped("too_old");
            }
        }
    }

    fn backlog(&self) -> usize {
        self.source.backlog()
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        self.source.drain()
    }

    fn save(&mut self, saved: &mut SavedSource, ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        self.source.save(saved, ahead)
    }
}
