//! The Gaussian with a diagonal covariance matrix, squashed into (−1, 1) by tanh.
//!
//! A row of inputs is `[means | log_stds]` of the Gaussian before squashing, clamped as in
//! [`diag_gaussian`](crate::diag_gaussian).
//!
//! The log-density of an action `a = tanh(x)` is that of `x = atanh(a)` less the log-derivative of tanh
//! there, `ln(1 − a²)`. Both come from `ln(1 + |a|)` and `ln(1 − |a|)`, so nothing cancels near ±1. The
//! density is not defined at ±1: samples and the actions given to [`logp`] are clamped to [`HIGHEST_ACTION`],
//! the highest `f32` below 1.
//!
//! The *divergence* of the Gaussians before squashing is exact, since squashing both does not change it. The
//! *entropy* has no closed form after squashing; the one here, as in many implementations, is that before
//! squashing, which exceeds the true one by the mean of `−ln(1 − a²)`.
//!
//! [`SquashedGaussian`] computes batches of `f32` by the functions, which take one row of `f32` or `f64`.

use num_traits::{Float, FloatConst, clamp};

use crate::gaussian_rows::{GaussianRows, check_n};
use crate::normal::{add_slopes, normals, sum, through_clamp};
use crate::{LogStdRange, PolicyError};

pub use crate::normal::{entropy, entropy_grad, kl, kl_grad_p, kl_grad_q};

/// The greatest absolute value of an action: the last `f32` before 1.
pub const HIGHEST_ACTION: f32 = 1.0 - f32::EPSILON / 2.0;

/// The distribution over `n` independent normal numbers squashed into (−1, 1); its inputs are `[means |
/// log_stds]`.
///
/// ```
/// use pronk_policy::{ActionsMut, Distribution, Rng, SquashedGaussian};
///
/// let one = SquashedGaussian::new(1)?;
/// let (mut action, mut logp) = ([0.0], [0.0]);
/// one.sample(&[50.0, 0.0], &mut Rng::seed_from(0), ActionsMut::Continuous(&mut action), &mut logp)?;
/// assert!(0.999 < action[0] && action[0] < 1.0);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
///
/// *Errors*, besides those of every [`Distribution`](crate::Distribution): [`PolicyError::NumberOutOfRange`] for an action beyond
/// ±1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SquashedGaussian {
    n: usize,
    log_std_range: LogStdRange,
}

impl SquashedGaussian {
    /// The distribution over actions of `n` numbers; an error if `n` is 0.
    pub fn new(n: usize) -> Result<Self, PolicyError> {
        Ok(Self { n: check_n(n)?, log_std_range: LogStdRange::default() })
    }

    /// The same with another range of standard deviations.
    pub fn with_log_std_range(self, log_std_range: LogStdRange) -> Self {
        Self { log_std_range, ..self }
    }
}

impl GaussianRows for SquashedGaussian {
    fn n(&self) -> usize {
        self.n
    }

    fn log_std_range(&self) -> LogStdRange {
        self.log_std_range
    }

    /// Refuses what tanh cannot return. NaN passes.
    fn check_actions(&self, actions: &[f32]) -> Result<(), PolicyError> {
        match actions.iter().position(|number| number.abs() > 1.0) {
            None => Ok(()),
            Some(at) => {
                Err(PolicyError::NumberOutOfRange { row: at / self.n, number: at % self.n, value: actions[at] })
            }
        }
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

/// Writes the squashed means: the median of each number. The density itself may be highest elsewhere, even at
/// ±1, since it grows where tanh compresses.
pub fn mode<F: Float + From<f32>>(inputs: &[F], action: &mut [F]) {
    normals(LogStdRange::UNBOUNDED, inputs).zip(action).for_each(|(number, action)| *action = squash(number.mean));
}

/// Writes a sample; `normal` is called once per number and returns a standard normal sample.
pub fn sample<F: Float + FloatConst + From<f32>>(
    range: LogStdRange,
    inputs: &[F],
    mut normal: impl FnMut() -> F,
    action: &mut [F],
) {
    normals(range, inputs).zip(action).for_each(|(number, action)| *action = squash(number.at(normal())));
}

/// The log-density at `action`, which is half as long as `inputs`.
pub fn logp<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F], action: &[F]) -> F {
    sum(normals(range, inputs).zip(action).map(|(number, &squashed)| {
        let (x, ln_stretch) = unsquash(squashed);
        number.logp(x) - ln_stretch
    }))
}

/// Adds `weight · ∂ logp(action) / ∂ inputs` to `grad`: that of the Gaussian before squashing.
pub fn logp_grad<F: Float + FloatConst + From<f32>>(
    range: LogStdRange,
    inputs: &[F],
    action: &[F],
    weight: F,
    grad: &mut [F],
) {
    let slopes = normals(range, inputs).zip(action).map(|(number, &squashed)| number.logp_slopes(unsquash(squashed).0));
    add_slopes(weight, through_clamp(range, inputs, slopes), grad);
}

fn squash<F: Float + From<f32>>(x: F) -> F {
    inside(x.tanh())
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
