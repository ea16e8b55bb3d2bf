//! [`LearnerConfig`]: how experience becomes weights.

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::Gate;
use pronk_learner::{OnStarved, Schedule};
use pronk_policy::DeviceSpec;
use serde::{Deserialize, Serialize};

use super::{gate, seconds};

/// How experience becomes weights: batches, replay, passes, the queue before the learner, the optimiser,
/// devices and threads. Names and defaults are RLlib's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerConfig {
    /// Env-steps that make a train batch. Fragments are never split: the surplus of the last one stays in the
    /// batch.
    pub train_batch_size: usize,
    /// Fragments used again for each new one, in expectation, drawn from the newest
    /// `replay_buffer_num_slots`. (RLlib 2 turns the figure upside down.)
    pub replay_proportion: f64,
    /// Fragments kept to be used again.
    pub replay_buffer_num_slots: usize,
    /// Passes over each train batch.
    pub num_sgd_iter: usize,
    /// Agent-steps of one minibatch: whole columns of a train batch, in an order drawn anew for every pass,
    /// and an update for each. `None` makes one update of the whole train batch.
    pub sgd_minibatch_size: Option<NonZeroUsize>,
    /// Train batches that the minibatch buffer cycles through.
    pub minibatch_buffer_size: usize,
    /// Fragments that may wait for the learner before the workers block; the longer the queue, the older the
    /// data. With `None` the queue and the fragment that each blocked worker holds make up a train batch, so
    /// that the next one is ready when an update ends; under `fill_then_drain` the queue holds the whole
    /// batch. Replayed fragments are not counted. (In RLlib: 16 train batches; 0 meant unbounded there and is
    /// refused here.)
    pub learner_queue_size: Option<usize>,
    /// When workers may push into that queue and the learner may take from it: `bounded` as long as there is
    /// room and something waits, or `fill_then_drain` by turns. Then workers fill the queue and stand still
    /// until the learner has emptied it; it has to hold at least one train batch. (RLlib has no gate.)
    #[serde(with = "gate::Spelling")]
    pub inqueue_gate: Gate,
    /// How long the learner waits for a train batch before it says that it is starved.
    #[serde(with = "seconds")]
    pub learner_queue_timeout: Duration,
    /// What happens when the learner has waited for `learner_queue_timeout`.
    pub on_starved: OnStarved,
    /// Updates of the weights between two publications; they are published between two passes, each of which
    /// is an update or one for each minibatch. (In RLlib: training-step calls of the driver.)
    pub broadcast_interval: u64,
    /// Fragments whose weights are more publications old than this are dropped and counted. `None` keeps all.
    /// With several agents, those of the newest step count.
    pub max_lag: Option<u64>,
    /// Train batches in a row that may be quarantined for non-finite values before the run ends with that
    /// error.
    pub max_consecutive_quarantined: u32,
    /// The optimiser.
    pub opt_type: OptType,
    /// Learning rate. Means nothing where `lr_schedule` is given.
    pub lr: f64,
    /// Learning rate over env-steps trained; in a file, `[env_steps, value]` points joined by straight lines.
    pub lr_schedule: Option<Schedule>,
    /// Largest global L2 norm of the gradient; larger ones are scaled down. `None` never clips. IMPALA's loss
    /// is a sum over the batch, so its norm grows with the batch and with the square of returns: where
    /// `grad_gnorm` in the results is far above this, the batches that went badly count no more than the
    /// others, and a solved policy drifts.
    pub grad_clip: Option<f64>,
    /// Smoothing of RMSProp's squared gradients. Means nothing under Adam.
    pub decay: f64,
    /// Momentum of RMSProp. Means nothing under Adam.
    pub momentum: f64,
    /// The small number inside RMSProp's square root. Means nothing under Adam, which uses its usual 1e-8.
    pub epsilon: f64,
    /// Where the learner computes: `cpu`, `cuda:0` or `metal`, one or several. Of several, each takes as many
    /// columns of every (mini)batch, and their gradients make one update; the same device may stand there
    /// more than once. Workers act on the CPU. Other devices than the CPU need the cargo feature of their
    /// name. (RLlib: `num_gpus`.)
    pub devices: Vec<DeviceSpec>,
    /// Stacks that threads load train batches into while the learner is busy with others, with the
    /// observations where it computes. 0 does without: the learner takes its batches itself. The first batch
    /// then gets one pass, and each later one a pass more until they are `num_sgd_iter`, as in RLlib. With
    /// minibatches or `model.burn_in`, observations are put on devices as they are used. (RLlib: 1.)
    pub num_multi_gpu_tower_stacks: usize,
    /// Threads that load stacks. With more than one, train batches may overtake each other. (RLlib: 16.)
    pub num_data_load_threads: usize,
    /// Threads that share an update on the CPU, the learner's own included; `None` is one per core, and one
    /// alone where there are no rollout workers. Several CPU devices share them. The result is the same, bit
    /// for bit, whatever the number. Each takes some hundred rows at a time, 64 of images, so small batches
    /// keep few of them busy. (RLlib leaves this to the tensor library.)
    pub num_learner_threads: Option<NonZeroUsize>,
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
        }
    }
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
