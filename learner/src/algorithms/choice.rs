//! The built-in algorithms.

use serde::{Deserialize, Serialize};

use super::appo::{Appo, AppoConfig};
use super::impala::{Impala, ImpalaConfig};
use super::ppo::{Ppo, PpoConfig};
use crate::{Algorithm, LearnError};

/// A built-in algorithm, with its settings.
///
/// ```
/// use pronk_learner::{AlgorithmConfig, PpoConfig};
///
/// let config: AlgorithmConfig = PpoConfig { clip_param: 0.2, ..PpoConfig::default() }.into();
/// assert_eq!(config.name(), "ppo");
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlgorithmConfig {
    /// Actor-critic with V-trace.
    Impala(ImpalaConfig),
    /// Asynchronous PPO with V-trace of a target network.
    Appo(AppoConfig),
    /// PPO.
    Ppo(PpoConfig),
}

impl Default for AlgorithmConfig {
    fn default() -> Self {
        Self::Impala(ImpalaConfig::default())
    }
}

impl From<ImpalaConfig> for AlgorithmConfig {
    fn from(config: ImpalaConfig) -> Self {
        Self::Impala(config)
    }
}

impl From<AppoConfig> for AlgorithmConfig {
    fn from(config: AppoConfig) -> Self {
        Self::Appo(config)
    }
}

impl From<PpoConfig> for AlgorithmConfig {
    fn from(config: PpoConfig) -> Self {
        Self::Ppo(config)
    }
}

impl AlgorithmConfig {
    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Impala(_) => "impala",
            Self::Appo(_) => "appo",
            Self::Ppo(_) => "ppo",
        }
    }

    /// Discount of future rewards.
    pub fn gamma(&self) -> f64 {
        match self {
            Self::Impala(config) => config.gamma,
            Self::Appo(config) => config.gamma,
            Self::Ppo(config) => config.gamma,
        }
    }

    /// The minimal number of steps of a fragment.
    pub fn fewest_steps(&self) -> usize {
        match self {
            Self::Impala(ImpalaConfig { vtrace: true, vtrace_drop_last_ts: true, .. })
            | Self::Appo(AppoConfig { vtrace: true, vtrace_drop_last_ts: true, .. }) => 2,
            Self::Impala(_) | Self::Appo(_) | Self::Ppo(_) => 1,
        }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`LearnError::Config`] with the first invalid setting, its value, and the reason.
    pub fn check(&self) -> Result<(), LearnError> {
        match self {
            Self::Impala(config) => config.check(),
            Self::Appo(config) => config.check(),
            Self::Ppo(config) => config.check(),
        }
    }

    /// Builds the algorithm. The [rhythm](Algorithm::set_rhythm) of its run comes later.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn build(&self) -> Result<Box<dyn Algorithm>, LearnError> {
        Ok(match self.clone() {
            Self::Impala(config) => Box::new(Impala::new(config)?),
            Self::Appo(config) => Box::new(Appo::new(config)?),
            Self::Ppo(config) => Box::new(Ppo::new(config)?),
        })
    }
}
