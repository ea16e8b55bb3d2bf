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
//! *Instructions*: `pulp` chooses AVX-512, AVX2 with FMA, NEON or scalar code at run time. The order of a sum
//! depends on the offsets alone; instruction sets differ in the last bits.

mod kernel;
mod operands;

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;
use operands::sum;

pub(crate) use operands::{
    BLOCK, CACHED, Finish, Group, Left, PANEL, Place, Product, Right, Segment, Start, Values, padded,
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
            let b_place = Place { row: self.b.step, panel: self.b.panel };
            let b = sum([segment.b, b_place.last(segment.len, columns)]);
            assert!(b < self.b.numbers.len(), "the right operand lies inside its slice");
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
