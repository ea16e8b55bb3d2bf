//! A sample of a file that takes long to read whole.

use std::io::{self, Read, Seek, SeekFrom};

use super::lines::Lines;

/// Lines out of the whole file, as many as a chart has points for.
const N_LINES: u64 = 256;

/// The end of the file is read whole: it has the newest results.
const END_BYTES: u64 = 256 << 10;

/// What is read for a line at first. Most results have fewer bytes.
const STEP_BYTES: u64 = 8 << 10;

/// What is read for a line at most.
const MAX_STEP_BYTES: u64 = 256 << 10;

/// What was read of a file.
pub(super) struct Sampled {
    /// After its last complete line.
    pub(super) place: Lines,
    /// How many lines the file has, about.
    pub(super) n_lines: u64,
}

/// Calls `each` with lines from evenly spaced places of the file, and then with all of its last ones, in
/// order. `None` if there is no complete line where one was looked for.
///
/// *Reads* 4 MB of a file of any size if its lines have a few kilobytes, and 130 MB at most.
pub(super) fn sample<F: Read + Seek>(file: &mut F, mut each: impl FnMut(&[u8])) -> io::Result<Option<Sampled>> {
    let len = file.seek(SeekFrom::End(0))?;
    let end_begins = len.saturating_sub(END_BYTES);
    let (mut after, mut bytes, mut n) = (0, 0, 0);
    for i in 0..N_LINES {
        let target = (u128::from(i) * u128::from(end_begins) / u128::from(N_LINES)) as u64;
        if target < after {
            continue;
        }
        let Some((begins, line)) = line_after(file, target)? else { continue };
        if begins < end_begins {
            each(&line);
            after = begins + line.len() as u64 + 1;
            bytes += line.len() as u64 + 1;
            n += 1;
        }
    }
    file.seek(SeekFrom::Start(end_begins.max(after)))?;
    let mut end = Vec::new();
    // The last of the lines may end beyond: the file may have grown since.
    file.by_ref().take(len.saturating_sub(end_begins.max(after))).read_to_end(&mut end)?;
    let first =
        if end_begins > after { end.iter().position(|&byte| byte == b'\n').map_or(end.len(), |at| at + 1) } else { 0 };
    let Some(last) = end.iter().rposition(|&byte| byte == b'\n').filter(|last| *last >= first) else { return Ok(None) };
    let mut last_line: &[u8] = &[];
    for line in end[first..last].split(|&byte| byte == b'\n') {
        each(line);
        bytes += line.len() as u64 + 1;
        n += 1;
        last_line = line;
    }
    let offset = end_begins.max(after) + last as u64 + 1;
    Ok(Some(Sampled { place: Lines::after(offset, last_line), n_lines: n * offset / bytes.max(1) }))
}

/// The first line that begins at or after `target`, and where; `None` if none is found.
fn line_after<F: Read + Seek>(file: &mut F, target: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    // With the byte before, since a line may begin right at the target.
    let from = target.saturating_sub(1);
    file.seek(SeekFrom::Start(from))?;
    let (mut read, mut step) = (Vec::new(), STEP_BYTES);
    while (read.len() as u64) < MAX_STEP_BYTES {
        if file.by_ref().take(step).read_to_end(&mut read)? == 0 {
            return Ok(None);
        }
        let begins = if target == 0 { Some(0) } else { read.iter().position(|&byte| byte == b'\n').map(|end| end + 1) };
        if let Some(begins) = begins
            && let Some(length) = read[begins..].iter().position(|&byte| byte == b'\n')
        {
            return Ok(Some((from + begins as u64, read[begins..begins + length].to_vec())));
        }
        step *= 2;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::lines::Progress;
    use super::*;

    /// Counts what is read.
    struct Counted(Cursor<Vec<u8>>, usize);

    impl Read for Counted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.0.read(buffer)?;
            self.1 += n;
            Ok(n)
        }
    }

    impl Seek for Counted {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    fn sampled(text: String) -> (Vec<u64>, Option<Sampled>, Counted) {
        let mut file = Counted(Cursor::new(text.into_bytes()), 0);
        let mut found = Vec::new();
        let number = |line: &[u8]| std::str::from_utf8(line).unwrap().split(' ').next().unwrap().parse().unwrap();
        let sampled = sample(&mut file, |line| found.push(number(line))).unwrap();
        (found, sampled, file)
    }

    #[test]
    fn a_sample_reads_little_of_a_large_file_and_all_of_its_end() {
        let line = |i: u64| format!("{i} {}\n", "x".repeat(1000 + (i % 7) as usize * 100));
        let text: String = (0..60_000).map(line).collect();
        let bytes = text.len();
        let (found, sampled, mut file) = sampled(text);
        assert!(bytes > 70_000_000 && file.1 < 4_000_000, "{} of {bytes} bytes", file.1);
        assert!(found.is_sorted_by(|a, b| a < b), "in order, and none twice");
        assert_eq!((found[0], found[found.len() - 1]), (0, 59_999));
        assert!(found.len() > 400 && found[found.len() - 150..].windows(2).all(|pair| pair[1] == pair[0] + 1));
        // Evenly, to within a line.
        assert!(found[..256].windows(2).all(|pair| (230..240).contains(&(pair[1] - pair[0]))), "{:?}", &found[..256]);
        let mut sampled = sampled.unwrap();
        assert!((59_000..61_000).contains(&sampled.n_lines), "{}", sampled.n_lines);
        file.0.get_mut().extend(b"60000 more\n");
        let mut further = Vec::new();
        let progress = sampled.place.read_on(&mut file, u64::MAX, |line| further.push(line.unwrap().to_vec())).unwrap();
        assert_eq!((progress, further), (Progress::AtEnd, vec![b"60000 more".to_vec()]));
    }

    /// A file that has become longer once its length is known.
    struct Growing(Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Growing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Seek for Growing {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            let place = self.0.seek(to)?;
            if to == SeekFrom::End(0) {
                self.0.get_mut().append(&mut self.1);
            }
            Ok(place)
        }
    }

    #[test]
    fn a_line_may_end_where_the_file_has_grown_meanwhile() {
        // The last place that is looked at is where the long line begins, just before the part that is read
        // whole.
        let text = "y\n".repeat(127_500) + &"z".repeat(END_BYTES as usize + 1000);
        let mut file = Growing(Cursor::new(text.into_bytes()), b"z\n".to_vec());
        let mut last = Vec::new();
        let sampled = sample(&mut file, |line| last = line.to_vec()).unwrap();
        assert_eq!((sampled.is_none(), last.len()), (true, END_BYTES as usize + 1001));
    }

    #[test]
    fn a_small_file_is_read_whole() {
        let (found, sampled, _) = sampled("0\n1\n2\n3".to_owned());
        assert_eq!((found, sampled.unwrap().n_lines), (vec![0, 1, 2], 3));
        assert!(sampled_none(""), "no line");
        assert!(sampled_none("no line end"));
    }

    fn sampled_none(text: &str) -> bool {
        sample(&mut Cursor::new(text.as_bytes()), |_| panic!("no line")).unwrap().is_none()
    }
}
