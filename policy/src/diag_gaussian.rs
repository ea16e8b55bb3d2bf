//! The Gaussian with a diagonal covariance matrix.
//!
//! A row of inputs is `[means | log_stds]`. Log standard deviations are clamped to a [`LogStdRange`] and have
//! no gradient where the clamp is active. Log-probability, entropy and divergence are sums over the
//! dimensions.
//!
//! [`DiagGaussian`] computes batches of `f32` by the functions, which take one row of `f32` or `f64`.

use num_traits::{Float, FloatConst};

use crate::gaussian_rows::{GaussianRows, check_n};
use crate::normal::{add_slopes, normals, sum, through_clamp};
use crate::{LogStdRange, PolicyError};

pub use crate::normal::{entropy, entropy_grad, kl, kl_grad_p, kl_grad_q};

/// The distribution over `n` independent normal numbers; its inputs are `[means | log_stds]`.
///
/// Log-probabilities are densities, so they and the entropy may have either sign. The entropy does not depend
/// on the means: it is finite even where a mean is NaN. Sampling uses one [`Rng::normal`](crate::Rng::normal)
/// per number, row by row.
///
/// ```
/// use pronk_policy::{ActionsMut, DiagGaussian, Distribution};
///
/// let two = DiagGaussian::new(2)?;
/// let mut action = [0.0; 2];
/// two.mode(&[0.3, -0.7, 0.0, 0.0], ActionsMut::Continuous(&mut action))?;
/// assert_eq!(action, [0.3, -0.7]);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiagGaussian {
    n: usize,
    log_std_range: LogStdRange,
}

impl DiagGaussian {
    /// The distribution over actions of `n` numbers; an error if `n` is 0.
    pub fn new(n: usize) -> Result<Self, PolicyError> {
        Ok(Self { n: check_n(n)?, log_std_range: LogStdRange::default() })
    }

    /// The same with another range of standard deviations.
    pub fn with_log_std_range(self, log_std_range: LogStdRange) -> Self {
        Self { log_std_range, ..self }
    }
}

impl GaussianRows for DiagGaussian {
    fn n(&self) -> usize {
        self.n
    }

    fn log_std_range(&self) -> LogStdRange {
        self.log_std_range
    }

    fn check_actions(&self, _: &[f32]) -> Result<(), PolicyError> {
        Ok(())
    }

    fn sample(&self, inputs: &[f32], normal: impl FnMut() -> f32, action: &mut [f32]) {
        sample(self.log_std_range, inputs, normal, action);
    }

    fn mode(&self, inputs: &[f32], action: &mut [f32]) {
        mode(inputs, action);
    }

    fn logp(&self, inputs: &[f32], action: &[f32]) -> f32 {
        logp(self.log_std_range, inputs, action)
    }

    fn logp_grad(&self, inputs: &[f32], action: &[f32], weight: f32, grad: &mut [f32]) {
        logp_grad(self.log_std_range, inputs, action, weight, grad);
    }
}

/// Writes the means, where the density is highest.
pub fn mode<F: Float + From<f32>>(inputs: &[F], action: &mut [F]) {
    normals(LogStdRange::UNBOUNDED, inputs).zip(action).for_each(|(number, action)| *action = number.mean);
}

/// Writes a sample; `normal` is called once per number and returns a standard normal sample.
pub fn sample<F: Float + FloatConst + From<f32>>(
    range: LogStdRange,
    inputs: &[F],
    mut normal: impl FnMut() -> F,
    action: &mut [F],
) {
    normals(range, inputs).zip(action).for_each(|(number, action)| *action = number.at(normal()));
}

/// The log-density at `action`, which is half as long as `inputs`.
pub fn logp<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F], action: &[F]) -> F {
    sum(normals(range, inputs).zip(action).map(|(number, &x)| number.logp(x)))
}

/// Adds `weight · ∂ logp(action) / ∂ inputs` to `grad`: with `z = (action − mean) / std`, `z / std` to the
/// means and `z² − 1` to the log standard deviations.
pub fn logp_grad<F: Float + FloatConst + From<f32>>(
    range: LogStdRange,
    inputs: &[F],
    action: &[F],
    weight: F,
    grad: &mut [F],
) {
    let slopes = normals(range, inputs).zip(action).map(|(number, &x)| number.logp_slopes(x));
    add_slopes(weight, through_clamp(range, inputs, slopes), grad);
}

#[cfg(test)]
mod tests;
