//! Action distributions on plain slices: sampling, log-probabilities, entropy, KL divergence and their
//! gradients.

use serde::{Deserialize, Serialize};

use crate::{LogStdRange, PolicyError, Rng};

/// A family of distributions over actions, parameterised by a network's outputs for each row.
///
/// *Shapes*: `inputs` is `[rows, dist_len]`, actions are `[rows, act_len]`, everything else is `[rows]`,
/// where `rows` follows from the length of `inputs`.
///
/// *Gradients* are with respect to `inputs`. Each `*_grad` adds `weight[row]` times the gradient of that row
/// to `grad`, `[rows, dist_len]`, the gradient of a loss to descend: where an input is clamped, a
/// family may drop what would lead it further out.
///
/// *NaN* propagates: a row with a NaN input has a NaN log-probability and an arbitrary action. Callers check
/// the log-probabilities.
///
/// *Errors*: [`PolicyError::Length`], [`PolicyError::ActionOutOfRange`] or a family's own,
/// [`PolicyError::Kind`] for actions of the wrong type. After an error the outputs are unspecified.
pub trait Distribution: Send + Sync {
    /// The number of inputs of one distribution.
    fn dist_len(&self) -> usize;

    /// The number of components of one action.
    fn act_len(&self) -> usize;

    /// Samples an action for every row, with its log-probability, bit-identical to [`Distribution::logp`].
    fn sample(
        &self,
        inputs: &[f32],
        rng: &mut Rng,
        actions: ActionsMut<'_>,
        logp: &mut [f32],
    ) -> Result<(), PolicyError>;

    /// The most likely action of every row.
    fn mode(&self, inputs: &[f32], actions: ActionsMut<'_>) -> Result<(), PolicyError>;

    /// The log-probability of an action for every row.
    fn logp(&self, inputs: &[f32], actions: ActionsRef<'_>, out: &mut [f32]) -> Result<(), PolicyError>;

    /// The entropy of every row, in nats.
    fn entropy(&self, inputs: &[f32], out: &mut [f32]) -> Result<(), PolicyError>;

    /// The log-probability of an action and the entropy of every row; may be faster than two calls.
    fn logp_and_entropy(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp: &mut [f32],
        entropy: &mut [f32],
    ) -> Result<(), PolicyError> {
        self.logp(inputs, actions, logp)?;
        self.entropy(inputs, entropy)
    }

    /// The divergence `KL(p ‖ q)` of every row, in nats.
    fn kl(&self, p: &[f32], q: &[f32], out: &mut [f32]) -> Result<(), PolicyError>;

    /// Adds `weight · ∂ logp / ∂ inputs` to `grad`.
    fn logp_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        weight: &[f32],
        grad: &mut [f32],
    ) -> Result<(), PolicyError>;

    /// Adds `weight · ∂ entropy / ∂ inputs` to `grad`.
    fn entropy_grad(&self, inputs: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError>;

    /// Adds `logp_weight · ∂ logp / ∂ inputs + entropy_weight · ∂ entropy / ∂ inputs` to `grad`.
    fn logp_and_entropy_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp_weight: &[f32],
        entropy_weight: &[f32],
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        self.logp_grad(inputs, actions, logp_weight, grad)?;
        self.entropy_grad(inputs, entropy_weight, grad)
    }

    /// Adds `logp_weight · ∂ logp / ∂ inputs + entropy_weight · ∂ entropy / ∂ inputs` and the gradient of a
    /// divergence to `grad`, and fills in the divergences; may be faster than three calls.
    fn loss_grad(
        &self,
        inputs: &[f32],
        actions: ActionsRef<'_>,
        logp_weight: &[f32],
        entropy_weight: &[f32],
        kl: KlTerm<'_>,
        grad: &mut [f32],
    ) -> Result<(), PolicyError> {
        self.logp_and_entropy_grad(inputs, actions, logp_weight, entropy_weight, grad)?;
        self.kl(kl.p, inputs, kl.out)?;
        self.kl_grad_q(kl.p, inputs, kl.weight, grad)
    }

    /// Adds `weight · ∂ KL(p ‖ q) / ∂ q` to `grad`.
    fn kl_grad_q(&self, p: &[f32], q: &[f32], weight: &[f32], grad: &mut [f32]) -> Result<(), PolicyError>;
}

/// A divergence `KL(p ‖ inputs)` in a loss.
#[derive(Debug)]
pub struct KlTerm<'a> {
    /// `[rows, dist_len]`: the inputs of the distribution that it is from.
    pub p: &'a [f32],
    /// `[rows]`: the gradient of the loss with respect to it.
    pub weight: &'a [f32],
    /// `[rows]`: the divergences, in nats.
    pub out: &'a mut [f32],
}

/// The distribution of continuous actions, which is a [`DiagGaussian`](crate::DiagGaussian).
///
/// ```
/// use pronk_policy::Gaussian;
///
/// assert_eq!(serde_json::to_string(&Gaussian::default())?, "\"diagonal\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaussian {
    /// Independent normals, which may exceed the bounds of actions.
    #[default]
    Diagonal,
    /// The same squashed into (−1, 1) by tanh.
    Squashed,
}

/// The distribution of continuous actions, with the range of its standard deviations.
///
/// ```
/// use pronk_policy::{Gaussian, GaussianConfig, LogStdRange};
///
/// let config: GaussianConfig = Gaussian::Squashed.into();
/// assert_eq!(config.log_std_range, LogStdRange::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GaussianConfig {
    /// Which distribution.
    pub gaussian: Gaussian,
    /// The range of its standard deviations.
    pub log_std_range: LogStdRange,
}

impl From<Gaussian> for GaussianConfig {
    fn from(gaussian: Gaussian) -> Self {
        Self { gaussian, ..Self::default() }
    }
}

/// Actions to read, `[rows, act_len]`.
#[derive(Clone, Copy, Debug)]
pub enum ActionsRef<'a> {
    /// Indices.
    Discrete(&'a [u32]),
    /// Numbers.
    Continuous(&'a [f32]),
}

/// Actions to write, `[rows, act_len]`.
#[derive(Debug)]
pub enum ActionsMut<'a> {
    /// Indices.
    Discrete(&'a mut [u32]),
    /// Numbers.
    Continuous(&'a mut [f32]),
}

const INDICES: &str = "u32";
const NUMBERS: &str = "f32";

impl<'a> ActionsRef<'a> {
    /// The indices, or an error if these are numbers.
    pub fn discrete(self) -> Result<&'a [u32], PolicyError> {
        match self {
            Self::Discrete(indices) => Ok(indices),
            Self::Continuous(_) => Err(wrong_kind(INDICES, NUMBERS)),
        }
    }

    /// The numbers, or an error if these are indices.
    pub fn continuous(self) -> Result<&'a [f32], PolicyError> {
        match self {
            Self::Continuous(numbers) => Ok(numbers),
            Self::Discrete(_) => Err(wrong_kind(NUMBERS, INDICES)),
        }
    }
}

impl<'a> ActionsMut<'a> {
    /// The indices, or an error if these are numbers.
    pub fn discrete(self) -> Result<&'a mut [u32], PolicyError> {
        match self {
            Self::Discrete(indices) => Ok(indices),
            Self::Continuous(_) => Err(wrong_kind(INDICES, NUMBERS)),
        }
    }

    /// The numbers, or an error if these are indices.
    pub fn continuous(self) -> Result<&'a mut [f32], PolicyError> {
        match self {
            Self::Continuous(numbers) => Ok(numbers),
            Self::Discrete(_) => Err(wrong_kind(NUMBERS, INDICES)),
        }
    }
}

fn wrong_kind(expected: &'static str, got: &'static str) -> PolicyError {
    PolicyError::Kind { what: "actions", expected, got }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod contract;
#[cfg(test)]
mod tests;
