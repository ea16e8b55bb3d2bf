//! [`LearnerConfig`]: training.

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::Gate;
use pronk_learner::{AlgorithmConfig, OnStarved, Schedule};
use pronk_policy::{DeviceSpec, Precision};
use serde::{Deserialize, Serialize};

use super::{Admission, gate, seconds};

/// Batches, replay, passes, the inqueue, the optimiser, devices and threads. Names and defaults are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerConfig {
    /// Env-steps of a train batch. Fragments are not split, so a batch may be larger. Under deterministic
    /// admission replayed fragments come on top.
    pub train_batch_size: usize,
    /// Expected replayed fragments per fresh one, drawn from the newest `replay_buffer_num_slots`. (RLlib 2
    /// uses the inverse.)
    pub replay_proportion: f64,
    /// Fragments kept for replay.
    pub replay_buffer_num_slots: usize,
    /// Passes over each train batch.
    pub num_sgd_iter: usize,
    /// Agent-steps of a minibatch: whole columns of a train batch, shuffled in every pass, with an update
    /// each. `None` makes one update of the whole train batch.
    pub sgd_minibatch_size: Option<NonZeroUsize>,
    /// Train batches that the minibatch buffer cycles through.
    pub minibatch_buffer_size: usize,
    /// Capacity of the inqueue in fragments; the longer it is, the staler the data. With `None` the queue and
    /// the fragments of blocked workers hold one train batch (under `fill_then_drain` the queue alone), so
    /// that the next batch is ready when an update ends. Replayed fragments do not count. (RLlib: 16 train
    /// batches, 0 for unbounded.)
    pub learner_queue_size: Option<usize>,
    /// `bounded` lets workers push while there is room. `fill_then_drain` alternates: workers fill the queue,
    /// then wait until the learner has emptied it; the queue must hold a train batch. (RLlib has no gate.)
    #[serde(with = "gate::Spelling")]
    pub inqueue_gate: Gate,
    /// Which fragments a train batch has, and with which weights they are sampled: `free`, or
    /// `deterministic` for the same run twice. (RLlib: free.)
    pub admission: Admission,
    /// How long the learner waits for a train batch before it reports that it is starved.
    #[serde(with = "seconds")]
    pub learner_queue_timeout: Duration,
    /// What a starved learner does.
    pub on_starved: OnStarved,
    /// Updates between two publications of the weights, which happen between passes. (RLlib: training-step
    /// calls of the driver.)
    pub broadcast_interval: u64,
    /// Drops fragments whose weights are more than this many publications old when the learner takes them
    /// from the queue; `None` keeps all. With several agents, the newest step counts. Replayed fragments are
    /// kept: they are old by design, and `replay_buffer_num_slots` bounds their age. Nothing is dropped
    /// later, for it could only be the whole train batch: while that fills, waits in a stack and is passed
    /// over, its fragments age by the updates meanwhile.
    pub max_lag: Option<u64>,
    /// Consecutive train batches quarantined for non-finite values at which the run fails.
    pub max_consecutive_quarantined: u32,
    /// The optimiser.
    pub opt_type: OptType,
    /// Learning rate; ignored if `lr_schedule` is set.
    pub lr: f64,
    /// Learning rate over env-steps trained; in a file, `[env_steps, value]` points, interpolated linearly.
    pub lr_schedule: Option<Schedule>,
    /// Global L2 norm to clip gradients to; `None` does not clip. IMPALA's loss is a sum over the batch, so
    /// the norm grows with the batch and with returns: if `grad_gnorm` in the results is far above this,
    /// every update has the same size, and a solved policy drifts.
    pub grad_clip: Option<f64>,
    /// Decay of RMSProp's squared gradients; ignored by Adam.
    pub decay: f64,
    /// Momentum of RMSProp; ignored by Adam.
    pub momentum: f64,
    /// RMSProp's epsilon, inside the square root; ignored by Adam, whose epsilon is 1e-8.
    pub epsilon: f64,
    /// Devices of the learner: `cpu`, `cuda:0` or `metal`. Several split the columns of every (mini)batch
    /// evenly into one update; a device may be listed twice. Workers act on the CPU. GPUs need the cargo
    /// feature `cuda` or `metal`. (RLlib: `num_gpus`.)
    pub devices: Vec<DeviceSpec>,
    /// Stacks that threads load train batches into ahead of the learner, with observations on its device; 0
    /// for none. The first batch then gets one pass, and each later one a pass more up to `num_sgd_iter`, as
    /// in RLlib. With `model.burn_in`, or minibatches on several devices, observations are copied when used.
    /// (RLlib: 1.)
    pub num_multi_gpu_tower_stacks: usize,
    /// Threads that load stacks; with several, train batches may change order. (RLlib: 16.)
    pub num_data_load_threads: usize,
    /// Threads of an update on the CPU, the learner's own included, 1024 at most; `None` is one per core; or
    /// one without rollout workers, unless the run listens for hosts. Rollout workers are the first of them,
    /// while they or their fragments wait for the learner; only those that there are no workers for are
    /// started. Several CPU devices share them. The number does not change the result by a bit. Each takes
    /// some hundred rows at a time, 68 of images, so small batches occupy few. (RLlib leaves this to the
    /// tensor library.)
    pub num_learner_threads: Option<NonZeroUsize>,
    /// Precision of the factors that an update multiplies, on the CPU. `bf16` needs a processor with AMX.
    /// Weights, sums, gradients and the optimiser are `f32` in any case.
    pub learning_precision: Precision,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            train_batch_size: 500,
            replay_proportion: 0.0,
            replay_buffer_num_slots: 0,
            num_sgd_iter: 1,
            sgd_minibatch_size: None,
            minibatch_buffer_size: 1,
            learner_queue_size: None,
            inqueue_gate: Gate::Bounded,
            admission: Admission::Free,
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
            devices: vec![DeviceSpec::Cpu],
            num_multi_gpu_tower_stacks: 0,
            num_data_load_threads: 1,
            num_learner_threads: None,
            learning_precision: Precision::F32,
        }
    }
}

impl LearnerConfig {
    /// The defaults for an algorithm. A clipped surrogate is made for several passes over a batch, in
    /// minibatches, and its loss is a mean, whose gradient is short.
    pub(super) fn for_algorithm(algorithm: &AlgorithmConfig) -> Self {
        let num_sgd_iter = match algorithm {
            AlgorithmConfig::Impala(_) => return Self::default(),
            AlgorithmConfig::Appo(_) => 4,
            AlgorithmConfig::Ppo(_) => 10,
        };
        Self {
            train_batch_size: 1000,
            num_sgd_iter,
            sgd_minibatch_size: NonZeroUsize::new(250),
            grad_clip: Some(0.5),
            ..Self::default()
        }
    }
}

/// The optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptType {
    /// Adam with betas 0.9 and 0.999 and epsilon 1e-8.
    Adam,
    /// RMSProp in the form of the IMPALA paper's code: epsilon inside the square root.
    RmsProp,
}
