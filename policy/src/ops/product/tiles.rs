//! The sums with the tiles of x86 processors (AMX).
#![allow(unsafe_code)] // Instructions without a safe interface, on pointers as in the kernel.

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid_count, __m512, __m512bh, __m512i, __mmask16, _mm512_cvtne2ps_pbh, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_mask_loadu_ps, _mm512_maskz_loadu_ps, _mm512_permutexvar_epi16, _mm512_setzero_ps, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64,
};
use std::mem::{MaybeUninit, transmute};
use std::ops::Range;

use super::operands::{BLOCK, PANEL, Product, Rounding, TERMS};
use super::part::{Panel, ROWS, Sums, terms};

/// Rows of a tile.
const TILE: usize = ROWS / 2;

/// Steps of [`TERMS`] terms that are rounded before they are multiplied: about as many rows of the left
/// operand stay in the L1 cache.
const STEPS: usize = 20;

/// Rounded terms of the rows: two tiles.
type Step = [[u16; TERMS]; ROWS];

/// Rounded rows. A row of a tile is a cache line.
#[repr(align(64))]
struct Left {
    steps: [MaybeUninit<Step>; STEPS],
}

/// The sizes of tiles, as the instruction `ldtilecfg` reads them.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight tiles are of 16 rows of 64 bytes.
static CONFIG: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Whether the processor has tiles of bfloat16 and instructions to round to it, and Linux keeps their state.
pub(super) fn are_usable() -> bool {
    let rounds = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512bf16");
    let (amx_bf16, amx_tile) = (1 << 22, 1 << 24);
    let has_tiles = __cpuid_count(7, 0).edx & (amx_bf16 | amx_tile) == amx_bf16 | amx_tile;
    rounds && has_tiles && may_use_tiles()
}

/// Asks Linux for the state of tiles, which it keeps only for processes that have asked.
fn may_use_tiles() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let answer: i64;
    // SAFETY: the call reads and writes no memory of this process; the registers that it changes are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    answer == 0
}

/// Sets the sizes of this thread's tiles, which takes as long as some multiplications. No compiler uses
/// tiles, so they stay until [`release`].
///
/// # Safety
/// The processor must have tiles.
pub(super) unsafe fn configure() {
    // SAFETY: as the caller says; tiles are zero afterwards.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly)) };
}

/// Gives up the state of this thread's tiles, so that Linux need not save it.
///
/// # Safety
/// The processor must have tiles.
pub(super) unsafe fn release() {
    // SAFETY: as the caller says; nothing but tiles changes.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Computes the sums of some rows, numbered over all groups, in a panel.
///
/// # Safety
/// Tiles must be configured, and every index of the product and the panel be inside its slice.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn multiply(product: &Product<'_>, rows: Range<usize>, panel: Panel<'_>, sums: &mut Sums) {
    // Borrowed, since a move copies all of it.
    let mut left = Left { steps: [const { MaybeUninit::uninit() }; STEPS] };
    let mut steps =
        Steps { left: &mut left.steps, right: [panel.pairs.as_ptr(); STEPS], used: 0, is_first: true, panel, sums };
    // SAFETY: as the caller says.
    unsafe {
        match product.b.rounding {
            Rounding::Pairs(_) => by_rows(product, rows, &mut steps),
            Rounding::Both | Rounding::Exact => by_columns(product, rows, &mut steps),
        }
        steps.finish();
    }
}

/// Rounds the left operand where the terms of a row are neighbours, and multiplies.
///
/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn by_rows(product: &Product<'_>, rows: Range<usize>, steps: &mut Steps<'_>) {
    let mut pointers = [std::ptr::null(); ROWS];
    for (pointer, row) in pointers.iter_mut().zip(rows.clone()) {
        let a = product.groups[row / product.rows].a + row % product.rows * product.a.row;
        *pointer = product.a.numbers.as_ptr().wrapping_add(a);
    }
    for segment in product.segments {
        let first_pair = segment.b / product.b.step / 2;
        for first in (0..segment.len).step_by(TERMS) {
            let len = TERMS.min(segment.len - first);
            // SAFETY: terms of the product's rows, and the rows of the step.
            unsafe {
                let to = steps.next(first_pair + first / 2);
                for (i, row) in pointers[..rows.len()].iter().enumerate() {
                    round(row.wrapping_add(segment.a + first), len, to.add(i));
                }
            }
        }
    }
}

/// Rounds `len` numbers; the rest of the tile's row is zero.
///
/// # Safety
/// The numbers must lie inside their slice, and `to` be a row of a tile.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
unsafe fn round(from: *const f32, len: usize, to: *mut [u16; TERMS]) {
    // SAFETY: as the caller says; a mask leaves out what is beyond the numbers.
    unsafe {
        let (low, high) = if len == TERMS {
            (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(BLOCK)))
        } else {
            let mask = (1_u32 << len) - 1;
            let low = _mm512_maskz_loadu_ps(mask as __mmask16, from);
            (low, _mm512_maskz_loadu_ps((mask >> BLOCK) as __mmask16, from.wrapping_add(BLOCK)))
        };
        _mm512_storeu_si512(to.cast(), transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
}

/// Rounds the left operand where the rows of a term are neighbours, and multiplies.
///
/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn by_columns(product: &Product<'_>, rows: Range<usize>, steps: &mut Steps<'_>) {
    let low = Neighbours::of_rows(product, rows.start..rows.end.min(rows.start + TILE));
    let high = Neighbours::of_rows(product, rows.end.min(rows.start + TILE)..rows.end);
    let (mut all, mut step) = (terms(product), 0);
    loop {
        let mut chunk = [0; TERMS];
        let len = chunk.iter_mut().zip(all.by_ref()).map(|(to, term)| *to = term.a).count();
        if len == 0 {
            return;
        }
        // SAFETY: terms of the product's rows, and the rows of the step.
        unsafe {
            let to = steps.next(step * TERMS / 2);
            round_columns(&low, &chunk[..len], to);
            round_columns(&high, &chunk[..len], to.add(TILE));
        }
        step += 1;
    }
}

/// The rows of a tile: runs of neighbours, each in one group.
struct Neighbours {
    runs: [(__mmask16, *const f32); TILE],
    used: usize,
}

impl Neighbours {
    fn of_rows(product: &Product<'_>, rows: Range<usize>) -> Self {
        let (mut runs, mut used) = ([(0, std::ptr::null()); TILE], 0);
        let mut row = rows.start;
        while row < rows.end {
            let (group, first) = (row / product.rows, row % product.rows);
            let (len, at) = ((product.rows - first).min(rows.end - row), row - rows.start);
            let mask = ((1_u32 << len) - 1) << at;
            let a = product.a.numbers.as_ptr().wrapping_add(product.groups[group].a + first);
            // Where the tile's first row would be.
            runs[used] = (mask as __mmask16, a.wrapping_sub(at));
            (used, row) = (used + 1, row + len);
        }
        Self { runs, used }
    }

    /// A term of all rows; zero beyond.
    ///
    /// # Safety
    /// The term must lie inside the left operand.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn load(&self, term: usize) -> __m512 {
        let mut numbers = _mm512_setzero_ps();
        for &(mask, at) in &self.runs[..self.used] {
            // SAFETY: as the caller says; the mask leaves out other rows.
            numbers = unsafe { _mm512_mask_loadu_ps(numbers, mask, at.wrapping_add(term)) };
        }
        numbers
    }
}

/// Rounds terms of a tile's rows, column by column, and transposes them; the rest of the tile is zero.
///
/// # Safety
/// The terms must lie inside the left operand, and the rows of a tile at `to`.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn round_columns(rows: &Neighbours, terms: &[usize], to: *mut [u16; TERMS]) {
    /// Alternately a number of the first half and one of the second.
    const ALTERNATELY: [u16; 32] = {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 32 {
            order[i] = (i / 2 + i % 2 * 16) as u16;
            i += 1;
        }
        order
    };
    let mut pairs = [_mm512_setzero_si512(); TILE];
    // SAFETY: as the caller says.
    unsafe {
        let order = _mm512_loadu_si512(ALTERNATELY.as_ptr().cast());
        for (pair, terms) in pairs.iter_mut().zip(terms.chunks(2)) {
            let low = rows.load(terms[0]);
            let high = if terms.len() == 2 { rows.load(terms[1]) } else { _mm512_setzero_ps() };
            let rounded = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
            *pair = _mm512_permutexvar_epi16(order, rounded);
        }
        for (i, row) in transposed(pairs).into_iter().enumerate() {
            _mm512_storeu_si512(to.add(i).cast(), row);
        }
    }
}

/// The transpose of a matrix of 16 × 16 pairs.
#[target_feature(enable = "avx512f")]
#[inline]
fn transposed(mut rows: [__m512i; TILE]) -> [__m512i; TILE] {
    let mut other = rows;
    // Two rows, then four, alternate within each quarter of a register.
    for i in (0..TILE).step_by(2) {
        other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for i in (0..TILE).step_by(4) {
        rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
    }
    // Quarter q of register i + k has column 4q + k of four rows: quarters of the same column meet.
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    for k in 0..4 {
        for half in [0, 8] {
            let (first, second) = (rows[half + k], rows[half + k + 4]);
            other[half + k] = _mm512_shuffle_i32x4::<EVEN>(first, second);
            other[half + k + 4] = _mm512_shuffle_i32x4::<ODD>(first, second);
        }
    }
    for k in 0..4 {
        rows[k] = _mm512_shuffle_i32x4::<EVEN>(other[k], other[k + 8]);
        rows[k + 8] = _mm512_shuffle_i32x4::<ODD>(other[k], other[k + 8]);
        rows[k + 4] = _mm512_shuffle_i32x4::<EVEN>(other[k + 4], other[k + 12]);
        rows[k + 12] = _mm512_shuffle_i32x4::<ODD>(other[k + 4], other[k + 12]);
    }
    rows
}

/// Steps that are rounded but not yet multiplied.
struct Steps<'a> {
    left: &'a mut [MaybeUninit<Step>; STEPS],
    right: [*const u32; STEPS],
    used: usize,
    /// Whether none has been multiplied.
    is_first: bool,
    panel: Panel<'a>,
    sums: &'a mut Sums,
}

impl Steps<'_> {
    /// Room for the rows of one more step, whose pairs begin with row `pair` of the panel.
    ///
    /// # Safety
    /// The product's rows of all steps before must be written, the others may be anything; the pairs of a
    /// whole step, and a block beside them, must lie inside the panel.
    unsafe fn next(&mut self, pair: usize) -> *mut [u16; TERMS] {
        if self.used == STEPS {
            // SAFETY: as the caller says.
            unsafe { self.multiply() };
        }
        self.right[self.used] = self.panel.pairs.as_ptr().wrapping_add(pair * self.panel.step());
        self.used += 1;
        self.left[self.used - 1].as_mut_ptr().cast()
    }

    /// Multiplies the rest.
    ///
    /// # Safety
    /// As [`Steps::next`].
    unsafe fn finish(&mut self) {
        if self.used > 0 {
            // SAFETY: as the caller says.
            unsafe { self.multiply() };
        } else if self.is_first {
            self.sums.as_flattened_mut().fill(0.0);
        }
    }

    /// Multiplies the steps, at least one, and adds the products to the sums unless they are the first.
    ///
    /// Two tiles of each operand make four products: with eight tiles, the fewest loads for each.
    ///
    /// # Safety
    /// As [`Steps::next`].
    unsafe fn multiply(&mut self) {
        macro_rules! multiply {
            ($($start:literal)*; $first_block:expr) => {
                asm!(
                    $($start,)*
                    "2:",
                    "mov {b}, [{right}]",
                    "add {b}, {column}",
                    "tileloadd tmm4, [{left} + {left_row}*1]",
                    "tileloadd tmm5, [{b} + {b_row}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm5",
                    "tileloadd tmm6, [{b} + {b_row}*1 + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm6",
                    "tileloadd tmm7, [{left} + {left_row}*1 + 1024]",
                    "tdpbf16ps tmm2, tmm7, tmm5",
                    "tdpbf16ps tmm3, tmm7, tmm6",
                    "add {left}, 2048",
                    "add {right}, 8",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{sums} + {sums_row}*1], tmm0",
                    "tilestored [{sums} + {sums_row}*1 + 64], tmm1",
                    "tilestored [{sums} + {sums_row}*1 + 4096], tmm2",
                    "tilestored [{sums} + {sums_row}*1 + 4160], tmm3",
                    left = inout(reg) self.left.as_ptr() => _,
                    left_row = in(reg) 2 * TERMS,
                    right = inout(reg) self.right.as_ptr() => _,
                    b = out(reg) _,
                    b_row = in(reg) 4 * self.panel.step(),
                    column = in(reg) 4 * $first_block * BLOCK,
                    sums = in(reg) self.sums.as_mut_ptr().cast::<f32>().wrapping_add($first_block * BLOCK),
                    sums_row = in(reg) 4 * PANEL,
                    steps = inout(reg) self.used => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack)
                )
            };
        }
        for first_block in (0..self.panel.blocks).step_by(2) {
            // SAFETY: there is a step, and all tiles are named. On the left a step is 2048 bytes, two tiles
            // with 64 bytes a row; on the right it begins at its pointer. Of a single block of columns the
            // second tiles are meaningless, but inside the pairs and the sums; so are sums of rows beyond the
            // last.
            unsafe {
                if self.is_first {
                    multiply!("tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"; first_block);
                } else {
                    multiply!(
                        "tileloadd tmm0, [{sums} + {sums_row}*1]"
                        "tileloadd tmm1, [{sums} + {sums_row}*1 + 64]"
                        "tileloadd tmm2, [{sums} + {sums_row}*1 + 4096]"
                        "tileloadd tmm3, [{sums} + {sums_row}*1 + 4160]";
                        first_block
                    );
                }
            }
        }
        (self.used, self.is_first) = (0, false);
    }
}
