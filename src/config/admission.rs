//! [`Admission`]: which fragments a train batch has, and with which weights they are sampled.

use pronk_buffer::Gate;
use pronk_policy::DeviceSpec;
use pronk_rollout::Gather;
use serde::{Deserialize, Serialize};

use super::check::{LONGEST_QUEUE, refuse};
use super::{ConfigError, InferencePlacement, TrainerConfig};

/// Which fragments a train batch has, and with which weights they are sampled.
///
/// In a file: `"free"`, or `{ "deterministic": { "lag": 2 } }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Admission {
    /// Those that come first, sampled with the newest weights: fastest, and different in every run.
    #[default]
    Free,
    /// Workers take turns, and a turn comes with the weights to use: two runs of one seed and config have the
    /// same weights after every update, and the same results, times aside, on an idle machine or a busy one.
    /// See "The same run twice" in `docs/determinism.md`.
    Deterministic {
        /// How many train batches the workers sample ahead of the learner. At 0 they wait while it trains;
        /// with one worker the run is then the same as without threads. Weights are `lag` train batches old.
        lag: usize,
    },
}

impl Admission {
    /// Whether workers take turns.
    pub(crate) fn is_deterministic(self) -> bool {
        self != Self::Free
    }
}

impl TrainerConfig {
    /// Train batches of an iteration under deterministic admission, which cuts results by env-steps.
    pub(crate) fn batches_of_an_iteration(&self) -> u64 {
        let Self { workers, results, .. } = self;
        let fragment = workers.rollout_fragment_length * workers.num_envs_per_worker;
        let batch = (self.fragments_of_a_batch() * fragment) as u64;
        results.min_sample_timesteps_per_iteration.div_ceil(batch.max(1)).max(1)
    }

    /// Refuses what deterministic admission cannot promise.
    pub(super) fn check_admission(&self) -> Result<(), ConfigError> {
        let Self { workers, learner, results, .. } = self;
        let Admission::Deterministic { lag } = learner.admission else { return Ok(()) };
        let depends_on_time = |field, value: &dyn std::fmt::Debug, instead: &str| {
            let reason = format!("under deterministic admission nothing may depend on time: {instead}");
            Err(refuse(field, value, &reason))
        };
        if results.min_sample_timesteps_per_iteration == 0 {
            let instead = "results are cut by env-steps instead of by min_time_s_per_iteration, so set how many";
            return depends_on_time("min_sample_timesteps_per_iteration", &0, instead);
        }
        if workers.num_rollout_workers == 0 && lag > 0 {
            let reason = "num_rollout_workers = 0 samples when the learner asks and never ahead of it; set lag to 0";
            return Err(refuse("admission", learner.admission, reason));
        }
        if lag.saturating_add(1).saturating_mul(self.fragments_of_a_batch()) > LONGEST_QUEUE {
            return Err(refuse("admission", learner.admission, "such a lag only makes data stale; set a smaller one"));
        }
        if workers.inference == InferencePlacement::Shared {
            return depends_on_time("inference", &workers.inference, "leave it at per_worker");
        }
        self.check_turns(workers.num_env_groups > 1)?;
        if learner.max_lag.is_some() {
            return depends_on_time("max_lag", &learner.max_lag, "the lag is a constant; leave it at null");
        }
        if learner.learner_queue_size.is_some() {
            let reason =
                "deterministic admission has lanes of the lag's length instead of an inqueue; leave it at null";
            return Err(refuse("learner_queue_size", learner.learner_queue_size, reason));
        }
        if learner.inqueue_gate != Gate::Bounded {
            let reason = "deterministic admission has turns instead of a gate; leave it at bounded";
            return Err(refuse("inqueue_gate", learner.inqueue_gate, reason));
        }
        if learner.num_multi_gpu_tower_stacks > 0 && learner.num_data_load_threads > 1 {
            let instead = "several loaders may change the order of train batches; set 1";
            return depends_on_time("num_data_load_threads", &learner.num_data_load_threads, instead);
        }
        if learner.devices.iter().any(|device| *device != DeviceSpec::Cpu) {
            let reason = "the sums of a GPU have no fixed order, so deterministic admission needs the CPU; set cpu";
            return Err(refuse("devices", &learner.devices, reason));
        }
        Ok(())
    }

    /// Whether nothing of a run depends on time, and all of it rests between two results: then a saved run
    /// goes on exactly.
    pub(crate) fn goes_on_exactly(&self) -> bool {
        let has_no_threads = self.workers.num_rollout_workers == 0 && self.has_turns(self.workers.num_env_groups > 1);
        self.learner.admission.is_deterministic() || has_no_threads
    }

    /// Whether groups of environments, if there are several, act in an order that does not depend on time.
    fn has_turns(&self, has_groups: bool) -> bool {
        !has_groups || matches!(self.workers.gather, Gather::All | Gather::InTurn)
    }

    /// Refuses to act for the groups that answer first, if there are several.
    pub(super) fn check_turns(&self, has_groups: bool) -> Result<(), ConfigError> {
        let gather = self.workers.gather;
        if self.learner.admission == Admission::Free || self.has_turns(has_groups) {
            return Ok(());
        }
        let reason = "under deterministic admission the fastest groups must not decide; set it to all or in_turn";
        Err(refuse("gather", gather, reason))
    }
}
