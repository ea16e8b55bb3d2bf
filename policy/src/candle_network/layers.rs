//! Layers on candle's tensors, for every device and with gradients.

use candle_core::{Result, Tensor};

/// `x · weight + bias` for `x` of shape `[rows, inputs]` and `weight` of shape `[inputs, outputs]`.
pub(super) fn dense(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    x.matmul(weight)?.broadcast_add(bias)
}

/// The convolution of images `[rows, channels, height, width]` with kernels `[ky, kx, in_channels, out_channels]`.
pub(super) fn conv(x: &Tensor, weight: &Tensor, bias: &Tensor, stride: usize, padding: usize) -> Result<Tensor> {
    let (kernel, _, _, outputs) = weight.dims4()?;
    let weight = weight.permute((3, 2, 0, 1))?.contiguous()?;
    // Candle's gradient of a convolution takes width for as far from its last stride as height. Without the pixels that no
    // kernel reaches, both end at a stride.
    let seen = |pixels: usize| (pixels + 2 * padding - kernel) / stride * stride + kernel - 2 * padding;
    let (_, _, height, width) = x.dims4()?;
    let x = x.narrow(2, 0, seen(height))?.narrow(3, 0, seen(width))?.contiguous()?;
    x.conv2d(&weight, padding, stride, 1, 1)?.broadcast_add(&bias.reshape((1, outputs, 1, 1))?)
}

/// Zero where `x` is zero or less, with slope zero; NaN where `x` is NaN. Candle's own has slope one at zero, and makes NaN
/// zero.
pub(super) fn relu(x: &Tensor) -> Result<Tensor> {
    let zeros = x.zeros_like()?;
    x.le(&zeros)?.where_cond(&zeros, x)
}

/// The logistic function, by way of the hyperbolic tangent: the slope of 1 / (1 + exp(-x)) overflows for large -x.
pub(super) fn sigmoid(x: &Tensor) -> Result<Tensor> {
    x.affine(0.5, 0.0)?.tanh()?.affine(0.5, 0.5)
}

/// The maximum of every window of 3×3 pixels, every other pixel, of images `[rows, channels, height, width]`. The border
/// lies one pixel outside and is never the maximum. The gradient goes to the first maximum, row by row.
///
/// The first maximum of a window is in the first row whose maximum is largest, and there it is the first: so rows are
/// taken first.
pub(super) fn max_pool(x: &Tensor) -> Result<Tensor> {
    max_of_three(&max_of_three(x, 3)?, 2)
}

/// The maximum of every three neighbours, every other one, along `dim`.
fn max_of_three(x: &Tensor, dim: usize) -> Result<Tensor> {
    let windows = x.dim(dim)?.div_ceil(2);
    let border = |pixels: usize| {
        let mut dims = x.dims().to_vec();
        dims[dim] = pixels;
        Tensor::full(f32::NEG_INFINITY, dims, x.device())
    };
    // Two for each window, and the first two of one more: the border, then the pixels, then border again.
    let after = 2 * windows + 1 - x.dim(dim)?;
    let x = Tensor::cat(&[&border(1)?, x, &border(after)?], dim)?;
    let mut dims = x.dims().to_vec();
    dims.splice(dim..=dim, [windows + 1, 2]);
    let pairs = x.reshape(dims)?;
    let (evens, odds) =
        (pairs.narrow(dim + 1, 0, 1)?.squeeze(dim + 1)?, pairs.narrow(dim + 1, 1, 1)?.squeeze(dim + 1)?);
    let first = evens.narrow(dim, 0, windows)?;
    let best = larger(&first, &odds.narrow(dim, 0, windows)?)?;
    larger(&best, &evens.narrow(dim, 1, windows)?)
}

/// The larger of two, the first if they are equal, NaN if either is.
fn larger(first: &Tensor, second: &Tensor) -> Result<Tensor> {
    let (first, second) = (first.contiguous()?, second.contiguous()?);
    let keep = (second.le(&first)? + first.ne(&first)?)?;
    keep.where_cond(&first, &second)
}

/// The slices of `x` along its first dimension. Halves of halves: the gradient of each cut is a copy of what was cut.
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

/// Output and cell of an LSTM after a step.
///
/// `from_input` is the part of the gates that comes from the input, bias included, `[columns, 4 width]` in the order
/// i, f, g, o: c' = σ(f) c + σ(i) tanh(g) and h' = σ(o) tanh(c').
pub(super) fn lstm_step(
    from_input: &Tensor,
    hidden: &Tensor,
    cell: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let width = cell.dim(1)?;
    let gates = (from_input + hidden.matmul(weight)?)?;
    let gate = |i: usize| gates.narrow(1, i * width, width)?.contiguous();
    let (input, forget, new, output) =
        (sigmoid(&gate(0)?)?, sigmoid(&gate(1)?)?, gate(2)?.tanh()?, sigmoid(&gate(3)?)?);
    let cell = ((forget * cell)? + (input * new)?)?;
    Ok(((output * cell.tanh()?)?, cell))
}

#[cfg(test)]
mod tests;
