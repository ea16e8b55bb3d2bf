//! Animated PNGs, one compressed frame after the other.
//!
//! A frame stores the rectangle in which it differs from the one before. The `png` crate compresses each as a
//! picture of its own, whose data then become a chunk of the animation: the number of frames stands at the
//! beginning of the file and is only known at the end.
//!
//! Source: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", 2025, §11.3.2.

use std::ops::{ControlFlow, Range};

use png::chunk::{ChunkType, IDAT, fcTL, fdAT};
use png::{BitDepth, ColorType, Encoder, EncodingError};
use pronk_rollout::Frame;

use super::error::VideoError;

/// Faster rates are slower in browsers: a delay of 10 ms or less counts as 100 ms.
const MAX_FPS: u16 = 60;

/// Bytes of a pixel.
const RGB: usize = 3;

/// The frames of a video.
pub(super) struct Animation {
    width: u32,
    height: u32,
    fps: u16,
    /// Without the first, `changes[i]` is what frame `i` changes in the one before.
    changes: Vec<Change>,
    /// Pixels of the newest frame.
    newest: Vec<u8>,
    bytes: usize,
}

/// A rectangle of new pixels.
struct Change {
    columns: Range<u32>,
    rows: Range<u32>,
    /// Filtered and compressed.
    data: Vec<u8>,
}

impl Animation {
    /// An empty animation for frames like this one.
    pub(super) fn of(frame: &Frame, fps: Option<u16>) -> Self {
        Self {
            width: frame.width(),
            height: frame.height(),
            fps: fps.unwrap_or(frame.fps()).clamp(1, MAX_FPS),
            changes: Vec::new(),
            newest: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn n_frames(&self) -> u32 {
        self.changes.len() as u32
    }

    /// Adds a frame, or breaks if that would make more than `max_bytes`; the first is always added.
    pub(super) fn push(&mut self, frame: &Frame, max_bytes: usize) -> Result<ControlFlow<()>, VideoError> {
        let (size, first) = ((frame.width(), frame.height()), (self.width, self.height));
        if size != first {
            return Err(VideoError::Size { frame: self.n_frames() + 1, size, first });
        }
        let (columns, rows) = self.changed(frame.rgb());
        let row_bytes = self.width as usize * RGB;
        let part = columns.start as usize * RGB..columns.end as usize * RGB;
        let all_rows = frame.rgb().chunks_exact(row_bytes).take(rows.end as usize).skip(rows.start as usize);
        let pixels: Vec<u8> = all_rows.flat_map(|row| &row[part.clone()]).copied().collect();
        let data = compressed(&pixels, columns.len() as u32, rows.len() as u32)?;
        if !self.changes.is_empty() && self.bytes + data.len() > max_bytes {
            return Ok(ControlFlow::Break(()));
        }
        self.bytes += data.len();
        self.changes.push(Change { columns, rows, data });
        self.newest.clear();
        self.newest.extend_from_slice(frame.rgb());
        Ok(ControlFlow::Continue(()))
    }

    /// The columns and rows outside which a frame is as the newest one; at least one pixel, as the format
    /// demands.
    fn changed(&self, rgb: &[u8]) -> (Range<u32>, Range<u32>) {
        if self.newest.is_empty() {
            return (0..self.width, 0..self.height);
        }
        let row_bytes = self.width as usize * RGB;
        let (mut columns, mut rows) = (self.width..0, self.height..0);
        let both = self.newest.chunks_exact(row_bytes).zip(rgb.chunks_exact(row_bytes));
        for (y, (old, new)) in (0..).zip(both).filter(|(_, (old, new))| old != new) {
            let differs = |(old, new): (&u8, &u8)| old != new;
            let left = old.iter().zip(new).position(differs).unwrap_or(0) / RGB;
            let right = old.iter().zip(new).rposition(differs).unwrap_or(0) / RGB;
            columns = columns.start.min(left as u32)..columns.end.max(right as u32 + 1);
            rows = rows.start.min(y)..y + 1;
        }
        if rows.is_empty() { (0..1, 0..1) } else { (columns, rows) }
    }

    /// The file. It repeats for ever, and shows its last frame for a second.
    pub(super) fn to_png(&self) -> Result<Vec<u8>, EncodingError> {
        let mut png = Vec::new();
        let mut encoder = encoder(&mut png, self.width, self.height);
        encoder.set_animated(self.n_frames(), 0)?;
        let mut writer = encoder.write_header()?;
        let mut sequence_number = 0u32..;
        let mut next = || sequence_number.next().unwrap_or_default().to_be_bytes();
        for (index, Change { columns, rows, data }) in self.changes.iter().enumerate() {
            let is_last = index + 1 == self.changes.len();
            let mut control = next().to_vec();
            for number in [columns.len() as u32, rows.len() as u32, columns.start, rows.start] {
                control.extend(number.to_be_bytes());
            }
            // A fraction of a second.
            for number in [1, if is_last { 1 } else { self.fps }] {
                control.extend(number.to_be_bytes());
            }
            // The pixels stay, and replace those below them.
            control.extend([0, 0]);
            writer.write_chunk(fcTL, &control)?;
            match index {
                0 => writer.write_chunk(IDAT, data)?,
                _ => writer.write_chunk(fdAT, &[&next()[..], data].concat())?,
            }
        }
        writer.finish()?;
        Ok(png)
    }
}

/// The pixels of a picture as the data of a PNG.
fn compressed(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, EncodingError> {
    let mut png = Vec::new();
    let mut writer = encoder(&mut png, width, height).write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(chunks(&png).filter(|(kind, _)| *kind == IDAT).flat_map(|(_, data)| data).copied().collect())
}

fn encoder(png: &mut Vec<u8>, width: u32, height: u32) -> Encoder<'static, &mut Vec<u8>> {
    let mut encoder = Encoder::new(png, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder
}

/// The kinds and the data of a file's chunks.
fn chunks(png: &[u8]) -> impl Iterator<Item = (ChunkType, &[u8])> {
    // After a signature of 8 bytes, each has a length, a kind, its data and a checksum.
    let mut rest = &png[8.min(png.len())..];
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk()?;
        let (kind, after) = after.split_first_chunk()?;
        let (data, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        rest = after.get(4..)?;
        Some((ChunkType(*kind), data))
    })
}
