//! The inner loops of [`Product`](super::Product): tiles of the result that stay in registers.
#![allow(unsafe_code)] // Number by number through pointers: a bounds check would cost more than the arithmetic.

use std::ops::Range;

use pulp::Simd;

use super::bf16::Rounded;
use super::operands::{BLOCK, Finish, Group, PANEL, Product, Rounding, Start, Values};
use super::passes::{Pass, Passes, Summands};

/// Computes the product.
///
/// # Safety
/// Every index of the product must be inside its slice, including `out`.
#[inline(always)]
pub(super) unsafe fn run<S: Simd>(simd: S, product: &Product<'_>, out: &mut [f32]) {
    let out = out.as_mut_ptr();
    let mut rounded = match product.b.rounding {
        Rounding::Exact => None,
        Rounding::Pairs(_) | Rounding::Both => Some(Rounded::new()),
    };
    for first_column in (0..product.columns).step_by(PANEL) {
        let blocks = (product.columns - first_column).min(PANEL) / BLOCK;
        // A tile is as wide as the panel if registers are as long as a block, else as wide as a block.
        let tile_blocks = if S::F32_LANES == BLOCK { blocks } else { 1 };
        let mut passes = Passes::new(product, first_column, blocks, rounded.as_mut());
        // SAFETY: the product's indices are inside its slices.
        while let Some(pass) = unsafe { passes.next() } {
            let mut row = pass.rows.start;
            while row < pass.rows.end {
                let (group, first) = (row / product.rows, row % product.rows);
                let rows = first..product.rows.min(first + pass.rows.end - row);
                for block in (0..blocks).step_by(tile_blocks) {
                    let (first_row, column) = (group * product.rows, first_column + block * BLOCK);
                    let strip = Strip { group: product.groups[group], first_row, column, out };
                    // SAFETY: groups, rows, columns and segments are the product's own.
                    unsafe { strip.run(simd, product, &pass, rows.clone(), tile_blocks) };
                }
                row += rows.len();
            }
        }
    }
}

/// The rows of one group, as wide as a tile.
struct Strip {
    group: Group,
    /// The number of its first row among those of all groups.
    first_row: usize,
    column: usize,
    out: *mut f32,
}

impl Strip {
    /// Cuts the rows into tiles of nearly equal height, each as high as the registers allow.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, product: &Product<'_>, pass: &Pass<'_>, rows: Range<usize>, blocks: usize) {
        // Registers across, then the possible heights, highest first: accumulators, a row of `b` and a number
        // of `a` fill the registers.
        macro_rules! tiles {
            ($across:literal: $highest:literal $($lower:literal)*) => {{
                let tiles = rows.len().div_ceil($highest);
                let (height, higher) = (rows.len() / tiles, rows.len() % tiles);
                let mut row = rows.start;
                for tile in 0..tiles {
                    let height = height + usize::from(tile < higher);
                    // SAFETY: these rows are the product's own.
                    unsafe {
                        match height {
                            $highest => self.tile_apart::<S, $highest, $across>(simd, product, pass, row),
                            $($lower => self.tile_apart::<S, $lower, $across>(simd, product, pass, row),)*
                            _ => {}
                        }
                    }
                    row += height;
                }
            }};
        }
        match (S::F32_LANES, S::REGISTER_COUNT, blocks) {
            (16, _, 4) => tiles!(4: 6 5 4 3 2 1),
            (16, _, 2) => tiles!(2: 12 11 10 9 8 7 6 5 4 3 2 1),
            (16, _, _) => tiles!(1: 14 13 12 11 10 9 8 7 6 5 4 3 2 1),
            (8, _, _) => tiles!(2: 6 5 4 3 2 1),
            (4, 32, _) => tiles!(4: 6 5 4 3 2 1),
            (4, _, _) => tiles!(4: 2 1),
            _ => tiles!(16: 1),
        }
    }

    /// One tile, in a debug build in a function of its own: unoptimised, the frame of all tiles together is
    /// larger than the stack of a thread.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn tile_apart<S: Simd, const ROWS: usize, const ACROSS: usize>(
        &self,
        simd: S,
        product: &Product<'_>,
        pass: &Pass<'_>,
        row: usize,
    ) {
        #[cfg(debug_assertions)]
        simd.vectorize(TileApart::<ROWS, ACROSS> { strip: self, product, pass, row });
        #[cfg(not(debug_assertions))]
        // SAFETY: as the caller says.
        unsafe {
            self.tile::<S, ROWS, ACROSS>(simd, product, pass, row);
        }
    }

    /// One tile of `ROWS` rows and `ACROSS` registers.
    ///
    /// Indexed loops over the tile must unroll: an accumulator behind a pointer stays in memory, which is
    /// three times slower.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn tile<S: Simd, const ROWS: usize, const ACROSS: usize>(
        &self,
        simd: S,
        product: &Product<'_>,
        pass: &Pass<'_>,
        row: usize,
    ) {
        let (panel, column) = (self.column / PANEL, self.column % PANEL);
        let (a, b, place) = (product.a, product.b, product.out);
        // SAFETY: rows `row..row + ROWS` and the columns of this strip are the product's, all of whose
        // indices lie inside the slices; the segments are its own as well. `out` overlaps no operand: it is
        // borrowed mutably.
        unsafe {
            let out = self.out.add(self.group.out + row * place.row + panel * place.panel + column);
            let out = Tile::<ROWS, ACROSS> { at: out, row: place.row };
            let mut sums = start(simd, product.start, pass.first, out, self.column);
            match pass.terms {
                Summands::Segments(segments) => {
                    // Wrapping: without a term to read, these may be anywhere.
                    let a_at = a.numbers.as_ptr().wrapping_add(self.group.a + row * a.row);
                    let b_at = b.numbers.as_ptr().wrapping_add(panel * b.panel + column);
                    for segment in segments {
                        let (a_at, b_at) = (a_at.wrapping_add(segment.a), b_at.wrapping_add(segment.b));
                        // A constant distance of one is part of the instruction.
                        sums = if a.row == 1 {
                            add_products(
                                simd,
                                sums,
                                Terms { a: a_at, a_row: 1, a_step: a.step, b: b_at, b_step: b.step },
                                segment.len,
                            )
                        } else {
                            let terms = Terms { a: a_at, a_row: a.row, a_step: a.step, b: b_at, b_step: b.step };
                            add_products(simd, sums, terms, segment.len)
                        };
                    }
                }
                Summands::Sums(computed) => {
                    let at = computed.wrapping_add((self.first_row + row) * PANEL + column).cast_mut();
                    let computed = Tile::<ROWS, ACROSS> { at, row: PANEL };
                    sums = map(sums, |i, v, x| simd.add_f32s(x, computed.load(simd, i, v)));
                }
            }
            let values = |y: Values<'_>| Tile::<ROWS, ACROSS> {
                at: y
                    .numbers
                    .as_ptr()
                    .add(self.group.y + row * y.place.row + panel * y.place.panel + column)
                    .cast_mut(),
                row: y.place.row,
            };
            match product.finish {
                _ if !pass.last => out.store(simd, sums),
                Finish::Nothing => out.store(simd, sums),
                Finish::Relu => out.store(simd, map(sums, |_, _, x| relu(simd, x, x))),
                Finish::ReluSlope(y) => {
                    let y = values(y);
                    out.store(simd, map(sums, |i, v, x| relu_slope(simd, x, y.load(simd, i, v))));
                }
                Finish::AddReluSlope(y) => {
                    let y = values(y);
                    let added = |i, v, x| simd.add_f32s(out.load(simd, i, v), relu_slope(simd, x, y.load(simd, i, v)));
                    out.store(simd, map(sums, added));
                }
                Finish::TanhSlope(y) => {
                    let y = values(y);
                    let one = simd.splat_f32s(1.0);
                    let slope = |y| simd.negate_mul_add_e_f32s(y, y, one);
                    out.store(simd, map(sums, |i, v, x| simd.mul_f32s(x, slope(y.load(simd, i, v)))));
                }
                Finish::Tanh => {
                    // Row by row through memory: too long to unroll for a tile.
                    out.store(simd, sums);
                    for i in 0..ROWS {
                        let row = row_at::<S, ACROSS>(simd, out.at.add(i * out.row));
                        out.store_row(simd, i, tanh(simd, row));
                    }
                }
            }
        }
    }
}

/// A tile that is computed in a function of its own.
#[cfg(debug_assertions)]
struct TileApart<'a, const ROWS: usize, const ACROSS: usize> {
    strip: &'a Strip,
    product: &'a Product<'a>,
    pass: &'a Pass<'a>,
    row: usize,
}

#[cfg(debug_assertions)]
impl<const ROWS: usize, const ACROSS: usize> pulp::WithSimd for TileApart<'_, ROWS, ACROSS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: only `Strip::tile_apart` makes one, whose caller says so.
        unsafe { self.strip.tile::<S, ROWS, ACROSS>(simd, self.product, self.pass, self.row) }
    }
}

type Sums<S, const ROWS: usize, const ACROSS: usize> = [[<S as Simd>::f32s; ACROSS]; ROWS];

/// A tile of a matrix in memory.
#[derive(Clone, Copy)]
struct Tile<const ROWS: usize, const ACROSS: usize> {
    at: *mut f32,
    row: usize,
}

impl<const ROWS: usize, const ACROSS: usize> Tile<ROWS, ACROSS> {
    /// # Safety
    /// The tile must lie inside one slice, and `i` and `v` inside the tile.
    #[inline(always)]
    unsafe fn load<S: Simd>(self, simd: S, i: usize, v: usize) -> S::f32s {
        // SAFETY: as the caller says.
        unsafe { load(simd, self.at.add(i * self.row + v * S::F32_LANES)) }
    }

    /// # Safety
    /// The tile must lie inside one slice that may be written.
    #[inline(always)]
    unsafe fn store<S: Simd>(self, simd: S, sums: Sums<S, ROWS, ACROSS>) {
        for (i, row) in sums.into_iter().enumerate() {
            // SAFETY: as the caller says.
            unsafe { self.store_row(simd, i, row) };
        }
    }

    /// # Safety
    /// The tile must lie inside one slice that may be written, and row `i` inside the tile.
    #[inline(always)]
    unsafe fn store_row<S: Simd>(self, _: S, i: usize, row: [S::f32s; ACROSS]) {
        for (v, x) in row.into_iter().enumerate() {
            // SAFETY: as the caller says; `f32s` is as long as its lanes and has no invalid values.
            unsafe { self.at.add(i * self.row + v * S::F32_LANES).cast::<S::f32s>().write_unaligned(x) };
        }
    }
}

/// # Safety
/// As many numbers as a register holds must lie at `at`.
#[inline(always)]
unsafe fn load<S: Simd>(_: S, at: *const f32) -> S::f32s {
    // SAFETY: as the caller says; `f32s` has no invalid values.
    unsafe { at.cast::<S::f32s>().read_unaligned() }
}

/// A loop, because not every build inlines `array::from_fn`: then the registers of the sums go through memory
/// at each term, which is seven times slower.
///
/// # Safety
/// As many numbers as the registers hold must lie at `at`.
#[inline(always)]
unsafe fn row_at<S: Simd, const ACROSS: usize>(simd: S, at: *const f32) -> [S::f32s; ACROSS] {
    let mut row = [simd.splat_f32s(0.0); ACROSS];
    for (v, x) in row.iter_mut().enumerate() {
        // SAFETY: as the caller says.
        *x = unsafe { load(simd, at.add(v * S::F32_LANES)) };
    }
    row
}

/// The start of the sums: the product's own, then the partial sums in memory.
///
/// # Safety
/// `out` must lie inside its slice, and a bias be as long as the columns.
#[inline(always)]
unsafe fn start<S: Simd, const ROWS: usize, const ACROSS: usize>(
    simd: S,
    start: Start<'_>,
    first: bool,
    out: Tile<ROWS, ACROSS>,
    column: usize,
) -> Sums<S, ROWS, ACROSS> {
    let zero = [[simd.splat_f32s(0.0); ACROSS]; ROWS];
    // SAFETY: as the caller says.
    unsafe {
        let bias = |bias: &[f32]| {
            let row = row_at::<S, ACROSS>(simd, bias.as_ptr().add(column));
            [row; ROWS]
        };
        match start {
            Start::Out => map(zero, |i, v, _| out.load(simd, i, v)),
            _ if !first => map(zero, |i, v, _| out.load(simd, i, v)),
            Start::Zero => zero,
            Start::Bias(numbers) => bias(numbers),
            Start::OutAndBias(numbers) => map(bias(numbers), |i, v, x| simd.add_f32s(x, out.load(simd, i, v))),
        }
    }
}

/// The terms of a tile's sums.
#[derive(Clone, Copy)]
struct Terms {
    a: *const f32,
    a_row: usize,
    a_step: usize,
    b: *const f32,
    b_step: usize,
}

/// Adds `len` terms to every sum of a tile.
///
/// # Safety
/// The terms of all rows and columns of the tile must lie inside their slices.
#[inline(always)]
unsafe fn add_products<S: Simd, const ROWS: usize, const ACROSS: usize>(
    simd: S,
    mut sums: Sums<S, ROWS, ACROSS>,
    terms: Terms,
    len: usize,
) -> Sums<S, ROWS, ACROSS> {
    let Terms { a, a_row, a_step, mut b, b_step } = terms;
    // A pointer per four rows and two distances leave enough registers.
    let mut quads = [a, a.wrapping_add(4 * a_row), a.wrapping_add(8 * a_row), a.wrapping_add(12 * a_row)];
    for _ in 0..len {
        // SAFETY: term p of every row is read at a + p · a_step + i · a_row, and of every column at b + p ·
        // b_step; the caller says that these lie inside. Pointers beyond the tile's rows, or after the last
        // term, are not read.
        unsafe {
            let row = row_at::<S, ACROSS>(simd, b);
            for i in 0..ROWS {
                let x = simd.splat_f32s(*quads[i / 4].wrapping_add(i % 4 * a_row));
                for v in 0..ACROSS {
                    sums[i][v] = simd.mul_add_e_f32s(x, row[v], sums[i][v]);
                }
            }
        }
        for quad in &mut quads {
            *quad = quad.wrapping_add(a_step);
        }
        b = b.wrapping_add(b_step);
    }
    sums
}

/// The same tile with every register replaced.
#[inline(always)]
fn map<T: Copy, const ROWS: usize, const ACROSS: usize>(
    mut tile: [[T; ACROSS]; ROWS],
    f: impl Fn(usize, usize, T) -> T,
) -> [[T; ACROSS]; ROWS] {
    for i in 0..ROWS {
        for v in 0..ACROSS {
            tile[i][v] = f(i, v, tile[i][v]);
        }
    }
    tile
}

/// `x`, or zero where `y` is below zero. `max` would turn NaN into zero.
#[inline(always)]
fn relu<S: Simd>(simd: S, x: S::f32s, y: S::f32s) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    simd.select_f32s(simd.less_than_f32s(y, zero), zero, x)
}

/// `x`, or zero where ReLU gave `y` ≤ 0.
#[inline(always)]
fn relu_slope<S: Simd>(simd: S, x: S::f32s, y: S::f32s) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    simd.select_f32s(simd.less_than_or_equal_f32s(y, zero), zero, x)
}

/// The hyperbolic tangents of registers, with a relative error of about 3e-7.
///
/// *Source*: the rational function of degrees 13 and 6 of Eigen and XLA. Division is the slowest part, so
/// four registers share one. Loops and `inline(always)`, because a closure that is not inlined lacks the
/// instructions of `S`, which is a hundred times slower.
#[inline(always)]
fn tanh<S: Simd, const N: usize>(simd: S, mut x: [S::f32s; N]) -> [S::f32s; N] {
    /// Beyond, the tangent is 1 as a float.
    const LIMIT: f32 = 7.905_311;
    const OVER: [f32; 7] =
        [-2.760_768_5e-16, 2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619e-4, 4.893_524_6e-3];
    const UNDER: [f32; 4] = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    let (high, low) = (simd.splat_f32s(LIMIT), simd.splat_f32s(-LIMIT));
    let mut under = x;
    for i in 0..N {
        // Comparisons with NaN are false, so it stays.
        let at_most = simd.select_f32s(simd.greater_than_f32s(x[i], high), high, x[i]);
        let clamped = simd.select_f32s(simd.less_than_f32s(at_most, low), low, at_most);
        let square = simd.mul_f32s(clamped, clamped);
        x[i] = simd.mul_f32s(clamped, polynomial(simd, OVER, square));
        under[i] = polynomial(simd, UNDER, square);
    }
    quotients(simd, x, under)
}

/// The polynomial with these coefficients, the highest power's first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, coefficients: [f32; N], x: S::f32s) -> S::f32s {
    let mut sum = simd.splat_f32s(coefficients[0]);
    for i in 1..N {
        sum = simd.mul_add_e_f32s(sum, x, simd.splat_f32s(coefficients[i]));
    }
    sum
}

/// `over / under`, four with one division: 1/a = b · 1/(a·b). The product of four must be a normal float, as
/// for numbers between 1e-8 and 1e8; NaN spreads among the four.
#[inline(always)]
fn quotients<S: Simd, const N: usize>(simd: S, mut over: [S::f32s; N], under: [S::f32s; N]) -> [S::f32s; N] {
    let mut i = 0;
    while i + 4 <= N {
        let (ab, cd) = (simd.mul_f32s(under[i], under[i + 1]), simd.mul_f32s(under[i + 2], under[i + 3]));
        let inverse = simd.div_f32s(simd.splat_f32s(1.0), simd.mul_f32s(ab, cd));
        let (one_ab, one_cd) = (simd.mul_f32s(inverse, cd), simd.mul_f32s(inverse, ab));
        over[i] = simd.mul_f32s(over[i], simd.mul_f32s(one_ab, under[i + 1]));
        over[i + 1] = simd.mul_f32s(over[i + 1], simd.mul_f32s(one_ab, under[i]));
        over[i + 2] = simd.mul_f32s(over[i + 2], simd.mul_f32s(one_cd, under[i + 3]));
        over[i + 3] = simd.mul_f32s(over[i + 3], simd.mul_f32s(one_cd, under[i + 2]));
        i += 4;
    }
    while i < N {
        over[i] = simd.div_f32s(over[i], under[i]);
        i += 1;
    }
    over
}

/// The hyperbolic tangent of each number, as the products compute it.
#[inline(always)]
pub(crate) fn tanh_of_each<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let [y] = tanh(simd, [x]);
    y
}
