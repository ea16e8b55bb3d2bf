//! [`Results`]: the results of a run, read as they come.

use std::fs::File;
use std::io;
use std::sync::Arc;

use pronk::ResultDict;
use pronk::metrics::RunHistory;

use super::lines::{Lines, Progress};
use super::open::Place;
use super::sample::sample;
use crate::board::Sample;

/// The file of the results, in the folder of a run.
pub(super) const RESULTS: &str = "results.jsonl";

/// A larger file is sampled first: reading so much takes about a tenth of a second.
const SAMPLED_ABOVE_BYTES: u64 = 16 << 20;

/// Nothing is read of a larger file, such as one with a hole of any size. Reading so much takes a minute, and
/// it has room for ten million results.
const MAX_BYTES: u64 = 64 << 30;

/// What is read of a large file in one go.
const SLICE_BYTES: u64 = 8 << 20;

/// The results of a run.
#[derive(Debug)]
pub(super) struct Results {
    place: Place,
    /// What is shown: all results so far, or a sample.
    shown: Contents,
    full_read: Option<FullRead>,
}

/// How far a file that was sampled has been read from its beginning.
#[derive(Debug, Default)]
struct FullRead {
    contents: Contents,
    /// How many results there are about.
    n_lines: u64,
}

/// What has been read of a file.
#[derive(Debug, Default)]
struct Contents {
    place: Lines,
    history: Arc<RunHistory>,
    n_results: u64,
    /// Lines that are no results.
    n_broken: u64,
}

impl Results {
    /// The results in the folder of a run, or a sample if there are many. The sample is empty if none is
    /// found where one was looked for.
    pub(super) fn open(place: &Place) -> io::Result<Self> {
        let (mut file, bytes) = opened(place)?;
        let mut shown = Contents::default();
        if bytes <= SAMPLED_ABOVE_BYTES {
            // Not to its end, which another process may move on for ever.
            shown.read_on(&mut file, SAMPLED_ABOVE_BYTES)?;
            return Ok(Self { place: place.clone(), shown, full_read: None });
        }
        let sampled = sample(&mut file, |line| shown.take(Some(line)))?;
        let n_lines = sampled.as_ref().map_or(0, |sampled| sampled.n_lines);
        match sampled {
            Some(sampled) => shown.place = sampled.place,
            None => shown = Contents::default(),
        }
        let full_read = Some(FullRead { n_lines, ..FullRead::default() });
        Ok(Self { place: place.clone(), shown, full_read })
    }

    /// Reads what has come; whether there was anything.
    pub(super) fn read_on(&mut self) -> io::Result<bool> {
        let (mut file, bytes) = opened(&self.place)?;
        if bytes.saturating_sub(self.shown.place.offset()) > SAMPLED_ABOVE_BYTES {
            // So much takes as long as a file of that size, and other runs wait meanwhile.
            if self.full_read.is_none() {
                *self = Self::open(&self.place)?;
                return Ok(true);
            }
            return Ok(false);
        }
        let before = (self.shown.n_results, self.shown.n_broken);
        match self.shown.read_on(&mut file, SAMPLED_ABOVE_BYTES)? {
            Progress::Replaced => {
                *self = Self::open(&self.place)?;
                Ok(true)
            }
            Progress::AtEnd | Progress::Further => Ok(before != (self.shown.n_results, self.shown.n_broken)),
        }
    }

    /// Reads a slice of a file that was sampled; whether all of it has taken the place of the sample.
    pub(super) fn read_slice(&mut self) -> io::Result<bool> {
        let Some(FullRead { contents, .. }) = &mut self.full_read else { return Ok(false) };
        match contents.read_on(&mut opened(&self.place)?.0, SLICE_BYTES)? {
            Progress::Further => Ok(false),
            Progress::AtEnd => {
                self.shown = std::mem::take(contents);
                self.full_read = None;
                Ok(true)
            }
            Progress::Replaced => {
                *self = Self::open(&self.place)?;
                Ok(true)
            }
        }
    }

    pub(super) fn history(&self) -> Arc<RunHistory> {
        Arc::clone(&self.shown.history)
    }

    /// Of a sample, how many results were read and how many there are.
    pub(super) fn sample(&self) -> Option<Sample> {
        let FullRead { n_lines, .. } = self.full_read.as_ref()?;
        Some(Sample { read: self.shown.n_results, of: (*n_lines).max(self.shown.n_results) })
    }

    /// Why some of the results are missing.
    pub(super) fn problem(&self) -> Option<String> {
        let n = self.shown.n_broken;
        let lines = if n == 1 { "a line".to_owned() } else { format!("{n} lines") };
        (n > 0).then(|| {
            format!("{lines} of results.jsonl cannot be read and {} left out", if n == 1 { "is" } else { "are" })
        })
    }
}

/// The results in the folder of a run, and how many bytes they have.
fn opened(place: &Place) -> io::Result<(File, u64)> {
    let file = place.file(RESULTS)?;
    let bytes = file.metadata()?.len();
    if bytes > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {} GiB", MAX_BYTES >> 30)));
    }
    Ok((file, bytes))
}

impl Contents {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::path::Path;

    use super::*;

    /// Lines of about a kilobyte, in more bytes than are read at once.
    fn lines(n: u64) -> String {
        let filler = "x".repeat(1000);
        (1..=n).map(|i| format!("{{\"training_iteration\":{i},\"filler\":\"{filler}\"}}\n")).collect()
    }

    const N: u64 = 20_000;

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn read_to_end(results: &mut Results) -> u64 {
        let mut slices = 1;
        while !results.read_slice().unwrap() {
            slices += 1;
        }
        slices
    }

    #[test]
    fn a_large_file_is_sampled_and_then_read_in_slices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        fs::write(&path, lines(N)).unwrap();
        let mut results = Results::open(&Place::named(folder.path())).unwrap();
        let sample = results.sample().unwrap();
        assert!((256..1000).contains(&sample.read) && (N - N / 50..N + N / 50).contains(&sample.of), "{sample:?}");
        append(&path, &lines(1));
        assert!(results.read_on().unwrap());
        assert_eq!(results.sample().unwrap().read, sample.read + 1);
        assert_eq!(read_to_end(&mut results), 3);
        assert_eq!((results.sample(), results.shown.n_results), (None, N + 1));
    }

    #[test]
    fn without_a_line_where_one_was_looked_for_the_sample_is_empty_until_all_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        // The end is half of a long line.
        fs::write(&path, lines(N) + &"x".repeat(1 << 20)).unwrap();
        let mut results = Results::open(&Place::named(folder.path())).unwrap();
        let empty = Some(Sample { read: 0, of: 0 });
        assert_eq!(results.sample(), empty);
        append(&path, "x");
        assert!(!results.read_on().unwrap());
        assert_eq!((results.sample(), results.problem()), (empty, None));
        read_to_end(&mut results);
        assert_eq!((results.sample(), results.shown.n_results), (None, N));
    }

    #[test]
    fn a_file_that_has_grown_by_much_is_sampled_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        fs::write(&path, lines(3)).unwrap();
        let mut results = Results::open(&Place::named(folder.path())).unwrap();
        assert_eq!((results.sample(), results.shown.n_results), (None, 3));
        append(&path, &lines(N));
        assert!(results.read_on().unwrap());
        assert!(results.sample().is_some_and(|sample| sample.read < 1000), "{:?}", results.sample());
        read_to_end(&mut results);
        assert_eq!(results.shown.n_results, N + 3);
    }
}
