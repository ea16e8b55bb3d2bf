//! [`TrainerConfig`]: every setting of a run, with RLlib's names and defaults.

mod check;
mod file;
mod gate;
mod learner;
mod model;
mod results;
mod seconds;
mod seconds_or_never;
mod supervision;
#[cfg(test)]
mod tests;
mod workers;

use pronk_learner::AlgorithmConfig;
use pronk_rollout::NormalizerConfig;
use serde::{Deserialize, Serialize};

pub use learner::{LearnerConfig, OptType};
pub use model::{ModelConfig, Vision};
pub use results::ResultsConfig;
pub use supervision::SupervisionConfig;
pub use workers::{InferencePlacement, ObservationFilter, WorkersConfig};

/// Every setting of a run: plain public fields in groups, checked once when the trainer is built.
///
/// Names and defaults are those of RLlib 2.2's `ImpalaConfig` where a setting exists there; each field says
/// where pronk differs. The groups are those of RLlib's `AlgorithmConfig`, more or less.
///
/// In a file, a group is a table, and a key of a group may also stand at the top level, as in RLlib: `lr`, or
/// `lr` in `learner`. A missing key takes its default; an unknown one, and one given in both places, is
/// refused by name. What is written is grouped.
///
/// # Example
/// ```
/// use pronk::TrainerConfig;
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
/// # Ok::<(), serde_json::Error>(())
/// ```
// `remote = "Self"` leaves the derived code to `file`, which is what serde sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct TrainerConfig {
    /// Seed of everything random in the run. 0 is a seed like any other.
    pub seed: u64,
    /// The algorithm, with its own settings: discount, weights of the loss and what else it has. (In RLlib:
    /// the class of the config.) Not used by a run with an algorithm of your own.
    pub algorithm: AlgorithmConfig,
    /// The network.
    pub model: ModelConfig,
    /// How experience is made.
    pub workers: WorkersConfig,
    /// How experience becomes weights.
    pub learner: LearnerConfig,
    /// What becomes of workers that fail.
    pub supervision: SupervisionConfig,
    /// What a result covers.
    pub results: ResultsConfig,
}

/// A setting, or a relation of settings, that cannot work. The message names it and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config: {field} = {value} cannot work: {reason}")]
pub struct ConfigError {
    /// Its key, which is enough to find it in a file and in the code: `lr`, or `model.burn_in` for keys of
    /// [`ModelConfig`].
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// Why it is refused and what to set instead.
    pub reason: String,
}

impl TrainerConfig {
    /// What is normalised in a run with one agent, if anything is.
    pub(crate) fn normalizer(&self) -> Option<NormalizerConfig> {
        let config = NormalizerConfig {
            observations: self.workers.observation_filter == ObservationFilter::MeanStdFilter,
            return_gamma: self.workers.normalize_rewards.then(|| self.algorithm.gamma()),
        };
        (config != NormalizerConfig::default()).then_some(config)
    }
}

impl ConfigError {
    /// A setting that something else refused.
    pub(crate) fn caused_by(field: &'static str, value: impl ToString, cause: &impl ToString) -> Self {
        Self { field, value: value.to_string(), reason: cause.to_string() }
    }
}
