//! Options of the learner loop.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What to do if no train batch comes within `learner_queue_timeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStarved {
    /// Report a diagnosis and keep waiting.
    #[default]
    Continue,
    /// End the run; the diagnosis is its error.
    Fail,
}

/// Options of a [`LearnerLoop`](crate::LearnerLoop). Names and defaults are RLlib 2.2's, where it has them.
#[derive(Clone, Debug)]
pub struct LearnerLoopConfig {
    /// Passes over each train batch (1).
    pub num_sgd_iter: NonZeroU32,
    /// Passes over the first train batch; each later one gets a pass more, up to `num_sgd_iter` (`None`: no
    /// warm-up). RLlib starts with 1 if batches come from stacks.
    pub init_num_sgd_iter: Option<NonZeroU32>,
    /// Train batches in the minibatch buffer (1).
    pub minibatch_buffer_size: NonZeroUsize,
    /// How long one step waits for a train batch (300 s). Zero is for callers of `step` only: `run` would
    /// spin.
    pub learner_queue_timeout: Duration,
    /// What to do after that ([`OnStarved::Continue`]).
    pub on_starved: OnStarved,
    /// Updates between two publications of the weights, which happen between passes (1).
    pub broadcast_interval: NonZeroU64,
    /// Consecutive quarantined batches that end the run (10).
    pub max_consecutive_quarantined: NonZeroU32,
    /// Reports in the outqueue before further ones fold into the newest (256).
    pub outqueue_capacity: NonZeroUsize,
    /// Whether the end of the loop's thread comes with a [cut](crate::LearnerLoop::cut), for a checkpoint
    /// (false).
    pub cut_at_end: bool,
}

impl Default for LearnerLoopConfig {
    fn default() -> Self {
        Self {
            num_sgd_iter: NonZeroU32::MIN,
            init_num_sgd_iter: None,
            minibatch_buffer_size: NonZeroUsize::MIN,
            learner_queue_timeout: Duration::from_secs(300),
            on_starved: OnStarved::default(),
            broadcast_interval: NonZeroU64::MIN,
            max_consecutive_quarantined: NonZeroU32::MIN.saturating_add(9),
            outqueue_capacity: NonZeroUsize::MIN.saturating_add(255),
            cut_at_end: false,
        }
    }
}
