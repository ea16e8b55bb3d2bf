//! A linear layer with its activation as one operation.
//!
//! candle's own operations would do, and on other devices do. On the CPU they cost more than the arithmetic: every matrix
//! product of candle 0.11 opens /proc/cpuinfo to count the cores (25 µs on 2 cores, and growing with them) unless the
//! environment sets RAYON_NUM_THREADS; `tanh` goes through the C library number by number; the slope of `relu` takes five
//! passes over memory, the gradient of a broadcast bias a general reduction; and gradients are computed for observations.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Error, Layout, Result, Shape, Tensor, bail};

use crate::Activation;
use crate::ops::{Matrix, add_product};

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

/// One linear layer: `activate(x · weight + bias)` for `x` of shape `[rows, inputs]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    /// What follows.
    pub(super) then: Activate,
    /// Whether anybody wants the gradient with respect to `x`; nobody does for observations.
    pub(super) input_grad: bool,
}

impl Linear {
    /// The outputs, outside any graph.
    pub(super) fn act(self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
        if x.device().is_cpu() { x.apply_op3_no_bwd(weight, bias, &self) } else { self.plain(x, weight, bias) }
    }

    /// The outputs as a node of the graph.
    pub(super) fn learn(self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
        if x.device().is_cpu() { x.apply_op3(weight, bias, self) } else { self.plain(x, weight, bias) }
    }

    /// The same from candle's own operations. Where the activation's input is zero, their `relu` has slope 1; ours has 0,
    /// as PyTorch's.
    fn plain(self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let x = x.matmul(weight)?.broadcast_add(bias)?;
        match self.then {
            Activate::Not => Ok(x),
            Activate::Tanh => x.tanh(),
            Activate::Relu => x.relu(),
        }
    }
}

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_at: &Layout,
        weight: &CpuStorage,
        weight_at: &Layout,
        bias: &CpuStorage,
        bias_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight, bias) = (matrix(x, x_at)?, matrix(weight, weight_at)?, floats(bias, bias_at)?);
        let (rows, _) = x_at.shape().dims2()?;
        // The product is added to the bias, and the activation works where the sum lies.
        let mut out = bias.repeat(rows);
        add_product(&mut out, x, weight).map_err(Error::wrap)?;
        match self.then {
            Activate::Not => {}
            Activate::Tanh => out.iter_mut().for_each(|x| *x = tanh(*x)),
            // Written so that NaN stays NaN; `f32::max` would make it zero.
            Activate::Relu => out.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
        }
        Ok((CpuStorage::F32(out), Shape::from((rows, bias.len()))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _bias: &Tensor,
        y: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let grad = y.apply_op2_no_bwd(&grad.contiguous()?, &TimesSlope(self.then))?;
        let x_grad = self.input_grad.then(|| grad.apply_op2_no_bwd(weight, &Product::WithTransposed)).transpose()?;
        let weight_grad = x.apply_op2_no_bwd(&grad, &Product::TransposedWith)?;
        let bias_grad = grad.apply_op1_no_bwd(&SumOfRows)?;
        Ok((x_grad, Some(weight_grad), Some(bias_grad)))
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

/// A matrix product with one side transposed, as the chain rule needs them.
enum Product {
    /// `aᵀ · b`.
    TransposedWith,
    /// `a · bᵀ`.
    WithTransposed,
}

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn cpu_fwd(&self, a: &CpuStorage, a_at: &Layout, b: &CpuStorage, b_at: &Layout) -> Result<(CpuStorage, Shape)> {
        let ((a_rows, a_columns), (b_rows, b_columns)) = (a_at.shape().dims2()?, b_at.shape().dims2()?);
        let (a, b) = (matrix(a, a_at)?, matrix(b, b_at)?);
        let (a, b, shape) = match self {
            Self::TransposedWith => (a.transposed(), b, (a_columns, b_columns)),
            Self::WithTransposed => (a, b.transposed(), (a_rows, b_rows)),
        };
        let mut out = vec![0.0; shape.0 * shape.1];
        add_product(&mut out, a, b).map_err(Error::wrap)?;
        Ok((CpuStorage::F32(out), Shape::from(shape)))
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

fn matrix<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<Matrix<'a>> {
    let (rows, columns) = layout.shape().dims2()?;
    Matrix::new(floats(storage, layout)?, rows, columns).map_err(Error::wrap)
}

fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(numbers), Some((start, end))) => Ok(&numbers[start..end]),
        _ => bail!("expected contiguous f32 numbers"),
    }
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
