//! The last line of a file, without reading the others.

use std::io::{self, Read, Seek, SeekFrom};

use super::lines::MAX_LINE_BYTES;

/// The last complete line that `read` can make something of, among the last few lines of the file.
pub(super) fn last_line<F: Read + Seek, T>(
    file: &mut F,
    mut read: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let len = file.seek(SeekFrom::End(0))?;
    let mut bytes = 16 << 10;
    loop {
        let begins = len.saturating_sub(bytes);
        file.seek(SeekFrom::Start(begins))?;
        let mut tail = Vec::new();
        file.by_ref().take(len - begins).read_to_end(&mut tail)?;
        // After the last line end one is being written, and before the first there may be half of one.
        let complete = tail.iter().rposition(|&byte| byte == b'\n').map_or(&[][..], |end| &tail[..end]);
        let whole = match complete.iter().position(|&byte| byte == b'\n') {
            _ if begins == 0 => complete,
            Some(end) => &complete[end + 1..],
            None => &[],
        };
        let found = whole.rsplit(|&byte| byte == b'\n').find_map(&mut read);
        if found.is_some() || begins == 0 || bytes > MAX_LINE_BYTES as u64 {
            return Ok(found);
        }
        bytes *= 8;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn it_is_the_last_complete_line_that_can_be_read() {
        let last = |text: &str| {
            let number = |line: &[u8]| std::str::from_utf8(line).ok()?.trim().parse::<u64>().ok();
            last_line(&mut Cursor::new(text.as_bytes()), number).unwrap()
        };
        assert_eq!(last(""), None);
        assert_eq!(last("1"), None);
        assert_eq!(last("1\n2\n3"), Some(2));
        assert_eq!(last("1\n2\nbroken\n\n"), Some(2));
        let long = format!("1\n{}7\n", " ".repeat(100_000));
        assert_eq!(last(&long), Some(7));
        let far = format!("1\n{}", "broken\n".repeat(100_000));
        assert_eq!(last(&far), Some(1));
    }
}
