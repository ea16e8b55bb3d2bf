//! [`Remains`]: what remains of a run after its threads.

use std::time::Duration;

use pronk_learner::LearnerState;
use pronk_metrics::ByPolicy;

use super::run::Whole;
use crate::checkpoint::Checkpoint;

/// What remains of a run after its threads have ended.
#[derive(Default)]
pub(super) struct Remains {
    pub(super) whole: Whole,
    pub(super) checkpoints: ByPolicy<Checkpoint>,
    pub(super) not_joined: Vec<String>,
    /// From building the trainer to the end of training.
    pub(super) time: Duration,
    pub(super) env_steps_per_s: Option<f64>,
}

/// A learner's updates and env-steps trained, over all lives.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) updates: u64,
    pub(super) env_steps: u64,
}

impl Counters {
    pub(super) fn of(state: &LearnerState) -> Self {
        Self { updates: state.updates, env_steps: state.global_step }
    }
}
