//! Bias and activation in one operation.
//!
//! candle's own operations would do, and on other devices do. On the CPU they cost more than the matrix products: `tanh`
//! goes through the C library number by number, the slope of `relu` takes five passes over memory, and the gradient of a
//! broadcast bias a general reduction.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, bail};

use crate::Activation;

/// What follows a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activate {
    /// Nothing: the layer is a head.
    Not,
    Tanh,
    Relu,
}

impl From<Activation> for Activate {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Tanh => Self::Tanh,
            Activation::Relu => Self::Relu,
        }
    }
}

/// `activate(x + bias)` for `x` of shape `[rows, n]` and `bias` of shape `[n]`, outside any graph.
pub(super) fn add_bias(x: &Tensor, bias: &Tensor, then: Activate) -> Result<Tensor> {
    if x.device().is_cpu() {
        x.apply_op2_no_bwd(bias, &AddBias(then))
    } else {
        plain_add_bias(x, bias, then)
    }
}

/// The same as a node of the graph.
pub(super) fn add_bias_tracked(x: &Tensor, bias: &Tensor, then: Activate) -> Result<Tensor> {
    if x.device().is_cpu() {
        x.apply_op2(bias, AddBias(then))
    } else {
        plain_add_bias(x, bias, then)
    }
}

/// The same from candle's own operations. Where `x + bias` is zero, their `relu` has slope 1; ours has 0, as PyTorch's.
fn plain_add_bias(x: &Tensor, bias: &Tensor, then: Activate) -> Result<Tensor> {
    let x = x.broadcast_add(bias)?;
    match then {
        Activate::Not => Ok(x),
        Activate::Tanh => x.tanh(),
        Activate::Relu => x.relu(),
    }
}

/// [`add_bias`] on the CPU.
struct AddBias(Activate);

impl CustomOp2 for AddBias {
    fn name(&self) -> &'static str {
        "add-bias"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_at: &Layout,
        bias: &CpuStorage,
        bias_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, bias) = (floats(x, x_at)?, floats(bias, bias_at)?);
        let out = match self.0 {
            Activate::Not => each_row(x, bias, |x| x),
            Activate::Tanh => each_row(x, bias, tanh),
            // Written so that NaN stays NaN; `f32::max` would make it zero.
            Activate::Relu => each_row(x, bias, |x| if x < 0.0 { 0.0 } else { x }),
        };
        Ok((CpuStorage::F32(out), x_at.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, y: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let x_grad = y.apply_op2_no_bwd(&grad.contiguous()?, &TimesSlope(self.0))?;
        let bias_grad = x_grad.apply_op1_no_bwd(&SumOfRows)?;
        Ok((Some(x_grad), Some(bias_grad)))
    }
}

/// The gradient before an activation from that after it and the activation's value `y`.
struct TimesSlope(Activate);

impl CustomOp2 for TimesSlope {
    fn name(&self) -> &'static str {
        "times-slope"
    }

    fn cpu_fwd(
        &self,
        y: &CpuStorage,
        y_at: &Layout,
        grad: &CpuStorage,
        grad_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let pairs = floats(y, y_at)?.iter().zip(floats(grad, grad_at)?);
        let out = match self.0 {
            Activate::Not => pairs.map(|(_, grad)| *grad).collect(),
            Activate::Tanh => pairs.map(|(y, grad)| grad * (1.0 - y * y)).collect(),
            // As with the value, NaN must come through: it is not below or equal to zero.
            Activate::Relu => pairs.map(|(y, grad)| if *y <= 0.0 { 0.0 } else { *grad }).collect(),
        };
        Ok((CpuStorage::F32(out), y_at.shape().clone()))
    }
}

/// The sum over the rows, `[rows, n]` to `[n]`.
struct SumOfRows;

impl CustomOp1 for SumOfRows {
    fn name(&self) -> &'static str {
        "sum-of-rows"
    }

    fn cpu_fwd(&self, x: &CpuStorage, x_at: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, n) = x_at.shape().dims2()?;
        let mut sums = vec![0.0; n];
        for row in floats(x, x_at)?.chunks_exact(n) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        Ok((CpuStorage::F32(sums), Shape::from(n)))
    }
}

fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(numbers), Some((start, end))) => Ok(&numbers[start..end]),
        _ => bail!("expected contiguous f32 numbers"),
    }
}

/// `f(x + bias)` for every number, row by row: generic, so that each activation becomes one loop over SIMD registers.
fn each_row(x: &[f32], bias: &[f32], f: impl Fn(f32) -> f32 + Copy) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(bias.len()) {
        out.extend(row.iter().zip(bias).map(|(x, bias)| f(x + bias)));
    }
    out
}

/// The hyperbolic tangent to a relative error of 3e-7, without branches or calls, so that it runs in SIMD registers.
///
/// tanh(x) / x is a smooth function of x². The quotient of polynomials in x² below fits it on [0, 9] to a relative error of
/// 2.2e-8 (weighted least squares, the weights moved until the error is even); what remains is the rounding of f32. Beyond
/// 9, the true value rounds to 1.
fn tanh(x: f32) -> f32 {
    let x = x.clamp(-9.0, 9.0);
    let u = x * x;
    let above = ((((1.335_732_7e-8 * u + 2.061_206e-5) * u + 3.495_818e-3) * u + 0.133_812_36) * u + 0.999_999_98) * x;
    let below = (((7.777_955e-7 * u + 3.285_976e-4) * u + 2.587_791e-2) * u + 0.467_145_53) * u + 1.0;
    // Rounding may reach beyond 1, where the slope 1 - y² would be negative.
    (above / below).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests;
