//! [`Recorder`]: writes a record.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pronk_buffer::MultiAgentBatch;

use super::entry::{Entry, Header, Pass};
use super::error::RecordError;
use super::frames::FrameWriter;
use super::options::{Recording, fragments_of};
use crate::digest::Digest;

/// A run that is killed loses at most this time of its record.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

type Frames = FrameWriter<BufWriter<File>>;

/// Writes a record. An error of the disk ends the record, not the run.
pub(crate) struct Recorder {
    path: PathBuf,
    entries: Frames,
    fragments: Option<Frames>,
    flushed: Instant,
    failure: Option<String>,
}

impl Recorder {
    pub(super) fn create(recording: &Recording, header: &Header) -> Result<Self, RecordError> {
        let create = |path: &Path| -> Result<Frames, RecordError> {
            let failed = |source| RecordError::Io { path: path.to_owned(), source };
            let file = match File::create_new(path) {
                // A device or a pipe, which holds no record yet.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !path.is_file() => {
                    OpenOptions::new().write(true).open(path)
                }
                created => created,
            };
            let mut frames = FrameWriter::new(BufWriter::new(file.map_err(failed)?));
            frames.write(header).map_err(failed)?;
            Ok(frames)
        };
        let fragments = recording.has_fragments.then(|| create(&fragments_of(&recording.path))).transpose()?;
        let (path, entries) = (recording.path.clone(), create(&recording.path)?);
        Ok(Self { path, entries, fragments, flushed: Instant::now(), failure: None })
    }

    pub(super) fn keep_fragment(&mut self, fragment: &MultiAgentBatch) {
        if let Some(fragments) = &mut self.fragments
            && self.failure.is_none()
        {
            let written = fragments.write(fragment);
            self.check(written);
        }
    }

    pub(super) fn keep_pass(&mut self, pass: Pass) {
        self.keep(&Entry::Pass(pass));
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush();
        }
    }

    pub(super) fn finish(&mut self, chain: Digest) {
        self.keep(&Entry::End(chain));
        self.flush();
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn keep(&mut self, entry: &Entry) {
        if self.failure.is_none() {
            let written = self.entries.write(entry);
            self.check(written);
        }
    }

    fn flush(&mut self) {
        if self.failure.is_none() {
            // Fragments first: a record that is cut off here names none that is not there.
            let flushed = self.fragments.as_mut().map_or(Ok(()), Frames::flush).and_then(|()| self.entries.flush());
            self.check(flushed);
            self.flushed = Instant::now();
        }
    }

    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            let failure = format!("{}: {error}; the run goes on without a record", self.path.display());
            tracing::error!(%failure, "the record of the run ends here");
            self.failure = Some(failure);
        }
    }
}
