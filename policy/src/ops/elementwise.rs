//! Passes over slices: plain loops, compiled for every SIMD instruction set and dispatched at run time.

use pulp::{Simd, WithSimd};

use super::instructions::{dispatch, vectorized};
use super::product::{BLOCK, PANEL, tanh_of_each};

vectorized! {
    /// Adds each column of `rows` to its sum, in row order.
    fn add_column_sums<'a>(rows: &'a [f32], sums: &'a mut [f32]) {
        let columns = sums.len();
        let mut first = 0;
        // Many sums run in parallel, because each addition waits for the last.
        for panel in sums.chunks_exact_mut(PANEL) {
            add_few_column_sums::<PANEL>(rows, columns, first, panel);
            first += PANEL;
        }
        for block in sums[first..].chunks_exact_mut(BLOCK) {
            add_few_column_sums::<BLOCK>(rows, columns, first, block);
            first += BLOCK;
        }
    }
}

#[inline(always)]
fn add_few_column_sums<const FEW: usize>(rows: &[f32], columns: usize, first: usize, sums: &mut [f32]) {
    let mut total = [0.0; FEW];
    for row in rows.chunks_exact(columns) {
        let row = &row[first..][..FEW];
        for i in 0..FEW {
            total[i] += row[i];
        }
    }
    for i in 0..FEW {
        sums[i] += total[i];
    }
}

vectorized! {
    /// `y = relu(x)`; NaN stays NaN.
    fn relu<'a>(x: &'a [f32], y: &'a mut [f32]) {
        for (x, y) in x.iter().zip(y) {
            *y = if *x < 0.0 { 0.0 } else { *x };
        }
    }
}

vectorized! {
    /// `sums += terms`.
    fn add<'a>(terms: &'a [f32], sums: &'a mut [f32]) {
        for (term, sum) in terms.iter().zip(sums) {
            *sum += term;
        }
    }
}

/// A number of an image.
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

vectorized! {
    /// Writes an image with channels together from planes of one channel each. Rows of the result are at
    /// distance `row_step`; planes are contiguous.
    fn interleave<'a, P: Pixel>(planes: &'a [P], size: (usize, usize), image: &'a mut [f32], row_step: usize) {
        let (height, width) = size;
        let (plane, channels) = (height * width, planes.len() / (height * width));
        for (y, row) in image.chunks_mut(row_step).take(height).enumerate() {
            let (planes, row) = (&planes[y * width..], &mut row[..width * channels]);
            match channels {
                1 => interleave_few::<P, 1>(planes, plane, row),
                3 => interleave_few::<P, 3>(planes, plane, row),
                4 => interleave_few::<P, 4>(planes, plane, row),
                _ => {
                    for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                        for (channel, number) in pixel.iter_mut().enumerate() {
                            *number = planes[channel * plane + x].scaled();
                        }
                    }
                }
            }
        }
    }
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

/// One step of an LSTM's cell. Slices have one number per unit; `gates` has four: i, f, g, o.
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
        dispatch(self);
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

/// The hyperbolic tangent, or the logistic function: σ(x) = (1 + tanh(x / 2)) / 2.
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

vectorized! {
    /// The backward pass of [`LstmStep`]. `cell_grad` is the gradient of the cell after the step, and becomes
    /// that before; `gates_grad` becomes the gradient of the sums.
    fn lstm_step_back<'a>(
        gates: &'a [f32],
        cell_before: &'a [f32],
        squashed: &'a [f32],
        hidden_grad: &'a [f32],
        cell_grad: &'a mut [f32],
        gates_grad: &'a mut [f32],
    ) {
        let width = cell_grad.len();
        let (i, rest) = gates.split_at(width);
        let (f, rest) = rest.split_at(width);
        let (g, rest) = rest.split_at(width);
        let o = &rest[..width];
        let (i_grad, rest) = gates_grad.split_at_mut(width);
        let (f_grad, rest) = rest.split_at_mut(width);
        let (g_grad, rest) = rest.split_at_mut(width);
        let o_grad = &mut rest[..width];
        let (before, squashed, hidden_grad) = (&cell_before[..width], &squashed[..width], &hidden_grad[..width]);
        for k in 0..width {
            let cell = cell_grad[k] + hidden_grad[k] * o[k] * (1.0 - squashed[k] * squashed[k]);
            i_grad[k] = cell * g[k] * i[k] * (1.0 - i[k]);
            f_grad[k] = cell * before[k] * f[k] * (1.0 - f[k]);
            g_grad[k] = cell * i[k] * (1.0 - g[k] * g[k]);
            o_grad[k] = hidden_grad[k] * squashed[k] * o[k] * (1.0 - o[k]);
            cell_grad[k] = cell * f[k];
        }
    }
}

vectorized! {
    /// One output row of a 3×3 max-pool with stride 2 and padding 1.
    ///
    /// `rows` are the rows of pixels inside the image, from row `first` of the window on. The first of equal
    /// numbers wins, and NaN over numbers. `argmax` are indices in the window, 0 to 8. `channels` are whole
    /// blocks.
    fn max_pool_row<'a>(
        rows: &'a [&'a [f32]],
        first: usize,
        channels: usize,
        out: &'a mut [f32],
        argmax: &'a mut [u8],
    ) {
        for (x, (out, argmax)) in out.chunks_exact_mut(channels).zip(argmax.chunks_exact_mut(channels)).enumerate() {
            let (out, _) = out.as_chunks_mut::<BLOCK>();
            let (argmax, _) = argmax.as_chunks_mut::<BLOCK>();
            for (block, (out, argmax)) in out.iter_mut().zip(argmax).enumerate() {
                let mut best = [f32::NEG_INFINITY; BLOCK];
                let mut place = [UNSEEN; BLOCK];
                for (dy, row) in rows.iter().enumerate() {
                    for dx in 0..3 {
                        let Some(pixel) = (2 * x + dx).checked_sub(1) else { continue };
                        let at = pixel * channels + block * BLOCK;
                        let Some(candidate) = row.get(at..at + BLOCK) else { continue };
                        let here = ((first + dy) * 3 + dx) as u32;
                        for i in 0..BLOCK {
                            let loses = (candidate[i] <= best[i]) | best[i].is_nan();
                            let stays = loses & (place[i] != UNSEEN);
                            best[i] = if stays { best[i] } else { candidate[i] };
                            place[i] = if stays { place[i] } else { here };
                        }
                    }
                }
                *out = best;
                for i in 0..BLOCK {
                    argmax[i] = place[i] as u8;
                }
            }
        }
    }
}

/// No element of the window seen yet.
const UNSEEN: u32 = u32::MAX;

vectorized! {
    /// Adds the gradients of one output row of the pool to the argmax pixels of row `dy` of the windows.
    fn max_pool_row_back<'a>(
        grads: &'a [f32],
        argmax: &'a [u8],
        dy: usize,
        channels: usize,
        row: &'a mut [f32],
    ) {
        for (x, (grads, argmax)) in grads.chunks_exact(channels).zip(argmax.chunks_exact(channels)).enumerate() {
            for dx in 0..3 {
                let Some(pixel) = (2 * x + dx).checked_sub(1) else { continue };
                let Some(sums) = row.get_mut(pixel * channels..(pixel + 1) * channels) else { continue };
                let place = (dy * 3 + dx) as u8;
                for ((sum, grad), winner) in sums.iter_mut().zip(grads).zip(argmax) {
                    *sum += if *winner == place { *grad } else { 0.0 };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
