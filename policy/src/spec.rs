//! Serialisable descriptions of networks.

mod geometry;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::geometry::{Conv, Dense, EncoderLayers, Image, Lstm, Section, Tower};
use crate::{NetworkShape, ParamLayout, Params, PolicyError, Space, distribution_for};

/// A network: an encoder, an optional LSTM, and heads for policy and value. The spec and its [`Params`]
/// rebuild a policy.
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
    /// The observations. A saved spec says of bytes that are no pixels that they are scaled by their bounds;
    /// one that does not say so scales them by 1/255, [as pixels](Space::as_pixels).
    #[serde(serialize_with = "Space::save_observed", deserialize_with = "Space::load_observed")]
    pub obs: Space,
    /// The number of inputs of the action distribution.
    pub dist_len: usize,
    /// The encoder from observations to features.
    pub encoder: Encoder,
    /// The width of the LSTM; `None` for a feed-forward network.
    #[serde(default)]
    pub lstm: Option<usize>,
    /// Whether policy and value share features.
    pub torso: Torso,
    /// The initialisation of weights.
    pub init: Init,
}

/// The encoder from observations to features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Encoder {
    /// Fully connected layers.
    Mlp {
        /// The width of each layer; empty for a linear policy.
        hidden: Vec<usize>,
        /// The activation after each layer.
        activation: Activation,
    },
    /// The network of Mnih et al. (2015) for images: convolutions of 32 kernels 8×8 with stride 4, 64 of 4×4
    /// with stride 2 and 64 of 3×3, without padding, then a dense layer. ReLU follows each.
    ///
    /// Images are observations of shape `[channels, height, width]`, at least 36×36.
    NatureCnn {
        /// The width of the dense layer, usually 512.
        hidden: usize,
    },
    /// The residual network of Espeholt et al. (2018) for images: sections, ReLU, a dense layer and ReLU.
    ///
    /// A section is a convolution of 3×3 kernels, a max-pool of 3×3 with stride 2, and two residual blocks,
    /// each `x + conv(relu(conv(relu(x))))` with 3×3 kernels. All are padded by 1: a convolution keeps the
    /// size of the image and a pool halves it, rounded up; the padding of a pool is never the maximum.
    ///
    /// Images are observations of shape `[channels, height, width]`.
    ImpalaCnn {
        /// The number of kernels in each section, usually 16, 32 and 32.
        channels: Vec<usize>,
        /// The width of the dense layer, usually 256.
        hidden: usize,
    },
}

impl Encoder {
    /// [`Encoder::NatureCnn`] with the usual 512 features.
    pub fn nature_cnn() -> Self {
        Self::NatureCnn { hidden: 512 }
    }

    /// [`Encoder::ImpalaCnn`] with the usual three sections and 256 features.
    pub fn impala_cnn() -> Self {
        Self::ImpalaCnn { channels: vec![16, 32, 32], hidden: 256 }
    }
}

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The hyperbolic tangent.
    Tanh,
    /// ReLU, with slope zero at zero.
    Relu,
}

/// Whether policy and value share features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Torso {
    /// One encoder and LSTM for both: half the work, and the value loss shapes the policy's features.
    Shared,
    /// An encoder and LSTM for each.
    Separate,
}

/// The initialisation of weights. Biases start at zero, except those of an LSTM's forget gate, which start at
/// one to keep the state (Gers, Schmidhuber and Cummins, 2000; Jozefowicz, Zaremba and Sutskever, 2015). The
/// policy head is 100 times smaller than the value head, so that the first policy is nearly uniform. The
/// kernels of a convolution are one matrix, inputs of a window by kernels; each gate of an LSTM has its own
/// for the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// Orthogonal matrices (Saxe, McClelland and Ganguli, 2014), times √2 before an activation.
    Orthogonal,
    /// Uniform with variance 2 / (inputs + outputs) (Glorot and Bengio, 2010).
    Xavier,
}

impl NetworkSpec {
    /// A small network: two hidden layers of 64 with tanh, shared by both heads, orthogonal.
    pub fn for_spaces(observation: &Space, action: &Space) -> Result<Self, PolicyError> {
        let spec = Self {
            obs: observation.clone(),
            dist_len: distribution_for(action)?.dist_len(),
            encoder: Encoder::Mlp { hidden: vec![64, 64], activation: Activation::Tanh },
            lstm: None,
            torso: Torso::Shared,
            init: Init::Orthogonal,
        };
        spec.check().map(|()| spec)
    }

    /// Checks that the network can be built.
    pub fn check(&self) -> Result<(), PolicyError> {
        let refuse = |reason: String| Err(PolicyError::BadSpec { reason });
        self.obs.check()?;
        if self.dist_len == 0 {
            return refuse("dist_len is 0, but an action distribution needs at least one number".into());
        }
        if self.lstm == Some(0) {
            return refuse("the LSTM has width 0: give it a width, or leave it out".into());
        }
        if let Err(reason) = self.encoder.check(&self.obs) {
            return refuse(reason);
        }
        let layers = self.tensors();
        let weights = layers.iter().fold(0, |sum: usize, (_, shape)| sum.saturating_add(saturating_product(shape)));
        if weights > MAX_WEIGHTS {
            let largest = layers.into_iter().max_by_key(|(_, shape)| saturating_product(shape));
            let (name, shape) = largest.unwrap_or_default();
            return refuse(format!(
                "it has {weights} weights, `{name}` of shape {shape:?} the most of them; more than {MAX_WEIGHTS} is a mistake"
            ));
        }
        Ok(())
    }

    /// The names and shapes of the parameters.
    ///
    /// Weights are `[inputs, outputs]`, biases `[outputs]`. With [`Torso::Separate`] there are `policy_torso`
    /// and `value_torso` instead of `torso`.
    ///
    /// | part | tensors |
    /// |---|---|
    /// | `Mlp` | `torso.0`, `torso.1`, … |
    /// | `NatureCnn` | convolutions `torso.0` to `torso.2`, dense `torso.3` |
    /// | `ImpalaCnn` | convolutions `torso.section0.conv`, `torso.section0.block0.conv0`, `torso.section0.block0.conv1`, `torso.section0.block1.conv0`, …; dense `torso.dense` |
    /// | LSTM | `torso.lstm.input.weight` `[features, 4 H]`, `torso.lstm.hidden.weight` `[H, 4 H]`, `torso.lstm.bias` `[4 H]`: gates i, f, g, o |
    /// | heads | `policy`, `value` |
    ///
    /// The weight of a convolution is `[ky, kx, in_channels, out_channels]`. The dense layer after them reads
    /// the image flattened in the order y, x, channel.
    pub fn layout(&self) -> Result<ParamLayout, PolicyError> {
        self.check()?;
        Ok(ParamLayout::new(self.tensors()))
    }

    /// The sizes of inputs and outputs.
    pub fn shape(&self) -> NetworkShape {
        NetworkShape { obs: self.obs.clone(), dist_len: self.dist_len, state_len: self.state_len() }
    }

    /// The length of the recurrent state: for each LSTM its hidden state, then its cell; 0 without.
    pub fn state_len(&self) -> usize {
        let per_tower = self.lstm.unwrap_or(0).saturating_mul(2);
        per_tower.saturating_mul(self.torso.names().len())
    }

    /// The initial weights. Equal seeds give equal bits.
    pub fn init_params(&self, seed: u64) -> Result<Params, PolicyError> {
        Ok(self.init.params(Arc::new(self.layout()?), seed))
    }

    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let towers = self.towers();
        let heads = || {
            towers
                .iter()
                .filter_map(|tower| tower.policy.as_ref())
                .chain(towers.iter().filter_map(|tower| tower.value.as_ref()))
        };
        let torsos = towers.iter().flat_map(Tower::torso_tensors);
        torsos.chain(heads().flat_map(Dense::tensors)).collect()
    }
}

pub(crate) const POLICY_HEAD: &str = "policy";
pub(crate) const VALUE_HEAD: &str = "value";

/// Far above any practical network; a few bytes for each do not overflow.
const MAX_WEIGHTS: usize = 1 << 32;

fn saturating_product(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product: usize, &n| product.saturating_mul(n))
}

#[cfg(test)]
mod tests;
