//! In which order the sums of a [`Product`] are added up.
#![allow(unsafe_code)] // Sums of rounded factors lie behind a pointer.

use std::ops::Range;

use super::bf16::Rounded;
use super::operands::{BLOCK, CACHED, Finish, PANEL, Product, Segment};
use super::part::ROWS;

/// The passes over a panel of columns. Each adds either some segments to the sums of all rows, or the whole
/// sums, of rounded factors, to some rows. Rows of all groups are numbered in one sequence.
pub(super) struct Passes<'a, 'b> {
    product: &'a Product<'b>,
    first_column: usize,
    blocks: usize,
    /// Segments that are still to add.
    segments: &'b [Segment],
    /// The first row that is still to compute.
    row: usize,
    /// The sums of factors that are rounded.
    rounded: Option<&'a mut Rounded>,
}

/// A part of the work.
pub(super) struct Pass<'a> {
    pub(super) rows: Range<usize>,
    pub(super) terms: Summands<'a>,
    pub(super) first: bool,
    pub(super) last: bool,
}

/// What a pass adds.
#[derive(Clone, Copy)]
pub(super) enum Summands<'a> {
    /// The products of these segments.
    Segments(&'a [Segment]),
    /// Sums that are computed: of row `i` of all rows and column `j` of the panel at `i * PANEL + j`.
    Sums(*const f32),
}

impl<'a, 'b> Passes<'a, 'b> {
    /// The passes over `blocks` blocks of columns; with a place for sums if factors are rounded.
    pub(super) fn new(
        product: &'a Product<'b>,
        first_column: usize,
        blocks: usize,
        rounded: Option<&'a mut Rounded>,
    ) -> Self {
        Self { product, first_column, blocks, segments: product.segments, row: 0, rounded }
    }

    /// The next pass. Its sums are there until the one after it.
    ///
    /// # Safety
    /// Every index of the product must be inside its slice.
    pub(super) unsafe fn next(&mut self) -> Option<Pass<'b>> {
        let product = self.product;
        let all = product.rows * product.groups.len();
        if self.row == all {
            return None;
        }
        let Some(rounded) = &mut self.rounded else {
            let first = self.segments.len() == product.segments.len();
            let (now, later) = self.segments.split_at(segments_at_once(product, self.segments, self.blocks * BLOCK));
            // A sum without segments has one pass nevertheless: it has a start and a finish.
            (self.segments, self.row) = (later, if later.is_empty() { all } else { 0 });
            return Some(Pass { rows: 0..all, terms: Summands::Segments(now), first, last: later.is_empty() });
        };
        let rows = self.row..all.min(self.row + ROWS);
        // SAFETY: as the caller says.
        let sums = unsafe { rounded.sums(product, rows.clone(), self.first_column, self.blocks) };
        self.row = rows.end;
        let sums = sums.wrapping_sub(rows.start * PANEL);
        Some(Pass { rows, terms: Summands::Sums(sums), first: true, last: true })
    }
}

/// The number of segments to sum over all rows: those that fit the cache, at least one.
fn segments_at_once(product: &Product<'_>, segments: &[Segment], width: usize) -> usize {
    if let Finish::AddReluSlope(_) = product.finish {
        // The result's place holds a value to keep, so a partial sum cannot be stored there.
        return segments.len();
    }
    let mut numbers = 0;
    let fitting = segments.iter().take_while(|segment| {
        numbers += segment.len * width;
        numbers <= CACHED
    });
    fitting.count().clamp(segments.len().min(1), segments.len())
}
