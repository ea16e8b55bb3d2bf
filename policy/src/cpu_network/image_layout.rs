//! Images in memory: channels of a pixel together, with a border of zeros.

use crate::ops::padded;

/// The layout of an image. The border stays zero and is a convolution's padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageLayout {
    pub(super) height: usize,
    pub(super) width: usize,
    /// Numbers stored per pixel.
    pub(super) channels: usize,
    pub(super) border: usize,
}

impl ImageLayout {
    /// An image inside a network: channels are padded.
    pub(super) fn inner(image: crate::spec::Image, border: usize) -> Self {
        Self { height: image.height, width: image.width, channels: padded(image.channels), border }
    }

    /// The distance of rows of pixels.
    pub(super) fn row(self) -> usize {
        (self.width + 2 * self.border) * self.channels
    }

    /// Its length.
    pub(super) fn len(self) -> usize {
        (self.height + 2 * self.border) * self.row()
    }

    /// The offset of a pixel; coordinates begin at `-border`.
    pub(super) fn at(self, y: isize, x: isize) -> usize {
        let border = self.border.cast_signed();
        (y + border).cast_unsigned() * self.row() + (x + border).cast_unsigned() * self.channels
    }

    /// The rows of pixels inside the border.
    pub(super) fn rows(self, numbers: &[f32]) -> impl Iterator<Item = &[f32]> {
        let (first, len) = (self.at(0, 0), self.width * self.channels);
        numbers[first..].chunks(self.row()).take(self.height).map(move |row| &row[..len])
    }

    /// The rows of pixels inside the border, mutable.
    pub(super) fn rows_mut(self, numbers: &mut [f32]) -> impl Iterator<Item = &mut [f32]> {
        let (first, len) = (self.at(0, 0), self.width * self.channels);
        numbers[first..].chunks_mut(self.row()).take(self.height).map(move |row| &mut row[..len])
    }
}
