//! Frames: how entries lie in a file, so that a torn end is cut off and a flipped bit is noticed.

use std::io::{self, BufRead, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::FrameError;

/// Length, half of its checksum, and the checksum of the frame.
const HEAD: usize = 4 + 2 + 4;

/// The largest frame, in bytes: a length beyond it is damaged.
const LARGEST: usize = 1 << 30;

/// Writes frames, each in one piece.
pub(super) struct FrameWriter<W> {
    file: W,
    buffer: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    pub(super) fn new(file: W) -> Self {
        Self { file, buffer: Vec::new() }
    }

    pub(super) fn write(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.resize(HEAD, 0);
        let mut frame = std::mem::take(&mut self.buffer);
        frame = postcard::to_extend(value, frame).map_err(io::Error::other)?;
        let len = u32::try_from(frame.len() - HEAD).ok().filter(|len| *len as usize <= LARGEST);
        let len = len.ok_or_else(|| io::Error::other("a frame of more than a gigabyte"))?.to_le_bytes();
        let sum = crc32c::crc32c(&frame[HEAD..]).to_le_bytes();
        frame[..4].copy_from_slice(&len);
        frame[4..6].copy_from_slice(&half_sum(len));
        frame[6..HEAD].copy_from_slice(&sum);
        self.file.write_all(&frame)?;
        self.buffer = frame;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads frames.
pub(super) struct FrameReader<R> {
    file: R,
    /// Where the next frame begins.
    at: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> FrameReader<R> {
    pub(super) fn new(file: R) -> Self {
        Self { file, at: 0, buffer: Vec::new() }
    }

    /// The next frame; `None` at the end, which a killed run may have torn.
    pub(super) fn read<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let at = self.at;
        let damaged = |what| FrameError::Damaged { at, what };
        let Some(head) = self.read_exactly(HEAD)? else { return Ok(None) };
        let [a, b, c, d, e, f, g, h, i, j] = *head else { return Err(damaged("the head of a frame")) };
        let (len, sum) = ([a, b, c, d], [g, h, i, j]);
        if half_sum(len) != [e, f] || u32::from_le_bytes(len) as usize > LARGEST {
            return Err(damaged("the length of a frame"));
        }
        let Some(frame) = self.read_exactly(u32::from_le_bytes(len) as usize)? else { return Ok(None) };
        if crc32c::crc32c(frame).to_le_bytes() != sum {
            return Err(damaged("a frame"));
        }
        postcard::from_bytes(frame).map(Some).map_err(|_| damaged("the content of a frame"))
    }

    /// So many bytes; `None` if the file ends before.
    fn read_exactly(&mut self, len: usize) -> Result<Option<&[u8]>, FrameError> {
        self.buffer.clear();
        let read = self.file.by_ref().take(len as u64).read_to_end(&mut self.buffer)?;
        self.at += read as u64;
        Ok((read == len).then_some(self.buffer.as_slice()))
    }
}

fn half_sum(len: [u8; 4]) -> [u8; 2] {
    let [a, b, ..] = crc32c::crc32c(&len).to_le_bytes();
    [a, b]
}

#[cfg(test)]
mod tests;
