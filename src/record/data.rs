//! [`RecordedFragments`]: the fragments of a record as a source.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pronk_buffer::{MultiAgentBatch, NextError, Source};
use pronk_metrics::StepLedger;

use super::entry::Header;
use super::error::{FrameError, RecordError};
use super::frames::FrameReader;
use super::options::fragments_of;

/// Yields the fragments of a record in the order in which they were taken.
pub(crate) struct RecordedFragments {
    path: PathBuf,
    frames: FrameReader<BufReader<File>>,
    steps: StepLedger,
}

impl RecordedFragments {
    pub(super) fn open(record: &Path, steps: StepLedger) -> Result<Self, RecordError> {
        let path = fragments_of(record);
        let file = File::open(&path).map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let mut frames = FrameReader::new(BufReader::new(file));
        frames.read::<Header>().map_err(|error| error.of(&path))?;
        Ok(Self { path, frames, steps })
    }
}

impl Source for RecordedFragments {
    type Item = MultiAgentBatch;

    fn next(&mut self, _timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        let read = self.frames.read::<MultiAgentBatch>();
        let fragment = read.map_err(|error| NextError::Failed(error.of(&self.path).into()))?;
        let fragment = fragment.ok_or(NextError::Closed)?;
        let ticket = self.steps.sampled(fragment.steps());
        Ok(fragment.with_ticket(ticket))
    }

    fn backlog(&self) -> usize {
        0
    }

    fn drain(&mut self) -> Vec<MultiAgentBatch> {
        Vec::new()
    }
}

impl FrameError {
    /// The error with the name of the file.
    pub(super) fn of(self, path: &Path) -> RecordError {
        let path = path.to_owned();
        match self {
            FrameError::Io(source) => RecordError::Io { path, source },
            damaged @ FrameError::Damaged { .. } => RecordError::Damaged { path, what: damaged.to_string() },
        }
    }
}
