//! Layers that `candle_nn` lacks, or has with a wrong or a slow gradient. Images are
//! `[rows, height, width, channels]`.

use candle_core::{Result, Tensor};

use super::gradients::with_gradients;

/// A convolution, as products of matrices.
pub(super) struct Conv {
    /// `[kernel · kernel · in_channels + 1, out_channels]`: the kernels, with `kernel` rounded up to whole
    /// strides by zeros, and the bias.
    weight: Tensor,
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Conv {
    /// With kernels `[ky, kx, in_channels, out_channels]`.
    pub(super) fn new(weight: &Tensor, bias: &Tensor, stride: usize, padding: usize) -> Result<Self> {
        let (kernel, _, _, outputs) = weight.dims4()?;
        let strides = kernel.div_ceil(stride);
        let rest = strides * stride - kernel;
        let weight = weight.pad_with_zeros(0, 0, rest)?.pad_with_zeros(1, 0, rest)?;
        let blocks = weight.reshape((strides, stride, strides, (), outputs))?.transpose(1, 2)?;
        let weight = Tensor::cat(&[&blocks.flatten_to(3)?, &bias.unsqueeze(0)?], 0)?;
        Ok(Self { weight, kernel, stride, padding })
    }

    /// Its outputs for images `[rows, height, width, channels]`.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.framed(&self.framed(x, 1)?, 2)?;
        let (rows, height, width, channels) = x.dims4()?;
        // The pixels of a stride as one: then the stride is 1.
        let stride = self.stride;
        let blocks = x.reshape((rows, height / stride, stride, width / stride, stride * channels))?.transpose(2, 3)?;
        convolve(&blocks.flatten_from(3)?, &self.weight, self.kernel.div_ceil(stride))
    }

    /// The images with zeros around and without the pixels that no kernel reaches, along one dimension.
    fn framed(&self, x: &Tensor, dim: usize) -> Result<Tensor> {
        let pixels = x.dim(dim)?;
        let last = (pixels + 2 * self.padding - self.kernel) / self.stride * self.stride;
        let needed = last + self.kernel.next_multiple_of(self.stride) - self.padding;
        let x = x.narrow(dim, 0, pixels.min(needed))?;
        x.pad_with_zeros(dim, self.padding, needed.saturating_sub(pixels))
    }
}

/// The convolution of images `[rows, height, width, inputs]` with `weight`, `[kernel · kernel · inputs + 1,
/// outputs]` with the bias in its last row, with stride 1 and without padding.
///
/// All pixels of all images are one sequence, and what a kernel sees from each of them is that sequence moved
/// by so many pixels: `kernel` · `kernel` copies side by side, without index arithmetic. From a pixel near
/// the right or the lower border it sees parts of the next line or image: such outputs are cut off, and have
/// no gradient.
fn convolve(x: &Tensor, weight: &Tensor, kernel: usize) -> Result<Tensor> {
    let (rows, height, width, inputs) = x.dims4()?;
    let (high, wide, border) = (height + 1 - kernel, width + 1 - kernel, kernel - 1);
    let (pixels, outputs) = (rows * height * width, weight.dim(1)?);
    let farthest = border * (width + 1);
    let moves = move || (0..kernel * kernel).map(move |i| i / kernel * width + i % kernel);
    let (kernels, bias) =
        (weight.detach().narrow(0, 0, kernel * kernel * inputs)?, weight.detach().get(kernel * kernel * inputs)?);

    let seen = side_by_side(&x.detach().reshape((pixels, inputs))?.pad_with_zeros(0, 0, farthest)?, moves(), pixels)?;
    let y = seen.matmul(&kernels)?.reshape((rows, height, width, outputs))?;
    let y = y.narrow(1, 0, high)?.narrow(2, 0, wide)?.broadcast_add(&bias)?;
    let is_tracked = x.track_op();
    with_gradients(y, [x, weight], move |grad| {
        let grad = grad.pad_with_zeros(1, 0, border)?.pad_with_zeros(2, 0, border)?.reshape((pixels, outputs))?;
        let weight_grad = seen.t()?.matmul(&grad)?;
        let ones = Tensor::ones((1, pixels), grad.dtype(), grad.device())?;
        let weight_grad = Tensor::cat(&[weight_grad, ones.matmul(&grad)?], 0)?;
        if !is_tracked {
            return Ok([None, Some(weight_grad)]);
        }
        let seen = side_by_side(&grad.pad_with_zeros(0, farthest, 0)?, moves().map(|by| farthest - by), pixels)?;
        let back = kernels.reshape((kernel * kernel, inputs, outputs))?.transpose(1, 2)?.flatten_to(1)?;
        Ok([Some(seen.matmul(&back)?.reshape((rows, height, width, inputs))?), Some(weight_grad)])
    })
}

/// `x` from each of `starts` on, so many lines of it, side by side.
fn side_by_side(x: &Tensor, starts: impl Iterator<Item = usize>, lines: usize) -> Result<Tensor> {
    Tensor::cat(&starts.map(|start| x.narrow(0, start, lines)).collect::<Result<Vec<_>>>()?, 1)
}

/// ReLU with slope zero at zero, and NaN for NaN. Candle's has slope one at zero, and zero for NaN.
pub(super) fn relu(x: &Tensor) -> Result<Tensor> {
    let (own, zeros) = (x.detach(), x.zeros_like()?);
    let is_off = own.le(&zeros)?;
    let y = is_off.where_cond(&zeros, &own)?;
    with_gradients(y, [x, x], move |grad| Ok([Some(is_off.where_cond(&grad.zeros_like()?, grad)?), None]))
}

/// The max-pool of 3×3 windows with stride 2 over images, padded by one pixel that is never the maximum. The
/// gradient goes to the first maximum in row order, which is the first in the first row with the largest
/// maximum: so rows come first.
pub(super) fn max_pool(x: &Tensor) -> Result<Tensor> {
    max_of_three(&max_of_three(x, 2)?, 1)
}

/// The maximum of three neighbours along `dim`, with stride 2.
fn max_of_three(x: &Tensor, dim: usize) -> Result<Tensor> {
    let (pixels, windows) = (x.dim(dim)?, x.dim(dim)?.div_ceil(2));
    let border = |pixels: usize| {
        let mut dims = x.dims().to_vec();
        dims[dim] = pixels;
        Tensor::full(f32::NEG_INFINITY, dims, x.device())
    };
    // Two for each window and two more: border, pixels, border.
    let after = 2 * windows + 1 - pixels;
    let framed = Tensor::cat(&[&border(1)?, &x.detach(), &border(after)?], dim)?;
    let mut dims = x.dims().to_vec();
    dims.splice(dim..=dim, [windows + 1, 2]);
    let pairs = framed.reshape(dims)?;
    let (evens, odds) =
        (pairs.narrow(dim + 1, 0, 1)?.squeeze(dim + 1)?, pairs.narrow(dim + 1, 1, 1)?.squeeze(dim + 1)?);
    let (best, is_first) = larger(&evens.narrow(dim, 0, windows)?, &odds.narrow(dim, 0, windows)?)?;
    let (best, is_among_two) = larger(&best, &evens.narrow(dim, 1, windows)?)?;
    with_gradients(best, [x, x], move |grad| {
        let zeros = grad.zeros_like()?;
        let (of_two, third) = (is_among_two.where_cond(grad, &zeros)?, is_among_two.where_cond(&zeros, grad)?);
        let (first, second) = (is_first.where_cond(&of_two, &zeros)?, is_first.where_cond(&zeros, &of_two)?);
        let evens = (first.pad_with_zeros(dim, 0, 1)? + third.pad_with_zeros(dim, 1, 0)?)?;
        let pairs = Tensor::stack(&[evens, second.pad_with_zeros(dim, 0, 1)?], dim + 1)?;
        Ok([Some(pairs.flatten(dim, dim + 1)?.narrow(dim, 1, pixels)?), None])
    })
}

/// The maximum, the first of equal ones, NaN if either is; and where it is the first.
fn larger(first: &Tensor, second: &Tensor) -> Result<(Tensor, Tensor)> {
    let (first, second) = (first.contiguous()?, second.contiguous()?);
    let is_first = (second.le(&first)? + first.ne(&first)?)?;
    Ok((is_first.where_cond(&first, &second)?, is_first))
}

/// The slices of `x` along its first dimension, by repeated halving, because the gradient of each cut copies
/// what was cut.
pub(super) fn unstack(x: &Tensor) -> Result<Vec<Tensor>> {
    match x.dim(0)? {
        0 => Ok(vec![]),
        1 => Ok(vec![x.squeeze(0)?]),
        n => {
            let mut slices = unstack(&x.narrow(0, 0, n / 2)?)?;
            slices.extend(unstack(&x.narrow(0, n / 2, n - n / 2)?)?);
            Ok(slices)
        }
    }
}

#[cfg(test)]
mod tests;
