//! [`ResultsConfig`]: what a result covers.

use serde::{Deserialize, Serialize};

/// What a result of the trainer covers. Names and defaults are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultsConfig {
    /// Shortest duration of an iteration, in seconds. Not used under deterministic admission.
    pub min_time_s_per_iteration: f64,
    /// Fewest env-steps sampled in one iteration. Under deterministic admission the iteration has just as
    /// many train batches.
    pub min_sample_timesteps_per_iteration: u64,
    /// Whether results have `weights_digest`, of the newest weights, and `digest_chain`, of all fragments and
    /// weights so far: equal in two runs that did the same.
    pub weights_digest: bool,
    /// Fewest episodes of the episode statistics, topped up from earlier iterations; 1024 at most.
    pub metrics_num_episodes_for_smoothing: usize,
}

impl Default for ResultsConfig {
    fn default() -> Self {
        Self {
            min_time_s_per_iteration: 10.0,
            min_sample_timesteps_per_iteration: 0,
            weights_digest: false,
            metrics_num_episodes_for_smoothing: 100,
        }
    }
}
