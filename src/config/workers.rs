//! [`WorkersConfig`]: sampling.

use pronk_policy::Precision;
use pronk_rollout::Gather;
use serde::{Deserialize, Serialize};

/// Workers, their environments and fragments. Names and defaults are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersConfig {
    /// Rollout threads. 0 runs one worker on the caller's thread: bit-reproducible.
    pub num_rollout_workers: usize,
    /// Environments per worker: `B`, the columns of a fragment.
    pub num_envs_per_worker: usize,
    /// Groups of a worker's environments, each stepped by a thread, for slow environments; with 1 the worker
    /// steps them itself. 2 with `gather: in_turn` is double-buffered sampling.
    pub num_env_groups: usize,
    /// Where inference runs: in every worker, or on one thread for all of them.
    pub inference: InferencePlacement,
    /// How many groups a worker waits for before its policy acts. (RLlib: `remote_env_batch_wait_ms`.)
    pub gather: Gather,
    /// Steps of each environment in one fragment: `T`.
    pub rollout_fragment_length: usize,
    /// Preprocessing of observations; its statistics are part of checkpoints. Only for single-agent
    /// environments with float observations.
    pub observation_filter: ObservationFilter,
    /// Whether rewards are divided by the running standard deviation of the discounted return and clipped to
    /// ±10. Episode returns stay raw. Only for single-agent environments. (Gymnasium: `NormalizeReward`.)
    pub normalize_rewards: bool,
    /// Precision of the factors that a worker's network multiplies. `bf16` needs a processor with AMX:
    /// networks of images act two to four times as fast. V-trace and the clipped ratio correct the difference
    /// to the learner, since probabilities are recorded as they were acted on.
    pub acting_precision: Precision,
}

impl Default for WorkersConfig {
    fn default() -> Self {
        Self {
            num_rollout_workers: 2,
            num_envs_per_worker: 1,
            num_env_groups: 1,
            inference: InferencePlacement::PerWorker,
            gather: Gather::All,
            rollout_fragment_length: 50,
            observation_filter: ObservationFilter::NoFilter,
            normalize_rewards: false,
            acting_precision: Precision::F32,
        }
    }
}

/// Where inference runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InferencePlacement {
    /// In every worker. Weights change between fragments.
    PerWorker,
    /// On one thread, `inference`, which batches the requests of all workers: for expensive networks and few
    /// environments per worker. Weights change between batches, and each step records its version.
    Shared,
}

/// Preprocessing of observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservationFilter {
    /// Nothing.
    #[default]
    NoFilter,
    /// Normalises each component by running mean and standard deviation, and clips to ±10. The statistics
    /// change between fragments only. Bytes are left to the network, which scales them by their bounds.
    MeanStdFilter,
}
