//! The Gaussian over several independent numbers, each squashed into (−1, 1) by tanh.
//!
//! A row of inputs is `[means | log_stds]`, which describe the numbers before they are squashed. The logarithms of the
//! standard deviations are clamped to a [`LogStdRange`]; where the clamp holds, they have no gradient.
//!
//! An action is the *squashed* numbers, `a = tanh(x)`, and its log-density is that of `x = atanh(a)` less the logarithm of
//! how much tanh stretches there, `ln(1 − a²)`. Both come from `ln(1 + |a|)` and `ln(1 − |a|)`, so nothing cancels near ±1.
//! Actions are never ±1 themselves, where the density ends: a draw is clamped to [`HIGHEST_ACTION`], the highest `f32`
//! below 1, and so is what [`logp`] is asked about.
//!
//! The *divergence* is that of the Gaussians before squashing, which is exact: squashing both does not change it. The
//! *entropy* has no closed form once squashed. What stands here is that of the Gaussian before squashing, as many
//! implementations have it; the true one is smaller by the mean of `−ln(1 − a²)`.
//!
//! [`SquashedGaussian`] computes many rows of `f32`, calling the functions, which work on one row of `f32` or `f64`.

use num_traits::{Float, FloatConst, clamp};

use crate::normal::{Normal, add_slopes, normals, sum, through_clamp};
use crate::number_rows::NumberRows;
use crate::{ActionsMut, ActionsRef, Distribution, LogStdRange, PolicyError, Rng};

/// The highest number of an action, and less its sign the lowest: the last `f32` before 1.
pub const HIGHEST_ACTION: f32 = 1.0 - f32::EPSILON / 2.0;

/// The distribution over `n` independent normal numbers squashed into (−1, 1); its inputs are `[means | log_stds]`.
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
/// *Errors*, besides those of every [`Distribution`]: [`PolicyError::NumberOutOfRange`] for an action beyond ±1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SquashedGaussian {
    rows: NumberRows,
    log_std_range: LogStdRange,
}

impl SquashedGaussian {
    /// The distribution over actions of `n` numbers; an error if that is none.
    pub fn new(n: usize) -> Result<Self, PolicyError> {
        Ok(Self { rows: NumberRows::new(n)?, log_std_range: LogStdRange::default() })
    }

    /// The same with standard deviations in another range than the default one.
    pub fn with_log_std_range(self, log_std_range: LogStdRange) -> Self {
        Self { log_std_range, ..self }
    }

    /// Refuses what tanh cannot have put out. NaN it can.
    fn check_range(&self, inputs: &[f32], actions: ActionsRef<'_>) -> Result<(), PolicyError> {
        let (_, actions) = self.rows.checked(inputs, actions)?;
        match actions.iter().position(|number| number.abs() > 1.0) {
            None => Ok(()),
            Some(at) => {
                let (row, number) = (at / self.act_len(), at % self.act_len());
                Err(PolicyError::NumberOutOfRange { row, number, value: actions[at] })
            }
        }
    }
}

impl Distribution for SquashedGaussian {
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

    /// The squashed means: the median of each number, which is what acts where no chance is wanted. The density itself may
    /// be highest elsewhere, at ±1 even, for it grows where tanh presses numbers together.
    fn mode(&self, inputs: &[f32], actions: ActionsMut<'_>) -> Result<(), PolicyError> {
        self.rows.mode(inputs, actions, mode)
    }

    fn logp(&self, inputs: &[f32], actions: ActionsRef<'_>, out: &mut [f32]) -> Result<(), PolicyError> {
        self.check_range(inputs, actions)?;
        let range = self.log_std_range;
        self.rows.logp(inputs, actions, out, |inputs, action| logp(range, inputs, action))
    }

    /// The entropy before squashing, which is more than the true one.
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
        self.check_range(inputs, actions)?;
        let range = self.log_std_range;
        self.rows.logp_grad(inputs, actions, weight, grad, |inputs, action, weight, grad| {
            logp_grad(range, inputs, action, weight, grad)
        })
    }

    /// Adds the gradient of the entropy before squashing.
    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        self.rows.entropy_grad(inputs, weight, grad, |inputs, weight, grad| entropy_grad(range, inputs, weight, grad))
    }

    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError> {
        let range = self.log_std_range;
        self.rows.kl_grad_q(p, q, weight, grad, |p, q, weight, grad| kl_grad_q(range, p, q, weight, grad))
    }
}

/// Writes the squashed means.
pub fn mode<F: Float + From<f32>>(inputs: &[F], action: &mut [F]) {
    normals(LogStdRange::UNBOUNDED, inputs).zip(action).for_each(|(number, action)| *action = squash(number.mean));
}

/// Writes a draw; `normal` is asked once for each number, for a draw with mean 0 and standard deviation 1.
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

/// The entropy before squashing, in nats.
pub fn entropy<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F]) -> F {
    sum(normals(range, inputs).map(Normal::entropy))
}

/// The divergence `KL(p ‖ q)` in nats.
pub fn kl<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F]) -> F {
    sum(normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl(q)))
}

/// Adds `weight · ∂ logp(action) / ∂ inputs` to `grad`: that of the Gaussian at what was squashed.
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

/// Adds `weight · ∂ entropy / ∂ inputs` to `grad`: 0 to the means and 1 to the log standard deviations within the clamp.
pub fn entropy_grad<F: Float + FloatConst + From<f32>>(range: LogStdRange, inputs: &[F], weight: F, grad: &mut [F]) {
    add_slopes(weight, through_clamp(range, inputs, normals(range, inputs).map(|_| Normal::entropy_slopes())), grad);
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ p` to `grad`.
pub fn kl_grad_p<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    add_slopes(
        weight,
        through_clamp(range, p, normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl_slopes(q))),
        grad,
    );
}

/// Adds `weight · ∂ KL(p ‖ q) / ∂ q` to `grad`.
pub fn kl_grad_q<F: Float + FloatConst + From<f32>>(range: LogStdRange, p: &[F], q: &[F], weight: F, grad: &mut [F]) {
    add_slopes(
        weight,
        through_clamp(range, q, normals(range, p).zip(normals(range, q)).map(|(p, q)| p.kl_slopes_q(q))),
        grad,
    );
}

fn squash<F: Float + From<f32>>(x: F) -> F {
    inside(x.tanh())
}

/// What was squashed, and the logarithm of tanh's slope there.
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
