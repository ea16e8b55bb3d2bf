//! How often a run updates its weights, and how old its data is.

use std::num::NonZeroU64;

use pronk_learner::UpdateRhythm;

use super::{Admission, TrainerConfig};

impl TrainerConfig {
    /// The rhythm that algorithms take settings from which are left open, of a run that `listens` for hosts
    /// or does not. How many will come is not known, so their fragments are not counted.
    pub(crate) fn update_rhythm(&self, listens: bool) -> UpdateRhythm {
        let at_least_one = |count: u64| NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN);
        let per_pass = self.columns_of_a_batch().div_ceil(self.columns_of_an_update()) as u64;
        let per_train_batch = self.learner.num_sgd_iter as u64 * per_pass;
        UpdateRhythm {
            per_train_batch: at_least_one(per_train_batch),
            per_buffer: at_least_one(per_train_batch * self.learner.minibatch_buffer_size as u64),
            lag: self.expected_lag(listens, per_pass, per_train_batch),
        }
    }

    /// Updates that are made while a fragment is sampled and waits.
    fn expected_lag(&self, listens: bool, per_pass: u64, per_train_batch: u64) -> u64 {
        let learner = &self.learner;
        let unpublished = learner.broadcast_interval - 1;
        let train_batches = match learner.admission {
            Admission::Deterministic { lag } => lag,
            Admission::Free if self.workers.num_rollout_workers == 0 && !listens => 0,
            // A full queue, a fragment of each worker, and what is loaded ahead.
            Admission::Free => {
                let fragments = self.inqueue_size() + self.workers.num_rollout_workers;
                fragments.div_ceil(self.fragments_of_a_batch()) + learner.num_multi_gpu_tower_stacks
            }
        };
        let lag = per_train_batch.saturating_mul(train_batches as u64).saturating_add(unpublished);
        // Weights are published after a pass.
        let per_publication = learner.broadcast_interval.max(per_pass);
        learner.max_lag.map_or(lag, |most| lag.min(most.saturating_mul(per_publication)))
    }
}
