//! Bytes that are read from front to back.

use serde::Deserialize;

use super::error::FrameError;

/// The shortest encoding of an element of a list, in bytes.
const SHORTEST: usize = 2;

/// The rest of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes; `what` they are is for the error.
    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], FrameError> {
        let ends = FrameError::Ends { what, expected: len, got: self.rest.len() };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(ends)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Copies the next bytes, as many as `to` has.
    pub(super) fn copy(&mut self, to: &mut [u8], what: &'static str) -> Result<(), FrameError> {
        to.copy_from_slice(self.take(to.len(), what)?);
        Ok(())
    }

    /// The next value in postcard.
    pub(super) fn value<T: Deserialize<'a>>(&mut self, what: &'static str) -> Result<T, FrameError> {
        let unreadable = |cause| FrameError::Header { what, cause };
        let (value, rest) = postcard::take_from_bytes(self.rest).map_err(unreadable)?;
        self.rest = rest;
        Ok(value)
    }

    /// The next `len` values. No memory is taken for more than there can be in the bytes that are left.
    pub(super) fn values<T: Deserialize<'a>>(&mut self, len: usize, what: &'static str) -> Result<Vec<T>, FrameError> {
        let shortest = len.saturating_mul(SHORTEST);
        if shortest > self.rest.len() {
            return Err(FrameError::Ends { what, expected: shortest, got: self.rest.len() });
        }
        let mut values = Vec::with_capacity(len);
        for _ in 0..len {
            values.push(self.value(what)?);
        }
        Ok(values)
    }
}
