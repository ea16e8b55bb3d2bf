//! Sums of products of numbers rounded to bfloat16, which has the range of `f32` and eight bits of precision.
//!
//! Processors with tiles (AMX) compute them several times faster than products of `f32`. The sums are `f32`.
//! Intel's vectors of bfloat16 (`avx512_bf16`) have half the speed of those of `f32`, so they are not used.
#![allow(unsafe_code)] // Calls of tiles.

use std::cell::Cell;
use std::ops::Range;

use super::operands::{BLOCK, PANEL, Product, Rounding, TERMS};
use super::part::{Panel, ROWS, Sums, terms};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::tiles;

use crate::ops::rounding::{round_pair, rounded, widened};

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Tiles of 16 × 16 sums.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Tiles,
    /// Single numbers, rounded in the same way: slow, for processors without tiles.
    Numbers,
}

impl Unit {
    /// The fastest of this processor.
    pub(crate) fn fastest() -> Self {
        #[cfg(test)]
        if let Some(unit) = FORCED.get() {
            return unit;
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        {
            static HAS_TILES: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
            if *HAS_TILES.get_or_init(tiles::are_usable) {
                return Self::Tiles;
            }
        }
        Self::Numbers
    }
}

/// Computes the sums of a product, some rows at a time.
pub(super) struct Rounded {
    unit: Unit,
    buffers: Box<Buffers>,
    /// The first column of the panel in the buffers.
    panel: Option<usize>,
}

struct Buffers {
    sums: Sums,
    /// Pairs of a panel under [`Rounding::Both`].
    pairs: Vec<u32>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { sums: [[0.0; PANEL]; ROWS], pairs: Vec::new() }
    }
}

thread_local! {
    /// The buffers between two products.
    static BUFFERS: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}

impl Rounded {
    /// Prepares the fastest unit.
    pub(super) fn new() -> Self {
        let unit = Unit::fastest();
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if unit == Unit::Tiles {
            // SAFETY: the processor has tiles.
            unsafe { tiles::configure() };
        }
        Self { unit, buffers: BUFFERS.take().unwrap_or_default(), panel: None }
    }

    /// The sums of at most [`ROWS`] rows, which are numbered over all groups, in the panel that begins with a
    /// column: of row `i` of them and column `j` at `i * PANEL + j`.
    ///
    /// # Safety
    /// Every index of the product must be inside its slice.
    pub(super) unsafe fn sums(
        &mut self,
        product: &Product<'_>,
        rows: Range<usize>,
        first_column: usize,
        blocks: usize,
    ) -> *const f32 {
        let Buffers { sums, pairs: own_pairs } = &mut *self.buffers;
        let pairs = match product.b.rounding {
            Rounding::Pairs(pairs) => pairs.get(first_column / PANEL * product.b.pairs_panel()..).unwrap_or_default(),
            Rounding::Both | Rounding::Exact => {
                if self.panel != Some(first_column) {
                    round_panel(product, first_column, blocks * BLOCK, own_pairs);
                    self.panel = Some(first_column);
                }
                own_pairs.as_slice()
            }
        };
        let panel = Panel { pairs, blocks };
        match self.unit {
            // SAFETY: as the caller says; tiles are configured.
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Unit::Tiles => unsafe { tiles::multiply(product, rows, panel, sums) },
            Unit::Numbers => multiply(product, rows, panel, sums),
        }
        sums.as_ptr().cast()
    }
}

impl Drop for Rounded {
    fn drop(&mut self) {
        BUFFERS.set(Some(std::mem::take(&mut self.buffers)));
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.unit == Unit::Tiles {
            // SAFETY: the processor has tiles.
            unsafe { tiles::release() };
        }
    }
}

/// Rounds a panel of the right operand under [`Rounding::Both`]: the terms in their order, and zeros up to a
/// tile.
fn round_panel(product: &Product<'_>, first_column: usize, width: usize, pairs: &mut Vec<u32>) {
    let all: usize = product.segments.iter().map(|segment| segment.len).sum();
    let used = all.div_ceil(2) * width;
    pairs.resize(all.next_multiple_of(TERMS) / 2 * width + BLOCK, 0);
    pairs[used..].fill(0);
    let numbers = &product.b.numbers[first_column / PANEL * product.b.panel..];
    let mut terms = terms(product);
    for pairs in pairs[..used].chunks_exact_mut(width) {
        let Some(low) = terms.next() else { break };
        let high = terms.next().map_or(&[][..], |high| &numbers[high.b..][..width]);
        round_pair(&numbers[low.b..][..width], high, pairs);
    }
}

/// Computes the sums number by number.
fn multiply(product: &Product<'_>, rows: Range<usize>, panel: Panel<'_>, sums: &mut Sums) {
    sums.as_flattened_mut().fill(0.0);
    let is_paired = matches!(product.b.rounding, Rounding::Pairs(_));
    for (t, term) in terms(product).enumerate() {
        let t = if is_paired { term.b / panel.step() } else { t };
        let pairs = &panel.pairs[t / 2 * panel.step()..][..panel.step()];
        for (row, sums) in rows.clone().zip(sums.iter_mut()) {
            let a = product.groups[row / product.rows].a + row % product.rows * product.a.row + term.a;
            let x = widened(rounded(product.a.numbers[a]));
            for (sum, pair) in sums.iter_mut().zip(pairs) {
                let y = if t % 2 == 0 { pair << 16 } else { pair & 0xffff_0000 };
                *sum = x.mul_add(f32::from_bits(y), *sum);
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Unit>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
impl Unit {
    /// All units of this machine.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Numbers];
        all.extend(Some(Self::fastest()).filter(|fastest| *fastest != Self::Numbers));
        all
    }

    /// Calls `body`, in which this thread multiplies with this unit.
    pub(crate) fn force<R>(self, body: impl FnOnce() -> R) -> R {
        crate::ops::instructions::with_forced(&FORCED, self, body)
    }
}
