//! Passes over slices, compiled for the best instructions that the machine has.
//!
//! Each is one closure given to `pulp`, so that the compiler vectorises plain loops.

use pulp::{Arch, Simd, WithSimd};

use super::product::{BLOCK, tanh_of_each};

/// Adds to each of `sums` the numbers of its column of `rows`, in the order of the rows.
pub(crate) fn add_column_sums(rows: &[f32], sums: &mut [f32]) {
    let columns = sums.len();
    Arch::new().dispatch(|| {
        for (block, sums) in sums.chunks_exact_mut(BLOCK).enumerate() {
            let mut total = [0.0; BLOCK];
            for row in rows.chunks_exact(columns) {
                let row = &row[block * BLOCK..][..BLOCK];
                for i in 0..BLOCK {
                    total[i] += row[i];
                }
            }
            for i in 0..BLOCK {
                sums[i] += total[i];
            }
        }
    });
}

/// `y = relu(x)`; NaN stays NaN.
pub(crate) fn relu(x: &[f32], y: &mut [f32]) {
    Arch::new().dispatch(|| x.iter().zip(y).for_each(|(x, y)| *y = if *x < 0.0 { 0.0 } else { *x }));
}

/// `sums += terms`.
pub(crate) fn add(terms: &[f32], sums: &mut [f32]) {
    Arch::new().dispatch(|| terms.iter().zip(sums).for_each(|(term, sum)| *sum += term));
}

/// A number of an image as a network reads it.
pub(crate) trait Pixel: Copy {
    fn scaled(self) -> f32;
}

impl Pixel for f32 {
    #[inline(always)]
    fn scaled(self) -> f32 {
        self
    }
}

impl Pixel for u8 {
    #[inline(always)]
    fn scaled(self) -> f32 {
        f32::from(self) * (1.0 / 255.0)
    }
}

/// Writes one row of pixels, all channels of a pixel together, from planes of one channel each that are `plane` apart.
pub(crate) fn interleave<P: Pixel>(planes: &[P], plane: usize, row: &mut [f32], channels: usize) {
    Arch::new().dispatch(|| match channels {
        1 => interleave_few::<P, 1>(planes, plane, row),
        3 => interleave_few::<P, 3>(planes, plane, row),
        4 => interleave_few::<P, 4>(planes, plane, row),
        _ => {
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                pixel.iter_mut().zip(planes[x..].iter().step_by(plane)).for_each(|(y, x)| *y = x.scaled());
            }
        }
    });
}

#[inline(always)]
fn interleave_few<P: Pixel, const CHANNELS: usize>(planes: &[P], plane: usize, row: &mut [f32]) {
    let (pixels, _) = row.as_chunks_mut::<CHANNELS>();
    let width = pixels.len();
    let planes: [&[P]; CHANNELS] = std::array::from_fn(|channel| &planes[channel * plane..][..width]);
    for (x, pixel) in pixels.iter_mut().enumerate() {
        for channel in 0..CHANNELS {
            pixel[channel] = planes[channel][x].scaled();
        }
    }
}

/// One step of an LSTM's cell. The slices hold one number per unit, or, in `gates`, four sets of them: i, f, g, o.
pub(crate) struct LstmStep<'a> {
    /// The sums; they become the gates' values.
    pub(crate) gates: &'a mut [f32],
    /// The cell before.
    pub(crate) cell_before: &'a [f32],
    /// The cell after.
    pub(crate) cell: &'a mut [f32],
    /// The tangent of the cell after.
    pub(crate) squashed: &'a mut [f32],
    /// The output.
    pub(crate) hidden: &'a mut [f32],
}

impl LstmStep<'_> {
    /// c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c').
    pub(crate) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for LstmStep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.cell.len();
        activate(simd, &mut self.gates[..2 * width], true);
        activate(simd, &mut self.gates[2 * width..3 * width], false);
        activate(simd, &mut self.gates[3 * width..4 * width], true);
        let (i, rest) = self.gates.split_at(width);
        let (f, rest) = rest.split_at(width);
        let (g, o) = rest.split_at(width);
        for k in 0..width {
            self.cell[k] = f[k] * self.cell_before[k] + i[k] * g[k];
        }
        self.squashed.copy_from_slice(self.cell);
        activate(simd, self.squashed, false);
        for k in 0..width {
            self.hidden[k] = o[k] * self.squashed[k];
        }
    }
}

/// The tangent of each number, or the logistic function: σ(x) = (1 + tanh(x / 2)) / 2.
#[inline(always)]
fn activate<S: Simd>(simd: S, numbers: &mut [f32], logistic: bool) {
    let (body, tail) = S::as_mut_simd_f32s(numbers);
    for x in body {
        *x = activation(simd, *x, logistic);
    }
    if !tail.is_empty() {
        let x = activation(simd, simd.partial_load_f32s(tail), logistic);
        simd.partial_store_f32s(tail, x);
    }
}

#[inline(always)]
fn activation<S: Simd>(simd: S, x: S::f32s, logistic: bool) -> S::f32s {
    if !logistic {
        return tanh_of_each(simd, x);
    }
    let half = simd.splat_f32s(0.5);
    let y = tanh_of_each(simd, simd.mul_f32s(x, half));
    simd.mul_add_e_f32s(y, half, half)
}

/// One step of an LSTM's cell on the way back, for one row. Slices as in [`LstmStep`], after it.
pub(crate) struct LstmStepBack<'a> {
    /// The gates' values.
    pub(crate) gates: &'a [f32],
    pub(crate) cell_before: &'a [f32],
    pub(crate) squashed: &'a [f32],
    /// The gradient of the output.
    pub(crate) hidden_grad: &'a [f32],
    /// The gradient of the cell after, from later steps; it becomes that of the cell before.
    pub(crate) cell_grad: &'a mut [f32],
    /// The gradients of the sums.
    pub(crate) gates_grad: &'a mut [f32],
}

impl LstmStepBack<'_> {
    /// The chain rule.
    pub(crate) fn run(self) {
        Arch::new().dispatch(|| {
            let width = self.cell_grad.len();
            let gate = |k: usize| &self.gates[k * width..][..width];
            let (i, f, g, o) = (gate(0), gate(1), gate(2), gate(3));
            let (i_grad, rest) = self.gates_grad.split_at_mut(width);
            let (f_grad, rest) = rest.split_at_mut(width);
            let (g_grad, rest) = rest.split_at_mut(width);
            let o_grad = &mut rest[..width];
            let (before, squashed, hidden_grad) =
                (&self.cell_before[..width], &self.squashed[..width], &self.hidden_grad[..width]);
            for k in 0..width {
                let cell = self.cell_grad[k] + hidden_grad[k] * o[k] * (1.0 - squashed[k] * squashed[k]);
                i_grad[k] = cell * g[k] * i[k] * (1.0 - i[k]);
                f_grad[k] = cell * before[k] * f[k] * (1.0 - f[k]);
                g_grad[k] = cell * i[k] * (1.0 - g[k] * g[k]);
                o_grad[k] = hidden_grad[k] * squashed[k] * o[k] * (1.0 - o[k]);
                self.cell_grad[k] = cell * f[k];
            }
        });
    }
}

/// One output row of a 3×3 pool with stride 2 whose windows begin one pixel outside.
///
/// `rows` are the rows of pixels that the windows see, all but those outside, and `first` says which of the windows' three
/// the first of them is. Of equal numbers the first in a window's order wins; NaN wins over numbers, so that it comes
/// through. `winners` are places in the window, 0 to 8. `channels` are whole blocks.
pub(crate) fn max_pool_row(rows: &[&[f32]], first: usize, channels: usize, out: &mut [f32], winners: &mut [u8]) {
    Arch::new().dispatch(|| {
        for (x, (out, winners)) in out.chunks_exact_mut(channels).zip(winners.chunks_exact_mut(channels)).enumerate() {
            let (out, _) = out.as_chunks_mut::<BLOCK>();
            let (winners, _) = winners.as_chunks_mut::<BLOCK>();
            for (block, (out, winners)) in out.iter_mut().zip(winners).enumerate() {
                let mut best = [f32::NEG_INFINITY; BLOCK];
                let mut place = [UNSEEN; BLOCK];
                for (dy, row) in rows.iter().enumerate() {
                    for dx in 0..3 {
                        let Some(pixel) = (2 * x + dx).checked_sub(1) else { continue };
                        let at = pixel * channels + block * BLOCK;
                        let Some(candidate) = row.get(at..at + BLOCK) else { continue };
                        for i in 0..BLOCK {
                            let loses = (candidate[i] <= best[i]) | best[i].is_nan();
                            let stays = loses & (place[i] != UNSEEN);
                            best[i] = if stays { best[i] } else { candidate[i] };
                            place[i] = if stays { place[i] } else { ((first + dy) * 3 + dx) as u32 };
                        }
                    }
                }
                *out = best;
                for i in 0..BLOCK {
                    winners[i] = place[i] as u8;
                }
            }
        }
    });
}

/// No number of the window has been looked at.
const UNSEEN: u32 = u32::MAX;

/// Adds the gradients of one output row of the pool to those numbers of one row of pixels that won. `dy` is which of the
/// windows' three rows it is.
pub(crate) fn max_pool_row_back(grads: &[f32], winners: &[u8], dy: usize, channels: usize, row: &mut [f32]) {
    Arch::new().dispatch(|| {
        for (x, (grads, winners)) in grads.chunks_exact(channels).zip(winners.chunks_exact(channels)).enumerate() {
            for dx in 0..3 {
                let Some(pixel) = (2 * x + dx).checked_sub(1) else { continue };
                let Some(sums) = row.get_mut(pixel * channels..(pixel + 1) * channels) else { continue };
                let place = (dy * 3 + dx) as u8;
                for ((sum, grad), winner) in sums.iter_mut().zip(grads).zip(winners) {
                    *sum += if *winner == place { *grad } else { 0.0 };
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;
