//! [`TrainerConfig`]: every setting of a run, with RLlib's names and defaults.

mod check;
mod gate;
mod seconds;
mod seconds_or_never;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::Gate;
use pronk_learner::{AlgorithmConfig, InitialState, OnStarved, Schedule};
use pronk_policy::{Activation, DeviceSpec, Gaussian, GaussianConfig, Init, LogStdRange, Torso};
use pronk_rollout::{Gather, NormalizerConfig};
use serde::{Deserialize, Serialize};

/// Every setting of a run: plain public fields, checked once when the trainer is built.
///
/// Names and defaults are those of RLlib 2.2's `ImpalaConfig` where a setting exists there; each field says where pronk
/// differs. Missing keys take their defaults and unknown keys are refused when a config is deserialised.
///
/// # Example
/// ```
/// use pronk::TrainerConfig;
///
/// let config = TrainerConfig { num_envs_per_worker: 16, lr: 0.003, ..TrainerConfig::default() };
/// assert!(config.check().is_ok());
///
/// let wrong = TrainerConfig { num_envs_per_worker: 0, ..TrainerConfig::default() };
/// assert!(wrong.check().unwrap_err().to_string().contains("num_envs_per_worker"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainerConfig {
    /// Seed of everything random in the run. 0 is a seed like any other.
    pub seed: u64,

    /// Rollout threads. 0 runs one worker inline, on the thread that calls the trainer: bit-reproducible.
    pub num_rollout_workers: usize,
    /// Environments that one worker steps together: `B`, the columns of a fragment.
    pub num_envs_per_worker: usize,
    /// Groups that a worker's environments are shared out to, each stepped by a thread of its own; with 1 the worker steps them
    /// itself. For environments that take their time. 2 with `gather: in_turn` is double-buffered sampling.
    pub num_env_groups: usize,
    /// Who computes what the policy thinks: every worker by itself, or one thread for all of them.
    pub inference: InferencePlacement,
    /// For how many groups a worker waits before its policy acts for them. (RLlib: `remote_env_batch_wait_ms`.)
    pub gather: Gather,
    /// Steps of each environment in one fragment: `T`.
    pub rollout_fragment_length: usize,
    /// What observations go through before the network sees them. What it has found out of their scales is part of
    /// checkpoints. For environments with one agent, whose observations are floats.
    pub observation_filter: ObservationFilter,
    /// Whether rewards are divided by the running standard deviation of the return discounted by the algorithm's `gamma`,
    /// and clipped to ±10, before they are learned from. Episode returns stay those of the environments. For environments
    /// with one agent. (Gymnasium: `NormalizeReward`.)
    pub normalize_rewards: bool,
    /// Failures in a row, without one finished fragment between them, that a worker survives; one more ends the worker, and
    /// the last worker the run. Where environments are in groups, or tasks, that all of them failed is one. (RLlib survives 100, without pauses between restarts.)
    pub num_consecutive_worker_failures_tolerance: u32,
    /// Restarts that all workers together may need within `worker_restart_window`; one more ends the run. (RLlib counts the
    /// whole run.)
    pub max_num_worker_restarts: u32,
    /// How long a restart counts.
    #[serde(with = "seconds")]
    pub worker_restart_window: Duration,
    /// Wait before a failed worker's first restart; it doubles with every further failure in a row.
    #[serde(with = "seconds")]
    pub worker_restart_backoff: Duration,
    /// Longest wait before a restart.
    #[serde(with = "seconds")]
    pub worker_restart_backoff_max: Duration,
    /// How long one call of an environment may take before it counts as hanging: the thread that is in it is then left behind and
    /// another takes its place, of the worker or of the group; a task is cancelled. In a file, seconds or `"never"`. A worker
    /// that steps its environments on the trainer's own thread cannot be replaced.
    #[serde(with = "seconds_or_never")]
    pub env_hang_timeout: Option<Duration>,

    /// Env-steps that make a train batch. Fragments are never split: the surplus of the last one stays in the batch.
    pub train_batch_size: usize,
    /// Fragments used again for each new one, in expectation, drawn from the newest `replay_buffer_num_slots`. (RLlib 2
    /// turns the figure upside down.)
    pub replay_proportion: f64,
    /// Fragments kept to be used again.
    pub replay_buffer_num_slots: usize,
    /// Passes over each train batch.
    pub num_sgd_iter: usize,
    /// Train batches that the minibatch buffer cycles through.
    pub minibatch_buffer_size: usize,
    /// Fragments that may wait for the learner before the workers block; the longer the queue, the older the data. With `None` the
    /// queue and the fragment that each blocked worker holds make up a train batch, so that the next one is ready when an
    /// update ends; under `fill_then_drain` the queue holds the whole batch. Replayed fragments are not counted. (In RLlib: 16
    /// train batches; 0 meant unbounded there and is refused here.)
    pub learner_queue_size: Option<usize>,
    /// When workers may push into that queue and the learner may take from it: `bounded` as long as there is room and something
    /// waits, or `fill_then_drain` by turns. Then workers fill the queue and stand still until the learner has emptied it; it
    /// has to hold at least one train batch. (RLlib has no gate.)
    #[serde(with = "gate::Spelling")]
    pub inqueue_gate: Gate,
    /// How long the learner waits for a train batch before it says that it is starved.
    #[serde(with = "seconds")]
    pub learner_queue_timeout: Duration,
    /// What happens when the learner has waited for `learner_queue_timeout`.
    pub on_starved: OnStarved,
    /// Updates of the weights between two publications; they are published between two passes, each of which is an update or
    /// one for each minibatch. (In RLlib: training-step calls of the driver.)
    pub broadcast_interval: u64,
    /// Fragments whose weights are more publications old than this are dropped and counted. `None` keeps all. With several
    /// agents, those of the newest step count.
    pub max_lag: Option<u64>,
    /// Train batches in a row that may be quarantined for non-finite values before the run ends with that error.
    pub max_consecutive_quarantined: u32,

    /// The optimiser.
    pub opt_type: OptType,
    /// Learning rate, where `lr_schedule` is not given.
    pub lr: f64,
    /// Learning rate over env-steps trained; in a file, `[env_steps, value]` points joined by straight lines.
    pub lr_schedule: Option<Schedule>,
    /// Largest global L2 norm of the gradient; larger ones are scaled down. `None` never clips. IMPALA's loss is a sum over the
    /// batch, so its norm grows with the batch and with the square of returns: where `grad_gnorm` in the results is far above this,
    /// the batches that went badly count no more than the others, and a solved policy drifts.
    pub grad_clip: Option<f64>,
    /// Smoothing of RMSProp's squared gradients.
    pub decay: f64,
    /// Momentum of RMSProp.
    pub momentum: f64,
    /// The small number inside RMSProp's square root. Adam uses its usual 1e-8.
    pub epsilon: f64,

    /// The algorithm, with its own settings: discount, weights of the loss and what else it has. (In RLlib: the class of
    /// the config.) Not used by a run with an algorithm of your own.
    pub algorithm: AlgorithmConfig,
    /// Agent-steps of one minibatch: whole columns of a train batch, in an order drawn anew for every pass, and an update
    /// for each. `None` makes one update of the whole train batch.
    pub sgd_minibatch_size: Option<NonZeroUsize>,

    /// The network.
    pub model: ModelConfig,
    /// Where the learner computes: `cpu`, `cuda:0` or `metal`, one or several. Of several, each takes as many columns of every
    /// (mini)batch, and their gradients make one update; the same device may stand there more than once. Workers act on the
    /// CPU. Other devices than the CPU need the cargo feature of their name. (RLlib: `num_gpus`.)
    pub devices: Vec<DeviceSpec>,
    /// Stacks that threads load train batches into while the learner is busy with others, with the observations where it
    /// computes. 0 does without: the learner takes its batches itself. The first batch then gets one pass, and each later one a
    /// pass more until they are `num_sgd_iter`, as in RLlib. With minibatches or `model.burn_in`, observations are put on
    /// devices as they are used. (RLlib: 1.)
    pub num_multi_gpu_tower_stacks: usize,
    /// Threads that load stacks. With more than one, train batches may overtake each other. (RLlib: 16.)
    pub num_data_load_threads: usize,
    /// Threads that share an update on the CPU, the learner's own included; `None` is one per core, and one alone where
    /// there are no rollout workers. Several CPU devices share them. The result is the same, bit for bit, whatever the number. Each takes some hundred
    /// rows at a time, 64 of images, so small batches keep few of them busy. (RLlib leaves this to the tensor library.)
    pub num_learner_threads: Option<NonZeroUsize>,

    /// Shortest time of one iteration: one result of the trainer covers at least this much.
    pub min_time_s_per_iteration: f64,
    /// Fewest env-steps sampled in one iteration.
    pub min_sample_timesteps_per_iteration: u64,
    /// Episodes that episode statistics cover at least, topped up from earlier iterations.
    pub metrics_num_episodes_for_smoothing: usize,
}

/// What observations go through before the network sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservationFilter {
    /// Nothing.
    #[default]
    NoFilter,
    /// Each of their numbers is brought to mean 0 and standard deviation 1 over all that was observed so far, and clipped to
    /// ±10. The scale changes between fragments only.
    MeanStdFilter,
}

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
    /// Whether an LSTM stands between the hidden layers and the heads, so that a policy can remember. Its memory goes on
    /// from fragment to fragment and is emptied where episodes begin.
    pub use_lstm: bool,
    /// Width of the LSTM.
    pub lstm_cell_size: usize,
    /// With which memory the learner begins a fragment.
    pub initial_state: InitialState,
    /// First steps of every fragment that are not learned from: the LSTM only runs through them, so that the memory for the
    /// others is one of the weights that learn.
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
    /// The three convolutions of Mnih et al. (2015) and a dense layer of 512; images of 36 × 36 pixels at least.
    NatureCnn,
    /// The residual network of Espeholt et al. (2018) and a dense layer of 256.
    ImpalaCnn,
    /// Nothing: pixels go into the hidden layers one by one.
    Flat,
}

/// Who computes what the policy thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InferencePlacement {
    /// Every worker for its own environments. Weights change between fragments.
    PerWorker,
    /// One thread, `inference`, for all workers: whoever asks while it computes is in the next batch. For networks that are dear and
    /// workers with few environments each. Weights change between batches, and each step says which decided it.
    Shared,
}

/// The optimisers to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptType {
    /// Adam with betas 0.9 and 0.999 and epsilon 1e-8.
    Adam,
    /// RMSProp in the form of the IMPALA paper's code: epsilon inside the square root.
    RmsProp,
}

impl Default for TrainerConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            num_rollout_workers: 2,
            num_envs_per_worker: 1,
            num_env_groups: 1,
            inference: InferencePlacement::PerWorker,
            gather: Gather::All,
            rollout_fragment_length: 50,
            observation_filter: ObservationFilter::NoFilter,
            normalize_rewards: false,
            num_consecutive_worker_failures_tolerance: 10,
            max_num_worker_restarts: 1000,
            worker_restart_window: Duration::from_secs(60),
            worker_restart_backoff: Duration::from_millis(10),
            worker_restart_backoff_max: Duration::from_secs(1),
            env_hang_timeout: Some(Duration::from_secs(120)),
            train_batch_size: 500,
            replay_proportion: 0.0,
            replay_buffer_num_slots: 0,
            num_sgd_iter: 1,
            minibatch_buffer_size: 1,
            learner_queue_size: None,
            inqueue_gate: Gate::Bounded,
            learner_queue_timeout: Duration::from_secs(300),
            on_starved: OnStarved::Continue,
            broadcast_interval: 1,
            max_lag: None,
            max_consecutive_quarantined: 10,
            opt_type: OptType::Adam,
            lr: 0.0005,
            lr_schedule: None,
            grad_clip: Some(40.0),
            decay: 0.99,
            momentum: 0.0,
            epsilon: 0.1,
            algorithm: AlgorithmConfig::default(),
            sgd_minibatch_size: None,
            model: ModelConfig::default(),
            devices: vec![DeviceSpec::Cpu],
            num_multi_gpu_tower_stacks: 0,
            num_data_load_threads: 1,
            num_learner_threads: None,
            min_time_s_per_iteration: 10.0,
            min_sample_timesteps_per_iteration: 0,
            metrics_num_episodes_for_smoothing: 100,
        }
    }
}

/// A setting, or a relation of settings, that cannot work. The message names it and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config: {field} = {value} cannot work: {reason}")]
pub struct ConfigError {
    /// The field's name.
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
            observations: self.observation_filter == ObservationFilter::MeanStdFilter,
            return_gamma: self.normalize_rewards.then(|| self.algorithm.gamma()),
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
