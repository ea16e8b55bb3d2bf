//! Messages between hosts, for targets that send them: what makes a header a message, and inputs of several.

use std::collections::BTreeMap;

use pronk::hosts::{Facts, PROTOCOL};

/// The number of the run.
pub(super) const RUN: u64 = 7;

/// What both ends agree on.
pub(super) fn facts() -> Facts {
    BTreeMap::from([("spaces".to_owned(), "4 to 2".to_owned())])
}

/// The parts of an input: a kind, two bytes of a length, and so many bytes or all that are left.
pub(super) struct Records<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([kind, low, high], rest) = self.0.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let (payload, rest) = rest.split_at(len.min(rest.len()));
        self.0 = rest;
        Some((*kind, payload))
    }
}

/// A message of a header, whatever it says, and a body.
pub(super) fn framed(header: &[u8], body: &[u8]) -> Vec<u8> {
    let (checksum, len) = (crc32c::crc32c(header), header.len() as u32);
    [&b"pronk\n"[..], &PROTOCOL.to_le_bytes(), &checksum.to_le_bytes(), &len.to_le_bytes(), header, body].concat()
}

/// The header of a message; `None` if it is not whole.
pub(super) fn header_of(message: &[u8]) -> Option<&[u8]> {
    let len = u32::from_le_bytes(message.get(12..16)?.try_into().ok()?) as usize;
    message.get(16..16 + len).filter(|header| message.starts_with(&framed(header, &[])))
}

/// A number as postcard has it.
pub(super) fn varint(number: u64) -> Vec<u8> {
    postcard::to_stdvec(&number).unwrap_or_default()
}
