//! [`WorkersConfig`]: how experience is made.

use pronk_rollout::Gather;
use serde::{Deserialize, Serialize};

/// How experience is made: workers, their environments, fragments. Names and defaults are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersConfig {
    /// Rollout threads. 0 runs one worker inline, on the thread that calls the trainer: bit-reproducible.
    pub num_rollout_workers: usize,
    /// Environments that one worker steps together: `B`, the columns of a fragment.
    pub num_envs_per_worker: usize,
    /// Groups that a worker's environments are shared out to, each stepped by a thread of its own; with 1 the
    /// worker steps them itself. For environments that take their time. 2 with `gather: in_turn` is
    /// double-buffered sampling.
    pub num_env_groups: usize,
    /// Where inference runs: in every worker, or on one thread for all of them.
    pub inference: InferencePlacement,
    /// For how many groups a worker waits before its policy acts for them. (RLlib:
    /// `remote_env_batch_wait_ms`.)
    pub gather: Gather,
    /// Steps of each environment in one fragment: `T`.
    pub rollout_fragment_length: usize,
    /// What observations go through before the network sees them. What it has found out of their scales is
    /// part of checkpoints. For environments with one agent, whose observations are floats.
    pub observation_filter: ObservationFilter,
    /// Whether rewards are divided by the running standard deviation of the return discounted by the
    /// algorithm's `gamma`, and clipped to ±10, before they are learned from. Episode returns stay those of
    /// the environments. For environments with one agent. (Gymnasium: `NormalizeReward`.)
    pub normalize_rewards: bool,
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
        }
    }
}

/// Where inference runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InferencePlacement {
    /// Every worker for its own environments. Weights change between fragments.
    PerWorker,
    /// One thread, `inference`, for all workers: whoever asks while it computes is in the next batch. For
    /// expensive networks and workers with few environments each. Weights change between batches, and each
    /// step says which decided it.
    Shared,
}

/// What observations go through before the network sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservationFilter {
    /// Nothing.
    #[default]
    NoFilter,
    /// Each of their numbers is brought to mean 0 and standard deviation 1 over all that was observed so far,
    /// and clipped to ±10. The scale changes between fragments only.
    MeanStdFilter,
}
