//! [`ModelConfig`]: the network of a run.

use pronk_learner::InitialState;
use pronk_policy::{Activation, Gaussian, GaussianConfig, Init, LogStdRange, Torso};
use serde::{Deserialize, Serialize};

/// The network of a run. Names and defaults as RLlib's model config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Widths of the hidden layers. Where `vision` looks, it brings its own.
    pub fcnet_hiddens: Vec<usize>,
    /// What follows each hidden layer.
    pub fcnet_activation: Activation,
    /// What looks at images, observations of shape `[channels, height, width]`; for others it means nothing.
    pub vision: Vision,
    /// Whether an LSTM stands between the hidden layers and the heads, so that a policy can remember. Its
    /// memory goes on from fragment to fragment and is emptied where episodes begin.
    pub use_lstm: bool,
    /// Width of the LSTM.
    pub lstm_cell_size: usize,
    /// With which memory the learner begins a fragment.
    pub initial_state: InitialState,
    /// First steps of every fragment that are not learned from: the LSTM only runs through them, so that the
    /// memory for the others is one of the weights that learn.
    pub burn_in: usize,
    /// How actions that are numbers are distributed: `diagonal`, or `squashed` into their bounds.
    pub gaussian: Gaussian,
    /// The least and the greatest logarithm of their standard deviations; in a file `[lowest, highest]`.
    pub log_std_range: LogStdRange,
    /// Whether policy and value share the hidden layers (RLlib's `vf_share_layers`).
    pub torso: Torso,
    /// How weights are drawn at the start. (RLlib draws normal values and scales each column.)
    pub init: Init,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            fcnet_hiddens: vec![256, 256],
            fcnet_activation: Activation::Tanh,
            vision: Vision::NatureCnn,
            use_lstm: false,
            lstm_cell_size: 256,
            initial_state: InitialState::Stored,
            burn_in: 0,
            gaussian: Gaussian::Diagonal,
            log_std_range: LogStdRange::default(),
            torso: Torso::Shared,
            init: Init::Orthogonal,
        }
    }
}

impl ModelConfig {
    /// How actions that are numbers are distributed.
    pub(crate) fn gaussian(&self) -> GaussianConfig {
        GaussianConfig { gaussian: self.gaussian, log_std_range: self.log_std_range }
    }
}

/// What looks at images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vision {
    /// The three convolutions of Mnih et al. (2015) and a dense layer of 512; images of 36 × 36 pixels at
    /// least.
    NatureCnn,
    /// The residual network of Espeholt et al. (2018) and a dense layer of 256.
    ImpalaCnn,
    /// Nothing: pixels go into the hidden layers one by one.
    Flat,
}
