use std::ops::Range;

use crate::cpu_network::image_layout::ImageLayout;
use crate::ops::interleave;
use crate::space::ByteScale;
use crate::{Input, ObsRef};

/// How a network reads observations.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(super) obs_len: usize,
    /// Whether its encoder is for images.
    pub(super) images: bool,
    /// Of bytes that are no pixels.
    pub(super) byte_scale: Option<ByteScale>,
}

/// Observations of a micro-batch.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    rows: usize,
    numbers: Vec<f32>,
    bytes: Vec<u8>,
}

impl Observations {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// All of them as floats; bytes are scaled.
    pub(super) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Draws image number `i` onto a canvas.
    pub(super) fn draw(&self, i: usize, canvas: ImageLayout, to: &mut [f32]) {
        let len = canvas.height * canvas.width * canvas.channels;
        let (size, inside) = ((canvas.height, canvas.width), &mut to[canvas.at(0, 0)..]);
        if self.bytes.is_empty() {
            interleave(&self.numbers[i * len..][..len], size, inside, canvas.row());
        } else {
            interleave(&self.bytes[i * len..][..len], size, inside, canvas.row());
        }
    }

    /// Copies rows of a batch. Pixels stay bytes for image encoders, which scale them later.
    pub(super) fn load(&mut self, input: &Input<'_>, span: Span, reading: &Reading) {
        let Reading { obs_len, images, .. } = *reading;
        self.rows = span.rows();
        self.numbers.clear();
        self.bytes.clear();
        let mut add = |range: Range<usize>| match input.obs {
            ObsRef::F32(obs) => self.numbers.extend_from_slice(&obs[range]),
            ObsRef::U8(obs) => match &reading.byte_scale {
                Some(scale) => scale.extend(&mut self.numbers, &obs[range]),
                None if images => self.bytes.extend_from_slice(&obs[range]),
                None => self.numbers.extend(obs[range].iter().map(|&byte| f32::from(byte) * (1.0 / 255.0))),
            },
        };
        for row in span.first_rows() {
            let rows = row..row + span.columns;
            match input.row_starts {
                None => add(rows.start * obs_len..rows.end * obs_len),
                Some(starts) => starts[rows].iter().for_each(|&start| add(start..start + obs_len)),
            }
        }
    }
}

/// Rows of a batch: some columns of every step. A feed-forward batch is one step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(super) first_column: usize,
    pub(super) columns: usize,
    pub(super) steps: usize,
    /// Columns of the batch.
    pub(super) of: usize,
}

impl Span {
    pub(super) fn rows(self) -> usize {
        self.steps * self.columns
    }

    /// The first row of each step in the batch.
    pub(super) fn first_rows(self) -> impl Iterator<Item = usize> {
        (0..self.steps).map(move |step| step * self.of + self.first_column)
    }

    /// Copies its rows into those of the batch.
    pub(super) fn put_rows(self, own: &[f32], batch: &mut [f32]) {
        let width = own.len().checked_div(self.rows()).unwrap_or(0);
        for (own, first) in own.chunks_exact((self.columns * width).max(1)).zip(self.first_rows()) {
            batch[first * width..][..own.len()].copy_from_slice(own);
        }
    }

    /// Copies its rows of a batch.
    pub(super) fn take_rows(self, batch: &[f32], own: &mut Vec<f32>) {
        let width = batch.len().checked_div(self.steps * self.of).unwrap_or(0);
        own.clear();
        self.first_rows().for_each(|row| own.extend_from_slice(&batch[row * width..][..self.columns * width]));
    }
}
