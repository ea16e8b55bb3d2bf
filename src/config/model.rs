//! [`ModelConfig`]: the network of a run.

use pronk_learner::{AlgorithmConfig, InitialState};
use pronk_policy::{Activation, Gaussian, GaussianConfig, Init, LogStdRange, Torso};
use serde::{Deserialize, Serialize};

/// The network of a run. Names and defaults as RLlib's model config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Widths of the hidden layers; CNNs of `vision` have their own.
    pub fcnet_hiddens: Vec<usize>,
    /// Activation of the hidden layers.
    pub fcnet_activation: Activation,
    /// The encoder of images, observations of shape `[channels, height, width]`; ignored for others.
    pub vision: Vision,
    /// Whether an LSTM follows the hidden layers. Its state continues across fragments and is reset when an
    /// episode starts.
    pub use_lstm: bool,
    /// Width of the LSTM.
    pub lstm_cell_size: usize,
    /// The recurrent state at the start of a fragment in training.
    pub initial_state: InitialState,
    /// Leading steps of every fragment that only warm up the recurrent state and are not trained on.
    pub burn_in: usize,
    /// The distribution of continuous actions: `diagonal`, or `squashed` into their bounds.
    pub gaussian: Gaussian,
    /// The range of the logarithm of their standard deviations; in a file `[lowest, highest]`.
    pub log_std_range: LogStdRange,
    /// Whether policy and value share the hidden layers (RLlib's `vf_share_layers`).
    pub torso: Torso,
    /// How weights are initialised. (RLlib draws normal values and scales each column.)
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
    /// The defaults for an algorithm. In shared layers the loss of values, whose gradient grows with returns,
    /// outweighs a surrogate, whose advantages are standardised or clipped.
    pub(super) fn for_algorithm(algorithm: &AlgorithmConfig) -> Self {
        match algorithm {
            AlgorithmConfig::Impala(_) => Self::default(),
            AlgorithmConfig::Appo(_) | AlgorithmConfig::Ppo(_) => Self { torso: Torso::Separate, ..Self::default() },
        }
    }

    /// The distribution of continuous actions, `gaussian` within `log_std_range`: what
    /// [`Policy::with_gaussian`](pronk_policy::Policy::with_gaussian) takes.
    pub fn gaussian(&self) -> GaussianConfig {
        GaussianConfig { gaussian: self.gaussian, log_std_range: self.log_std_range }
    }
}

/// The encoder of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vision {
    /// The three convolutions of Mnih et al. (2015) and a dense layer of 512; images of 36 × 36 pixels at
    /// least.
    NatureCnn,
    /// The residual network of Espeholt et al. (2018) and a dense layer of 256.
    ImpalaCnn,
    /// None: pixels are flattened into the hidden layers.
    Flat,
}
