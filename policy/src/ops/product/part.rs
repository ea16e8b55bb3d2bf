//! The part of a product that is computed at once: some rows, a panel of columns, all terms.

use super::operands::{BLOCK, PANEL, Product, Segment};

/// Rows at once: those of two tiles.
pub(super) const ROWS: usize = 32;

/// The sums of some rows in a panel of columns.
pub(super) type Sums = [[f32; PANEL]; ROWS];

/// A panel of the right operand: rows of pairs, as wide as its blocks of columns.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    pub(super) pairs: &'a [u32],
    pub(super) blocks: usize,
}

impl Panel<'_> {
    /// The distance of rows of pairs.
    pub(super) fn step(self) -> usize {
        self.blocks * BLOCK
    }
}

/// A term of a product: its offsets in both operands.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) a: usize,
    pub(super) b: usize,
}

/// All terms of a product.
pub(super) fn terms<'a>(product: &Product<'a>) -> impl Iterator<Item = Term> + use<'a> {
    let (segments, a_step, b_step) = (product.segments, product.a.step, product.b.step);
    let of = move |segment: &'a Segment| {
        (0..segment.len).map(move |p| Term { a: segment.a + p * a_step, b: segment.b + p * b_step })
    };
    segments.iter().flat_map(of)
}
