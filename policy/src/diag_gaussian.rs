//! The Gaussian with a diagonal covariance matrix, unbounded or squashed into (−1, 1) by tanh.
//!
//! A row of inputs is `[means | log_stds]`. Log standard deviations are clamped to a [`LogStdRange`]; at its
//! bounds and beyond, only gradients of a loss whose descent leads back into the range pass, evaluated at the
//! bound. Log-probability, entropy and divergence are sums over the dimensions.
//!
//! The log-density at a squashed action `a = tanh(x)` is that of `x = atanh(a)` less the log-derivative of
//! tanh there, `ln(1 − a²)`. Both come from `ln(1 + |a|)` and `ln(1 − |a|)`, so nothing cancels near ±1. The
//! density is not defined at ±1: samples and the actions given to [`logp`] are clamped to [`HIGHEST_ACTION`].
//! Squashing both distributions does not change their *divergence*. The *entropy* has no closed form after
//! squashing; the one here, as in many implementations, is that before squashing, which exceeds the true one
//! by the mean of `−ln(1 − a²)`.
//!
//! [`DiagGaussian`] computes batches of `f32` by the functions, which take one row of `f32` or `f64`.

use num_traits::{Float, FloatConst, clamp};

use crate::kernel::Kernel;
use crate::normal::{add_slopes, normals, sum};
use crate::{Gaussian, GaussianConfig, LogStdRange, PolicyError, Rng, Space};

pub use crate::normal::{entropy, entropy_grad, kl, kl_grad_p, kl_grad_q};

/// The greatest absolute value of a squashed action: the last `f32` before 1.
pub const HIGHEST_ACTION: f32 = 1.0 - f32::EPSILON / 2.0;

/// The distribution over `n` independent normal numbers, or over what tanh makes of them; its inputs are
/// `[means | log_stds]`.
///
/// Log-probabilities are densities, so they and the entropy may have either sign. The entropy does not depend
/// on the means: it is finite even where a mean is NaN. Sampling uses one [`Rng::normal`] per number, row by
/// row.
///
/// *Errors*, besides those of every [`Distribution`](crate::Distribution): [`PolicyError::NumberOutOfRange`]
/// for a squashed action beyond ±1.
///
/// ```
/// use pronk_policy::{ActionsMut, DiagGaussian, Distribution, Gaussian};
///
/// let inputs = [0.3, -50.0, 0.0, 0.0];
/// let mut action = [0.0; 2];
/// DiagGaussian::new(2, Gaussian::Diagonal)?.mode(&inputs, ActionsMut::Continuous(&mut action))?;
/// assert_eq!(action, [0.3, -50.0]);
/// DiagGaussian::new(2, Gaussian::Squashed)?.mode(&inputs, ActionsMut::Continuous(&mut action))?;
/// assert!(-1.0 < action[1] && action[1] < -0.999);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiagGaussian {
    n: usize,
    config: GaussianConfig,
}

impl DiagGaussian {
    /// The distribution over actions of `n` numbers; an error if `n` is 0.
    pub fn new(n: usize, config: impl Into<GaussianConfig>) -> Result<Self, PolicyError> {
        if n == 0 {
            // The error of the space that such actions would belong to.
            Space::boxed(Vec::new(), Vec::new(), vec![n])?;
        }
        Ok(Self { n, config: config.into() })
    }

    fn range(&self) -> LogStdRange {
        self.config.log_std_range
    }
}

impl Kernel for DiagGaussian {
    type Action = f32;

    fn dist_len(&self) -> usize {
        self.n.saturating_mul(2)
    }

    fn act_len(&self) -> usize {
        self.n
    }

    /// Refuses what tanh cannot return. NaN passes.
    fn check_actions(&self, actions: &[f32]) -> Result<(), PolicyError> {
        let is_impossible = |number: &f32| self.config.gaussian == Gaussian::Squashed && number.abs() > 1.0;
        match actions.iter().position(is_impossible) {
            None => Ok(()),
            Some(at) => {
                Err(PolicyError::NumberOutOfRange { row: at / self.n, number: at % self.n, value: actions[at] })
            }
        }
    }

    fn sample(&self, inputs: &[f32], rng: &mut Rng, actions: &mut [f32], logps: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact_mut(self.n));
        for ((inputs, action), logp_of_row) in rows.zip(logps) {
            sample(self.config, inputs, || rng.normal() as f32, action);
            // Of the action as it is stored, so that `logp` returns the same bits for it later.
            *logp_of_row = logp(self.config, inputs, action);
        }
    }

    fn mode(&self, inputs: &[f32], actions: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact_mut(self.n));
        rows.for_each(|(inputs, action)| mode(self.config.gaussian, inputs, action));
    }

    fn logp(&self, inputs: &[f32], actions: &[f32], out: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.n));
        rows.zip(out).for_each(|((inputs, action), out)| *out = logp(self.config, inputs, action));
    }

    fn entropy(&self, inputs: &[f32], out: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len());
        rows.zip(out).for_each(|(inputs, out)| *out = entropy(self.range(), inputs));
    }

    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) {
        let rows = p.chunks_exact(self.dist_len()).zip(q.chunks_exact(self.dist_len()));
        rows.zip(out).for_each(|((p, q), out)| *out = kl(self.range(), p, q));
    }

    fn logp_grad(&self, inputs: &[f32], actions: &[f32], weight: &[f32], grad: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(actions.chunks_exact(self.n)).zip(weight);
        for (((inputs, action), &weight), grad) in rows.zip(grad.chunks_exact_mut(self.dist_len())) {
            logp_grad(self.config, inputs, action, weight, grad);
        }
    }

    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) {
        let rows = inputs.chunks_exact(self.dist_len()).zip(weight).zip(grad.chunks_exact_mut(self.dist_len()));
        rows.for_each(|((inputs, &weight), grad)| entropy_grad(self.range(), inputs, weight, grad));
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) {
        let rows = p.chunks_exact(self.dist_len()).zip(q.chunks_exact(self.dist_len())).zip(weight);
        for (((p, q), &weight), grad) in rows.zip(grad.chunks_exact_mut(self.dist_len())) {
            kl_grad_q(self.range(), p, q, weight, grad);
        }
    }
}

/// Writes the means, where the density is highest, or the squashed means: the median of each number. The
/// squashed density may be highest elsewhere, even at ±1, since it grows where tanh compresses.
pub fn mode<F: Float + From<f32>>(gaussian: Gaussian, inputs: &[F], action: &mut [F]) {
    let means = inputs.iter().take(inputs.len() / 2);
    action.iter_mut().zip(means).for_each(|(action, &mean)| *action = squash(gaussian, mean));
}

/// Writes a sample; `normal` is called once per number and returns a standard normal sample.
pub fn sample<F: Float + FloatConst + From<f32>>(
    config: GaussianConfig,
    inputs: &[F],
    mut normal: impl FnMut() -> F,
    action: &mut [F],
) {
    for (number, action) in normals(config.log_std_range, inputs).zip(action) {
        *action = squash(config.gaussian, number.at(normal()));
    }
}

/// The log-density at `action`, which is half as long as `inputs`.
pub fn logp<F: Float + FloatConst + From<f32>>(config: GaussianConfig, inputs: &[F], action: &[F]) -> F {
    let numbers = normals(config.log_std_range, inputs).zip(action);
    match config.gaussian {
        Gaussian::Diagonal => sum(numbers.map(|(number, &x)| number.logp(x))),
        Gaussian::Squashed => sum(numbers.map(|(number, &squashed)| {
            let (x, ln_stretch) = unsquash(squashed);
            number.logp(x) - ln_stretch
        })),
    }
}

/// Adds `weight · ∂ logp(action) / ∂ inputs` to `grad`: with `z = (x − mean) / std`, `z / std` to the means
/// and `z² − 1` to the log standard deviations, where `x` is the action before squashing. At bounds as
/// [`entropy_grad`].
pub fn logp_grad<F: Float + FloatConst + From<f32>>(
    config: GaussianConfig,
    inputs: &[F],
    action: &[F],
    weight: F,
    grad: &mut [F],
) {
    let slopes = normals(config.log_std_range, inputs).zip(action).map(|(number, &action)| {
        let is_squashed = config.gaussian == Gaussian::Squashed;
        number.logp_slopes(if is_squashed { unsquash(action).0 } else { action })
    });
    add_slopes(config.log_std_range, inputs, weight, slopes, grad);
}

fn squash<F: Float + From<f32>>(gaussian: Gaussian, x: F) -> F {
    match gaussian {
        Gaussian::Diagonal => x,
        Gaussian::Squashed => inside(x.tanh()),
    }
}

/// `atanh(squashed)`, and the log-derivative of tanh there.
fn unsquash<F: Float + From<f32>>(squashed: F) -> (F, F) {
    let squashed = inside(squashed);
    let (above, below) = (squashed.abs().ln_1p(), (-squashed.abs()).ln_1p());
    let x = (above - below) / (F::one() + F::one());
    (x.copysign(squashed), above + below)
}

fn inside<F: Float + From<f32>>(squashed: F) -> F {
    let highest: F = HIGHEST_ACTION.into();
    clamp(squashed, -highest, highest)
}

#[cfg(test)]
mod tests;
