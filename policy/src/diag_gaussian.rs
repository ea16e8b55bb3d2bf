//! The Gaussian over several numbers that are drawn independently of each other.
//!
//! A row of inputs is `[means | log_stds]`: first the mean of each number, then the logarithm of each standard deviation,
//! which is clamped to a [`LogStdRange`] and has no gradient where the
//! clamp holds. Log-probability, entropy and divergence are sums over the numbers.
//!
//! [`DiagGaussian`] computes many rows of `f32`. The functions work on one row and are generic over `f32` and `f64`: they
//! are what [`DiagGaussian`] calls row by row, and what is checked against finite differences.

use num_traits::{Float, FloatConst};

use crate::normal::{Normal, add_slopes, normals, sum, through_clamp};
use crate::number_rows::NumberRows;
use crate::{ActionsMut, ActionsRef, Distribution, LogStdRange, PolicyError, Rng};

/// The distribution over `n` independent normal numbers; its inputs are `[means | log_stds]`.
///
/// Its log-probabilities are densities, so they and the entropy may be of any sign. A row that is NaN in a mean alone has
/// an entropy all the same, which the means have no part in.
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
    rows: NumberRows,
    log_std_range: LogStdRange,
}

impl DiagGaussian {
    /// The distribution over actions of `n` numbers; an error if that is none.
    pub fn new(n: usize) -> Result<Self, PolicyError> {
        Ok(Self { rows: NumberRows::new(n)?, log_std_range: LogStdRange::default() })
    }

    /// The same with standard deviations in another range than the default one.
    pub fn with_log_std_range(self, log_std_range: LogStdRange) -> Self {
        Self { log_std_range, ..self }
    }
}

impl Distribution for DiagGaussian {
    fn dist_len(&self) -> usize {
        self.rows.dist_len()
    }

    fn act_len(&self) -> usize {
        self.rows.act_len()
    }

    /// Uses exactly one [`Rng::normal`] per number, row by row.
    fn sample(
        &self,
        inputs: &[f32],
        rng: &mut Rng,
        actions: ActionsMut<'_>,
        out: &mut [f32],
    ) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        let draw =
            |inputs: &[f32], normal: &mut dyn FnMut() -> f32, action: &mut [f32]| sample(range, inputs, normal, action);
        self.rows.sample(inputs, rng, actions, out, draw, |inputs, action| logp(range, inputs, action))
    }

    fn mode(&self, inputs: &[f32], actions: ActionsMut<'_>) -> Result<(), PolicyError> {
        self.rows.mode(inputs, actions, mode)
    }

    fn logp(&self, inputs: &[f32], actions: ActionsRef<'_>, out: &mut [f32]) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        self.rows.logp(inputs, actions, out, |inputs, action| logp(range, inputs, action))
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        self.rows.entropy(inputs, out, |inputs| entropy(self.log_std_range, inputs))
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        self.rows.kl(p, q, out, |p, q| kl(self.log_std_range, p, q))
    }

    fn logp_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        weight: &[f32],
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        self.rows.logp_grad(inputs, actions, weight, grad, |inputs, action, weight, grad| {
            logp_grad(range, inputs, action, weight, grad)
        })
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        self.rows.entropy_grad(inputs, weight, grad, |inputs, weight, grad| entropy_grad(range, inputs, weight, grad))
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        self.rows.kl_grad_q(p, q, weight, grad, |p, q, weight, grad| kl_grad_q(range, p, q, weight, grad))
    }
}

/// Writes the means, where the density is highest.
pub fn mode<F: Float + From<f32>>(inputs: &[F], action: &mut [F]) {
    normals(LogStdRange::UNBOUNDED, inputs).zip(action).for_each(|(number, action)| *action = number.mean);
}

/// Writes a draw; `normal` is asked once for each number, for a draw with mean 0 and standard deviation 1.
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

/// The entropy in nats.
pub fn entropy<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F]) -> F {
    sum(normals(range, inputs).map(Normal::entropy))
}

/// The divergence `KL(p ‖ q)` in nats.
pub fn kl<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F]) -> F {
    sum(normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl(q)))
}

/// Adds `weight · ∂ logp(action) / ∂ inputs` to `grad`: with `z = (action − mean) / std`, `z / std` to the means and
/// `z² − 1` to the log standard deviations.
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

/// Adds `weight · ∂ entropy / ∂ inputs` to `grad`: 0 to the means and 1 to the log standard deviations.
pub fn entropy_grad<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F], weight: F, grad: &mut [F]) {
    add_slopes(weight, through_clamp(range, inputs, normals(range, inputs).map(|_| Normal::entropy_slopes())), grad);
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ p` to `grad`.
pub fn kl_grad_p<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    let slopes = normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl_slopes(q));
    add_slopes(weight, through_clamp(range, p, slopes), grad);
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ q` to `grad`.
pub fn kl_grad_q<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    let slopes = normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl_slopes_q(q));
    add_slopes(weight, through_clamp(range, q, slopes), grad);
}

#[cfg(test)]
mod tests;
