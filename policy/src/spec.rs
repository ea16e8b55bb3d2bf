//! The description of a network: all that is needed to build it, in a form that can be written to a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ParamLayout, Params, PolicyError, Space, distribution_for, init};

/// What a network looks like. A policy is rebuilt from its spec and its [`Params`].
///
/// ```
/// use pronk_policy::{Activation, Encoder, NetworkSpec, Space};
///
/// let observation = Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?;
/// let spec = NetworkSpec {
///     encoder: Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Relu },
///     ..NetworkSpec::for_spaces(&observation, &Space::discrete(2)?)?
/// };
/// assert_eq!(spec.init_params(0)?.values().len(), 4 * 64 + 64 + 64 * 64 + 64 + 64 * 3 + 3);
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// The observations.
    pub obs: Space,
    /// How many numbers describe the action distribution.
    pub dist_len: usize,
    /// What turns an observation into features.
    pub encoder: Encoder,
    /// Whether policy and value see the same features.
    pub torso: Torso,
    /// How the weights start.
    pub init: Init,
}

/// What turns an observation into features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Encoder {
    /// Fully connected layers.
    Mlp {
        /// The width of each layer; none at all makes a linear policy.
        hidden: Vec<usize>,
        /// What follows each layer.
        activation: Activation,
    },
}

/// The non-linearity after a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The hyperbolic tangent.
    Tanh,
    /// Zero below zero, where its slope is zero too, zero included.
    Relu,
}

/// Whether policy and value see the same features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Torso {
    /// One encoder for both: half the work, and the value loss shapes the policy's features.
    Shared,
    /// An encoder each.
    Separate,
}

/// How weights start. Biases start at zero; the policy head starts 100 times smaller than the value head, so that the
/// first policy is nearly uniform whatever the observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// Orthogonal matrices (Saxe, McClelland and Ganguli, 2014), hidden layers √2 times as large.
    Orthogonal,
    /// Uniform with variance 2 / (inputs + outputs) (Glorot and Bengio, 2010).
    Xavier,
}

impl NetworkSpec {
    /// The usual small network: two hidden layers of 64 with tanh, shared by both heads, orthogonal.
    pub fn for_spaces(observation: &Space, action: &Space) -> Result<Self, PolicyError> {
        let spec = Self {
            obs: observation.clone(),
            dist_len: distribution_for(action)?.dist_len(),
            encoder: Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Tanh },
            torso: Torso::Shared,
            init: Init::Orthogonal,
        };
        spec.check().map(|()| spec)
    }

    /// Whether such a network can be built.
    pub fn check(&self) -> Result<(), PolicyError> {
        let refuse = |reason: String| Err(PolicyError::BadSpec { reason });
        self.obs.check()?;
        if self.dist_len == 0 {
            return refuse("dist_len is 0, but an action distribution needs at least one number".into());
        }
        let Encoder::Mlp { hidden, .. } = &self.encoder;
        if let Some(layer) = hidden.iter().position(|&width| width == 0) {
            return refuse(format!("hidden layer {layer} has width 0: give every layer a width, or leave it out"));
        }
        // Twice, for separate torsos; with room to multiply by a few bytes without overflow.
        let widths: Vec<_> = [&[self.obs.obs_len()], hidden.as_slice(), &[self.dist_len.saturating_add(1)]].concat();
        let weights = widths.windows(2).fold(0, |sum: usize, io| sum.saturating_add(io[0].saturating_mul(io[1])));
        if weights > MAX_WEIGHTS {
            return refuse(format!(
                "layers of width {widths:?} need {weights} weights; more than {MAX_WEIGHTS} is a mistake"
            ));
        }
        Ok(())
    }

    /// The names and shapes of the parameters: weights are `[inputs, outputs]`, as the product `rows × weight` wants them.
    pub fn layout(&self) -> Result<ParamLayout, PolicyError> {
        self.check()?;
        let Encoder::Mlp { hidden, .. } = &self.encoder;
        let torsos: &[&str] = match self.torso {
            Torso::Shared => &["torso"],
            Torso::Separate => &["policy_torso", "value_torso"],
        };
        let mut tensors = Vec::new();
        let mut linear = |name: String, inputs, outputs| {
            tensors.push((format!("{name}.weight"), vec![inputs, outputs]));
            tensors.push((format!("{name}.bias"), vec![outputs]));
        };
        for torso in torsos {
            let inputs = std::iter::once(self.obs.obs_len()).chain(hidden.iter().copied());
            for (layer, (inputs, &outputs)) in inputs.zip(hidden).enumerate() {
                linear(format!("{torso}.{layer}"), inputs, outputs);
            }
        }
        let features = hidden.last().copied().unwrap_or(self.obs.obs_len());
        linear(POLICY_HEAD.into(), features, self.dist_len);
        linear(VALUE_HEAD.into(), features, 1);
        Ok(ParamLayout::new(tensors))
    }

    /// The first weights: the same seed gives the same bits.
    pub fn init_params(&self, seed: u64) -> Result<Params, PolicyError> {
        Ok(init::init_params(self.init, Arc::new(self.layout()?), seed))
    }
}

pub(crate) const POLICY_HEAD: &str = "policy";
pub(crate) const VALUE_HEAD: &str = "value";

const MAX_WEIGHTS: usize = 1 << 32;

#[cfg(test)]
mod tests;
