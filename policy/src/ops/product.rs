//! The one loop in which a network spends its time: a matrix product whose operands lie wherever they lie.
//!
//! A dense layer, its two gradients, a convolution, its two gradients and the gates of an LSTM are all
//!
//! ```text
//! out[g, i, j]  =  finish( start[g, i, j] + Σ over segments s, Σ over p < s.len  a[g.a + s.a + i·row + p·step] · b[s.b + p·step + j] )
//! ```
//!
//! and differ in the offsets alone. A convolution reads the windows of an image where they are: two neighbouring windows
//! are two rows of `a` that overlap, a group is a row of pixels, a segment a row of the kernel. So nothing is copied into
//! columns first, and one kernel has to be fast.
//!
//! *Layout*: `b` comes in *panels* of [`PANEL`] columns, so that what is read together lies together; all matrices that
//! take part have [`padded`] columns, zero beyond the last one that means something.
//!
//! *Instructions*: chosen at run time by `pulp` (AVX-512, AVX2 with FMA, NEON, or what every machine has). The order of
//! a sum depends on the offsets and never on threads; sets of instructions differ in the last bits.

mod kernel;

use pulp::{Simd, WithSimd};

pub(crate) use kernel::tanh_of_each;

/// Columns are computed in blocks of this many: one register of AVX-512, two of AVX2, four of NEON.
pub(crate) const BLOCK: usize = 16;

/// The most columns that lie together in `b`: four registers of AVX-512.
pub(crate) const PANEL: usize = 64;

/// How many columns a matrix of so many is stored with: one block, two, or whole panels.
pub(crate) const fn padded(columns: usize) -> usize {
    match columns {
        0..=BLOCK => BLOCK,
        columns if columns <= 2 * BLOCK => 2 * BLOCK,
        columns => columns.next_multiple_of(PANEL),
    }
}

/// Numbers of `b` that stay in the first-level cache while all rows pass by, 24 of usually 32 to 48 KiB.
const CACHED: usize = 6 * 1024;

/// One matrix product, described. [`Product::run`] computes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    /// The left operand, read number by number.
    pub(crate) a: Left<'a>,
    /// The right operand, read in whole blocks.
    pub(crate) b: Right<'a>,
    /// Where the result goes.
    pub(crate) out: Place,
    /// Rows of each group.
    pub(crate) rows: usize,
    /// Columns, padded.
    pub(crate) columns: usize,
    /// Sets of rows.
    pub(crate) groups: &'a [Group],
    /// Pieces of the sum.
    pub(crate) segments: &'a [Segment],
    /// What the sum starts from.
    pub(crate) start: Start<'a>,
    /// What becomes of it.
    pub(crate) finish: Finish<'a>,
}

/// Row `i` and term `p` of the left operand are at `i * row + p * step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) row: usize,
    pub(crate) step: usize,
}

/// Term `p` and column `j` of the right operand are at `j / PANEL * panel + p * step + j % PANEL`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) step: usize,
    pub(crate) panel: usize,
}

/// Row `i` and column `j` are at `i * row + j / PANEL * panel + j % PANEL`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) row: usize,
    pub(crate) panel: usize,
}

impl Place {
    /// Row after row.
    pub(crate) const fn rows_of(row: usize) -> Self {
        Self { row, panel: PANEL }
    }

    /// The greatest index of so many rows and columns.
    fn last(self, rows: usize, columns: usize) -> usize {
        let (row, panel) = ((rows - 1).saturating_mul(self.row), ((columns - 1) / PANEL).saturating_mul(self.panel));
        sum([row, panel, (columns - 1) % PANEL])
    }
}

/// Where a set of rows begins: in the left operand, in the result, and in the values that a slope is taken from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub(crate) a: usize,
    pub(crate) out: usize,
    pub(crate) y: usize,
}

/// Where a piece of the sum begins in each operand, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// What a sum starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// Nothing.
    Zero,
    /// A number per column.
    Bias(&'a [f32]),
    /// What the result's place holds.
    Out,
    /// Both.
    OutAndBias(&'a [f32]),
}

impl<'a> Start<'a> {
    fn bias(self) -> Option<&'a [f32]> {
        match self {
            Self::Bias(bias) | Self::OutAndBias(bias) => Some(bias),
            Self::Zero | Self::Out => None,
        }
    }
}

/// What becomes of a sum. NaN stays NaN in all of them, save where ReLU's slope is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finish<'a> {
    /// It is the result.
    Nothing,
    /// Zero below zero.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// The sum times the slope that ReLU had where it gave these values.
    ReluSlope(Values<'a>),
    /// The sum times the slope that the tangent had where it gave these values.
    TanhSlope(Values<'a>),
    /// The sum times ReLU's slope, added to what the result's place holds.
    AddReluSlope(Values<'a>),
}

impl<'a> Finish<'a> {
    fn values(self) -> Option<Values<'a>> {
        match self {
            Self::ReluSlope(y) | Self::TanhSlope(y) | Self::AddReluSlope(y) => Some(y),
            Self::Nothing | Self::Relu | Self::Tanh => None,
        }
    }
}

/// What an activation gave: one value for each number of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) place: Place,
}

impl Product<'_> {
    /// Computes the product into `out`.
    ///
    /// *Panics* if an offset leads out of a slice: offsets come from tables that this crate makes, never from input.
    pub(crate) fn run(self, out: &mut [f32]) {
        pulp::Arch::new().dispatch(Run { product: self, out });
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

    /// Whether everything that the kernel will touch lies inside the slices, for at least one row, column and group.
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

/// The sum, or the greatest number there is: an offset below zero comes as a very great one and must not wrap around.
fn sum<const N: usize>(terms: [usize; N]) -> usize {
    terms.into_iter().fold(0, usize::saturating_add)
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

/// Cuts a sum of `len` terms, `a_step` and `b_step` apart, into segments short enough to stay in the cache.
pub(crate) fn cut(segments: &mut Vec<Segment>, len: usize, a_step: usize, b_step: usize) {
    const LONGEST: usize = CACHED / PANEL;
    segments.clear();
    let starts = (0..len).step_by(LONGEST);
    segments.extend(starts.map(|p| Segment { a: p * a_step, b: p * b_step, len: LONGEST.min(len - p) }));
}

#[cfg(test)]
mod tests;
