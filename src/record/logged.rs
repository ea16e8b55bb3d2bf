//! [`Logged`]: a source of fragments that enters them into the run's log.

use std::time::Duration;

use pronk_buffer::{CannotSave, MultiAgentBatch, NextError, SavedSource, Source};

use super::log::RunLog;

/// Enters every fragment of a source into the log. A fragment that differs from the record fails the source.
pub(crate) struct Logged<S> {
    source: S,
    log: RunLog,
}

impl<S> Logged<S> {
    pub(crate) fn new(source: S, log: RunLog) -> Self {
        Self { source, log }
    }
}

impl<S: Source<Item = MultiAgentBatch>> Source for Logged<S> {
    type Item = MultiAgentBatch;

    fn next(&mut self, timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        let fragment = self.source.next(timeout)?;
        self.log.take(&fragment).map_err(|error| NextError::Failed(error.into()))?;
        Ok(fragment)
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
