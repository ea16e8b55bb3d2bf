//! Layers that `candle_nn` lacks, or has with a wrong gradient.

use candle_core::{Result, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Module};

/// A convolution with kernels `[ky, kx, in_channels, out_channels]`.
pub(super) struct Conv {
    conv: Conv2d,
    kernel: usize,
}

impl Conv {
    pub(super) fn new(weight: &Tensor, bias: Tensor, stride: usize, padding: usize) -> Result<Self> {
        let config = Conv2dConfig { stride, padding, ..Conv2dConfig::default() };
        let kernels = weight.permute((3, 2, 0, 1))?.contiguous()?;
        Ok(Self { conv: Conv2d::new(kernels, Some(bias), config), kernel: weight.dim(0)? })
    }

    /// Its outputs for images `[rows, channels, height, width]`.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &Conv2dConfig { stride, padding, .. } = self.conv.config();
        // Candle's gradient of a convolution assumes that width and height leave equal rests in the stride.
        // Without the pixels that no kernel reaches, both rests are 0.
        let seen = |pixels: usize| (pixels + 2 * padding - self.kernel) / stride * stride + self.kernel - 2 * padding;
        let (_, _, height, width) = x.dims4()?;
        self.conv.forward(&x.narrow(2, 0, seen(height))?.narrow(3, 0, seen(width))?.contiguous()?)
    }
}

/// ReLU with slope zero at zero, and NaN for NaN. Candle's has slope one at zero, and zero for NaN.
pub(super) fn relu(x: &Tensor) -> Result<Tensor> {
    let zeros = x.zeros_like()?;
    x.le(&zeros)?.where_cond(&zeros, x)
}

/// The max-pool of 3×3 windows with stride 2 over images `[rows, channels, height, width]`, padded by one
/// pixel that is never the maximum. The gradient goes to the first maximum in row order, which is the first
/// in the first row with the largest maximum: so rows come first.
pub(super) fn max_pool(x: &Tensor) -> Result<Tensor> {
    max_of_three(&max_of_three(x, 3)?, 2)
}

/// The maximum of three neighbours along `dim`, with stride 2.
fn max_of_three(x: &Tensor, dim: usize) -> Result<Tensor> {
    let windows = x.dim(dim)?.div_ceil(2);
    let border = |pixels: usize| {
        let mut dims = x.dims().to_vec();
        dims[dim] = pixels;
        Tensor::full(f32::NEG_INFINITY, dims, x.device())
    };
    // Two for each window and two more: border, pixels, border.
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

/// The maximum; the first of equal ones, NaN if either is.
fn larger(first: &Tensor, second: &Tensor) -> Result<Tensor> {
    let (first, second) = (first.contiguous()?, second.contiguous()?);
    let keep = (second.le(&first)? + first.ne(&first)?)?;
    keep.where_cond(&first, &second)
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
