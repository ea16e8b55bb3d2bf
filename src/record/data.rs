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
    /// Fragments read so far.
    read: usize,
    /// The fragments that each pass needs, with those of all before it, and the updates after it.
    passes: Vec<(usize, u64)>,
    steps: StepLedger,
}

impl RecordedFragments {
    pub(super) fn open(record: &Path, passes: Vec<(usize, u64)>, steps: StepLedger) -> Result<Self, RecordError> {
        let path = fragments_of(record);
        let file = File::open(&path).map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let mut frames = FrameReader::new(BufReader::new(file));
        frames.read::<Header>().map_err(|error| error.of(&path))?;
        Ok(Self { path, frames, read: 0, passes, steps })
    }

    /// The file has ended, although a replay takes no more fragments than the passes of its record need.
    fn ended(&self) -> RecordError {
        let n = self.passes.partition_point(|(needed, _)| *needed <= self.read);
        let updates = n.checked_sub(1).and_then(|last| self.passes.get(last)).map_or(0, |(_, updates)| *updates);
        RecordError::FragmentsMissing { path: self.path.clone(), fragments: self.read, updates }
    }
}

impl Source for RecordedFragments {
    type Item = MultiAgentBatch;

    fn next(&mut self, _timeout: Duration) -> Result<MultiAgentBatch, NextError> {
        let read = self.frames.read::<MultiAgentBatch>();
        let read = read.map_err(|error| error.of(&self.path)).and_then(|read| read.ok_or_else(|| self.ended()));
        let fragment = read.map_err(|error| NextError::Failed(error.into()))?;
        self.read += 1;
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
