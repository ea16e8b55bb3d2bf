//! [`Results`]: the results of a run, read as they come.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pronk::ResultDict;
use pronk::metrics::RunHistory;

use super::lines::{Lines, Progress};
use super::open::open;
use super::sample::sample;
use crate::board::Sample;

/// A larger file is sampled first: reading so much takes about a tenth of a second.
const SAMPLED_ABOVE_BYTES: u64 = 16 << 20;

/// What is read of a large file in one go.
const SLICE_BYTES: u64 = 8 << 20;

/// The results of a run.
#[derive(Debug)]
pub(super) struct Results {
    path: PathBuf,
    read: Read,
    /// Of a sample, how many results there are about, and how far the whole file has been read.
    whole: Option<(u64, Box<Read>)>,
}

/// What has been read of a file.
#[derive(Debug, Default)]
struct Read {
    place: Lines,
    history: Arc<RunHistory>,
    n_results: u64,
    /// Lines that are no results.
    n_broken: u64,
}

impl Results {
    /// The results in a file, or a sample if there are many.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = open(path)?;
        let mut opened = Self { path: path.to_owned(), read: Read::default(), whole: None };
        if file.metadata()?.len() > SAMPLED_ABOVE_BYTES {
            let mut read = Read::default();
            if let Some(sampled) = sample(&mut file, |line| read.take(Some(line)))? {
                read.place = sampled.place;
                opened.whole = Some((sampled.n_lines, Box::new(Read::default())));
                opened.read = read;
                return Ok(opened);
            }
        }
        opened.read_on()?;
        Ok(opened)
    }

    /// Reads what has come; whether there was anything.
    pub(super) fn read_on(&mut self) -> io::Result<bool> {
        let mut file = open(&self.path)?;
        let before = (self.read.n_results, self.read.n_broken);
        match self.read.read_on(&mut file, u64::MAX)? {
            Progress::Replaced => {
                *self = Self::open(&self.path)?;
                Ok(true)
            }
            Progress::AtEnd | Progress::Further => Ok(before != (self.read.n_results, self.read.n_broken)),
        }
    }

    /// Reads a slice of the whole file; whether it has taken the place of the sample.
    pub(super) fn read_behind(&mut self) -> io::Result<bool> {
        let Some((_, whole)) = &mut self.whole else { return Ok(false) };
        match whole.read_on(&mut open(&self.path)?, SLICE_BYTES)? {
            Progress::Further => Ok(false),
            Progress::AtEnd => {
                self.read = std::mem::take(whole);
                self.whole = None;
                Ok(true)
            }
            Progress::Replaced => {
                *self = Self::open(&self.path)?;
                Ok(true)
            }
        }
    }

    pub(super) fn history(&self) -> Arc<RunHistory> {
        Arc::clone(&self.read.history)
    }

    /// Whether the file is not read whole yet, and how many results are.
    pub(super) fn sample(&self) -> Option<Sample> {
        let (n_lines, _) = self.whole.as_ref()?;
        Some(Sample { read: self.read.n_results, of: (*n_lines).max(self.read.n_results) })
    }

    /// Why some of the results are missing.
    pub(super) fn problem(&self) -> Option<String> {
        let n = self.read.n_broken;
        let lines = if n == 1 { "a line".to_owned() } else { format!("{n} lines") };
        (n > 0).then(|| {
            format!("{lines} of results.jsonl cannot be read and {} left out", if n == 1 { "is" } else { "are" })
        })
    }
}

impl Read {
    fn read_on(&mut self, file: &mut File, max_bytes: u64) -> io::Result<Progress> {
        let mut place = std::mem::take(&mut self.place);
        let progress = place.read_on(file, max_bytes, |line| self.take(line));
        self.place = place;
        progress
    }

    fn take(&mut self, line: Option<&[u8]>) {
        match line {
            Some(line) if line.trim_ascii().is_empty() => {}
            line => match line.and_then(result) {
                Some(result) => {
                    Arc::make_mut(&mut self.history).take(&result);
                    self.n_results += 1;
                }
                None => self.n_broken += 1,
            },
        }
    }
}

/// The result in a line; `None` if it is none.
pub(super) fn result(line: &[u8]) -> Option<ResultDict> {
    ResultDict::from_json_line(std::str::from_utf8(line).ok()?)
}
