//! [`TrainerConfig`]: every setting of a run, with RLlib's names and defaults.

mod admission;
mod as_toml;
mod check;
mod checkpoint;
mod difference;
mod evaluation;
mod every;
mod file;
mod gate;
mod learner;
mod model;
mod precision;
mod results;
mod rhythm;
mod saved;
mod seconds;
mod seconds_or_never;
mod supervision;
#[cfg(test)]
mod tests;
mod workers;

use pronk_learner::{Algorithm, AlgorithmConfig};
use pronk_policy::{ObsDtype, Space};
use pronk_rollout::NormalizerConfig;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

pub use admission::Admission;
pub(crate) use as_toml::as_toml;
pub use checkpoint::CheckpointConfig;
pub(crate) use difference::first_difference;
pub use evaluation::{EvaluationConfig, Selection};
pub use every::{Every, EveryError};
pub use learner::{LearnerConfig, OptType};
pub use model::{ModelConfig, Vision};
pub use results::ResultsConfig;
pub(crate) use saved::as_it_acted;
pub use supervision::SupervisionConfig;
pub use workers::{InferencePlacement, ObservationFilter, WorkersConfig};

/// Every setting of a run: public fields in groups, checked when the trainer is built.
///
/// Names are those of RLlib 2.2, whose `AlgorithmConfig` the groups follow, and the defaults those of its
/// `ImpalaConfig` unless a field says otherwise. Other algorithms have other defaults of batches, passes and
/// clipping: [`for_algorithm`](Self::for_algorithm) has them.
///
/// In a file each group is a table, and its keys may also stand at the top level, as in RLlib: `lr`, or `lr`
/// in `learner`. A missing key takes the default of the file's algorithm; an unknown or repeated one is an
/// error that names it.
///
/// # Example
/// ```
/// use pronk::{PpoConfig, TrainerConfig};
///
/// let mut config = TrainerConfig { seed: 7, ..TrainerConfig::default() };
/// config.workers.num_envs_per_worker = 16;
/// config.learner.lr = 0.003;
/// assert!(config.check().is_ok());
///
/// let file = r#"{ "seed": 7, "workers": { "num_envs_per_worker": 16 }, "lr": 0.003 }"#;
/// assert_eq!(serde_json::from_str::<TrainerConfig>(file)?, config);
///
/// config.workers.num_envs_per_worker = 0;
/// assert!(config.check().unwrap_err().to_string().contains("num_envs_per_worker"));
///
/// let config = TrainerConfig::for_algorithm(PpoConfig { gamma: 0.95, ..PpoConfig::default() });
/// let file = r#"{ "algorithm": { "ppo": { "gamma": 0.95 } } }"#;
/// assert_eq!(serde_json::from_str::<TrainerConfig>(file)?, config);
/// assert_eq!((config.learner.num_sgd_iter, TrainerConfig::default().learner.num_sgd_iter), (10, 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
// `remote = "Self"` makes the derived code an inherent method, which `file` wraps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct TrainerConfig {
    /// Seed of all random numbers of the run. Beyond 2⁶³ − 1, where whole numbers of TOML end, files have it
    /// as a text.
    #[serde(deserialize_with = "seed")]
    pub seed: u64,
    /// The algorithm with its own settings, such as `gamma`. Ignored if the builder is given an algorithm.
    pub algorithm: AlgorithmConfig,
    /// The network.
    pub model: ModelConfig,
    /// Sampling.
    pub workers: WorkersConfig,
    /// Training.
    pub learner: LearnerConfig,
    /// Failures of workers and environments.
    pub supervision: SupervisionConfig,
    /// What one result covers.
    pub results: ResultsConfig,
    /// How often the run saves itself, in a table of its own.
    pub checkpoint: CheckpointConfig,
    /// How often the run evaluates its policy, in a table of its own.
    pub evaluation: EvaluationConfig,
}

/// An invalid setting, or an invalid combination. The message names it and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config: {field} = {value} cannot work: {reason}")]
pub struct ConfigError {
    /// Its key: `lr`, or `model.burn_in` for keys of [`ModelConfig`].
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// Why it is invalid, and what to set instead.
    pub reason: String,
}

fn seed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a whole number from 0 to 2^64 - 1 was expected")]
    enum Seed {
        Number(u64),
        Text(String),
    }
    match Seed::deserialize(deserializer)? {
        Seed::Number(seed) => Ok(seed),
        Seed::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

impl TrainerConfig {
    /// The defaults for an algorithm, such as `PpoConfig::default()`.
    pub fn for_algorithm(algorithm: impl Into<AlgorithmConfig>) -> Self {
        let algorithm = algorithm.into();
        let (learner, model) = (LearnerConfig::for_algorithm(&algorithm), ModelConfig::for_algorithm(&algorithm));
        Self { algorithm, learner, model, ..Self::default() }
    }

    /// What a single-agent run with these observations normalises, rewards by the discount of `own`, if the
    /// algorithm is the user's own.
    ///
    /// # Errors
    /// Rewards are to be normalised, and `own` has no discount.
    pub(crate) fn normalizer(
        &self,
        observation: &Space,
        own: Option<&dyn Algorithm>,
    ) -> Result<NormalizerConfig, ConfigError> {
        let return_gamma = match (self.workers.normalize_rewards, own) {
            (false, _) => None,
            (true, None) => Some(self.algorithm.gamma()),
            (true, Some(own)) => {
                let gamma = own.gamma().filter(|gamma| (0.0..=1.0).contains(gamma));
                Some(gamma.ok_or_else(|| {
                    let reason = format!(
                        "rewards are normalised by the algorithm's discount, and Algorithm::gamma of `{}` returns {:?}; \
                         return one from 0 to 1, or leave this at false",
                        own.name(),
                        own.gamma()
                    );
                    ConfigError::caused_by("normalize_rewards", true, &reason)
                })?)
            }
        };
        let filters = self.workers.observation_filter == ObservationFilter::MeanStdFilter;
        // The network brings bytes to one scale by their bounds.
        let observations = filters && observation.obs_dtype() == ObsDtype::F32;
        Ok(NormalizerConfig { observations, return_gamma })
    }
}

impl ConfigError {
    /// A setting that another component refused.
    pub(crate) fn caused_by(field: &'static str, value: impl ToString, cause: &impl ToString) -> Self {
        Self { field, value: value.to_string(), reason: cause.to_string() }
    }
}
