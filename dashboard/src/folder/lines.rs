//! [`Lines`]: the lines of a file that grows.

use std::io::{self, Read, Seek, SeekFrom};

use xxhash_rust::xxh3::xxh3_64;

/// A longer line is skipped: no result is.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

const CHUNK_BYTES: u64 = 1 << 20;

/// A place in a file of lines, up to which it has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// Where the next line begins, or goes on if it is being skipped.
    offset: u64,
    /// The last line before that, by which a file that was cut off and written again is known.
    last: Option<Last>,
    is_skipping: bool,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    begins: u64,
    bytes: u64,
    hash: u64,
}

/// How far a file has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Up to its end, where half a line may follow.
    AtEnd,
    /// There is more.
    Further,
    /// What was read before is not what the file has now: it is to be read from its beginning.
    Replaced,
}

impl Lines {
    /// A place at which a line begins, after the `last` one, without its line end.
    pub(super) fn after(offset: u64, last: &[u8]) -> Self {
        let bytes = last.len() as u64;
        let last = Last { begins: offset - bytes - 1, bytes, hash: xxh3_64(last) };
        Self { offset, last: Some(last), is_skipping: false }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Calls `each` with every further complete line, without its line end, until about so many bytes are
    /// read, and at least one line. `None` is a line that is too long.
    pub(super) fn read_on<F: Read + Seek>(
        &mut self,
        file: &mut F,
        max_bytes: u64,
        mut each: impl FnMut(Option<&[u8]>),
    ) -> io::Result<Progress> {
        if !self.is_same(file)? {
            return Ok(Progress::Replaced);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let (mut buffer, mut read, from) = (Vec::new(), 0, self.offset);
        loop {
            let searched = buffer.len();
            let n = file.by_ref().take(CHUNK_BYTES).read_to_end(&mut buffer)?;
            if n == 0 {
                return Ok(Progress::AtEnd);
            }
            read += n as u64;
            let taken = self.take_lines(&buffer, searched, &mut each);
            buffer.drain(..taken);
            if buffer.len() > MAX_LINE_BYTES {
                self.is_skipping = true;
            }
            if self.is_skipping {
                self.offset += buffer.len() as u64;
                buffer.clear();
            }
            // Not without having come further: the next call would read the same line again.
            if read >= max_bytes && self.offset > from {
                return Ok(Progress::Further);
            }
        }
    }

    /// Takes the complete lines at the start of `buffer`, of which the first `searched` bytes have no line
    /// end; how many bytes they have.
    fn take_lines(&mut self, buffer: &[u8], searched: usize, each: &mut impl FnMut(Option<&[u8]>)) -> usize {
        let (mut begins, mut from) = (0, searched);
        while let Some(length) = buffer[from..].iter().position(|&byte| byte == b'\n') {
            let line = &buffer[begins..from + length];
            let bytes = line.len() as u64;
            if std::mem::take(&mut self.is_skipping) {
                self.last = None;
                each(None);
            } else {
                self.last = Some(Last { begins: self.offset, bytes, hash: 0 });
                each(Some(line));
            }
            self.offset += bytes + 1;
            begins = from + length + 1;
            from = begins;
        }
        // Only the last one is looked for again.
        if let Some(last) = self.last.as_mut().filter(|last| begins > 0 && last.begins + last.bytes + 1 == self.offset)
        {
            let end = begins - 1;
            last.hash = xxh3_64(&buffer[end - last.bytes as usize..end]);
        }
        begins
    }

    /// Whether the last line is still where it was.
    fn is_same<F: Read + Seek>(&self, file: &mut F) -> io::Result<bool> {
        if file.seek(SeekFrom::End(0))? < self.offset {
            return Ok(false);
        }
        let Some(last) = self.last else { return Ok(true) };
        file.seek(SeekFrom::Start(last.begins))?;
        let mut line = Vec::new();
        file.by_ref().take(last.bytes).read_to_end(&mut line)?;
        Ok(line.len() as u64 == last.bytes && xxh3_64(&line) == last.hash)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(lines: &mut Lines, file: &mut Cursor<Vec<u8>>) -> (Progress, Vec<String>) {
        let mut found = Vec::new();
        let mut each = |line: Option<&[u8]>| {
            found.push(line.map_or("too long".to_owned(), |line| String::from_utf8(line.to_vec()).unwrap()));
        };
        let progress = lines.read_on(file, u64::MAX, &mut each).unwrap();
        (progress, found)
    }

    fn file(text: &str) -> Cursor<Vec<u8>> {
        Cursor::new(text.as_bytes().to_vec())
    }

    #[test]
    fn a_line_counts_once_it_is_complete() {
        let mut lines = Lines::default();
        assert_eq!(read(&mut lines, &mut file("")), (Progress::AtEnd, vec![]));
        assert_eq!(read(&mut lines, &mut file("a\nb")), (Progress::AtEnd, vec!["a".to_owned()]));
        assert_eq!(read(&mut lines, &mut file("a\nbc\n\n")), (Progress::AtEnd, vec!["bc".to_owned(), String::new()]));
        assert_eq!(read(&mut lines, &mut file("a\nbc\n\n")), (Progress::AtEnd, vec![]));
    }

    #[test]
    fn a_file_that_was_cut_off_is_noticed_even_if_it_is_longer_by_now() {
        for now in ["", "a\n", "a\nbx\nmore\n", "x\n"] {
            let mut lines = Lines::default();
            read(&mut lines, &mut file("a\nbc\n"));
            assert_eq!(read(&mut lines, &mut file(now)).0, Progress::Replaced, "{now:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_without_being_kept() {
        let text = format!("a\n{}\nb\n", "x".repeat(MAX_LINE_BYTES + 2 * CHUNK_BYTES as usize));
        let mut lines = Lines::default();
        assert_eq!(read(&mut lines, &mut file(&text)).1, ["a", "too long", "b"]);
        assert_eq!(read(&mut lines, &mut file(&(text + "c\n"))).1, ["c"]);
    }

    #[test]
    fn a_slice_ends_between_lines_and_the_next_goes_on() {
        let text: String = (0..200_000).map(|i| format!("line {i}\n")).collect();
        let (mut lines, mut found, mut file) = (Lines::default(), Vec::new(), file(&text));
        let mut slices = 1;
        let mut each = |line: Option<&[u8]>| found.push(String::from_utf8(line.unwrap().to_vec()).unwrap());
        while lines.read_on(&mut file, 1, &mut each).unwrap() == Progress::Further {
            slices += 1;
        }
        assert!(slices > 2 && found.join("\n") + "\n" == text, "{slices}");
    }

    #[test]
    fn a_slice_has_a_line_even_if_that_is_longer() {
        let long = "x".repeat(3 * CHUNK_BYTES as usize);
        let too_long = "y".repeat(MAX_LINE_BYTES + 2 * CHUNK_BYTES as usize);
        let (mut lines, mut file) = (Lines::default(), file(&format!("{long}\n{too_long}\nb\n")));
        let mut found = Vec::new();
        let mut each = |line: Option<&[u8]>| found.push(line.map(<[u8]>::len));
        let mut slices = 0;
        while lines.read_on(&mut file, CHUNK_BYTES, &mut each).unwrap() == Progress::Further {
            slices += 1;
            assert!(slices < 100, "it comes no further");
        }
        assert_eq!(found, [Some(long.len()), None, Some(1)]);
    }

    #[test]
    fn reading_may_begin_after_a_known_line() {
        let mut lines = Lines::after(5, b"bc");
        assert_eq!(read(&mut lines, &mut file("a\nbc\nd\n")).1, ["d"]);
        assert_eq!(read(&mut Lines::after(5, b"bc"), &mut file("a\nbd\nd\n")).0, Progress::Replaced);
    }
}
