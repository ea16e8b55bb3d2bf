//! The inner loop of all layers: a matrix product over operands at arbitrary offsets.
//!
//! A dense layer, its two gradients, a convolution, its two gradients and the gates of an LSTM are all
//!
//! ```text
//! out[g, i, j]  =  finish( start[g, i, j] + Σ over segments s, Σ over p < s.len  a[g.a + s.a + i·row + p·step] · b[s.b + p·step + j] )
//! ```
//!
//! and differ in the offsets alone. A convolution reads windows in place: neighbouring windows are
//! overlapping rows of `a`, a group is a row of pixels, a segment a row of the kernel.
//!
//! *Layout*: `b` is in *panels* of [`PANEL`] columns; all matrices have [`padded`] columns, zero beyond the
//! last.
//!
//! *Precision*: by [`Rounding`], both factors are rounded to bfloat16; sums, start and finish are `f32` in
//! any case.
//!
//! *Instructions*: `pulp` chooses AVX-512, AVX2 with FMA, NEON or scalar code at run time. The order of a sum
//! depends on the offsets alone; instruction sets differ in the last bits.

mod bf16;
mod kernel;
mod operands;
mod part;
mod passes;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles;

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use operands::{TERMS, sum};

pub(crate) use bf16::Unit;
pub(crate) use operands::{
    BLOCK, CACHED, Finish, Group, Left, PANEL, Place, Product, Right, Rounding, Segment, Start, Values, padded,
    rows_of_pairs,
};

pub(crate) use kernel::tanh_of_each;

impl Product<'_> {
    /// Computes the product into `out`.
    ///
    /// *Panics* on an offset out of range: offsets come from this crate's tables, never from input.
    pub(crate) fn run(self, out: &mut [f32]) {
        dispatch(Run { product: self, out });
    }

    /// The same with the instructions of `simd`.
    #[inline(always)]
    fn run_with<S: Simd>(self, simd: S, out: &mut [f32]) {
        if self.rows == 0 || self.columns == 0 || self.groups.is_empty() {
            return;
        }
        self.check(out.len());
        // SAFETY: `check` has found every index of every operand inside its slice.
        #[allow(unsafe_code)]
        unsafe {
            kernel::run(simd, &self, out);
        }
    }

    /// Checks that all accesses of the kernel are in range, for at least one row, column and group.
    fn check(&self, out_len: usize) {
        let (rows, columns) = (self.rows, self.columns);
        let (mut group_a, mut group_out, mut group_y) = (0, 0, 0);
        for group in self.groups {
            group_a = group_a.max(group.a);
            group_out = group_out.max(group.out);
            group_y = group_y.max(group.y);
        }
        assert!(columns == padded(columns), "columns are padded");
        assert!(sum([group_out, self.out.last(rows, columns)]) < out_len, "the result lies inside its slice");
        for segment in self.segments.iter().filter(|segment| segment.len > 0) {
            let last = segment.len - 1;
            let (row, term) = ((rows - 1).saturating_mul(self.a.row), last.saturating_mul(self.a.step));
            let a = sum([group_a, segment.a, row, term]);
            assert!(a < self.a.numbers.len(), "the left operand lies inside its slice");
            match self.b.rounding {
                Rounding::Exact | Rounding::Both => {
                    if let Rounding::Both = self.b.rounding {
                        assert!(self.a.row == 1, "rows of the left operand are neighbours");
                    }
                    let b_place = Place { row: self.b.step, panel: self.b.panel };
                    let b = sum([segment.b, b_place.last(segment.len, columns)]);
                    assert!(b < self.b.numbers.len(), "the right operand lies inside its slice");
                }
                Rounding::Pairs(pairs) => {
                    assert!(self.a.step == 1, "terms of the left operand are neighbours");
                    assert!(self.b.step == columns.min(PANEL), "rows of the right operand are as long as its panels");
                    assert!(segment.b % (2 * self.b.step) == 0, "a segment begins with a whole pair");
                    let b_place = Place { row: self.b.step, panel: self.b.pairs_panel() };
                    let terms = segment.len.next_multiple_of(TERMS);
                    // And the block beside the last, which is read where there is a single block.
                    let b = sum([segment.b / 2, b_place.last(terms / 2, columns), BLOCK]);
                    assert!(b < pairs.len(), "the right operand's pairs lie inside their slice");
                }
            }
        }
        if let Some(bias) = self.start.bias() {
            assert!(columns <= bias.len(), "there is a bias for every column");
        }
        if let Some(y) = self.finish.values() {
            assert!(sum([group_y, y.place.last(rows, columns)]) < y.numbers.len(), "there is a value for every number");
        }
    }
}

struct Run<'a> {
    product: Product<'a>,
    out: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.product.run_with(simd, self.out);
    }
}

/// Cuts a sum of `len` terms, at distances `a_step` and `b_step`, into segments that fit the cache.
pub(crate) fn cut(segments: &mut Vec<Segment>, len: usize, a_step: usize, b_step: usize) {
    const LONGEST: usize = CACHED / PANEL;
    segments.clear();
    let starts = (0..len).step_by(LONGEST);
    segments.extend(starts.map(|p| Segment { a: p * a_step, b: p * b_step, len: LONGEST.min(len - p) }));
}

#[cfg(test)]
mod tests;
