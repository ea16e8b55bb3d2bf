//! The framing of a TFRecord file: length, its checksum, data, its checksum.
//!
//! *Source*: TensorFlow, "TFRecords format details" and `core/lib/hash/crc32c.h`.

/// `data` as one record.
pub(super) fn record(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    [&len, &masked_crc(&len).to_le_bytes()[..], data, &masked_crc(data).to_le_bytes()].concat()
}

/// A masked CRC-32C, safe for data that contains checksums.
pub(super) fn masked_crc(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}
