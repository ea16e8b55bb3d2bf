//! Validation of settings.

use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_buffer::Gate;
use pronk_learner::Schedule;
use pronk_rollout::{EnvFactory, Gather, RestartPolicy, WorkerReport};

use super::{ConfigError, InferencePlacement, ObservationFilter, TrainerConfig};

/// Fragments.
pub(super) const LONGEST_QUEUE: usize = 1 << 20;
/// A century.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 86_400);

impl TrainerConfig {
    /// Checks every field and every relation between fields.
    ///
    /// # Errors
    /// The first invalid setting, with the reason.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_sizes()?;
        self.check_gate()?;
        self.check_admission()?;
        self.check_devices()?;
        self.check_precision()?;
        self.check_waits()?;
        self.check_checkpoint()?;
        self.evaluation.check()?;
        self.check_optimiser()?;
        self.check_algorithm()?;
        self.check_model()
    }

    fn check_checkpoint(&self) -> Result<(), ConfigError> {
        if self.checkpoint.keep == 0 {
            let reason = "without a checkpoint there is nothing to resume from; keep at least 1";
            return Err(refuse("checkpoint.keep", 0, reason));
        }
        if self.checkpoint.keep_every == Some(0) {
            let reason = "every checkpoint would be kept for good; name a number of env-steps, or leave it out";
            return Err(refuse("checkpoint.keep_every", 0, reason));
        }
        Ok(())
    }

    /// The restart policy of workers.
    pub(crate) fn restart_policy(&self) -> RestartPolicy {
        let Self { supervision, .. } = self;
        RestartPolicy {
            num_consecutive_worker_failures_tolerance: supervision.num_consecutive_worker_failures_tolerance,
            max_num_worker_restarts: supervision.max_num_worker_restarts,
            restart_window: supervision.worker_restart_window,
            first_backoff: supervision.worker_restart_backoff,
            max_backoff: supervision.worker_restart_backoff_max,
        }
    }

    /// Refuses settings that need single-agent environments.
    pub(crate) fn check_for_agents(&self) -> Result<(), ConfigError> {
        let Self { workers, .. } = self;
        let reason = "agents may have different spaces and are not normalised; transform observations or rewards in the \
                      environment, and leave this at its default";
        if workers.observation_filter != ObservationFilter::NoFilter {
            return Err(refuse("observation_filter", workers.observation_filter, reason));
        }
        if workers.normalize_rewards {
            return Err(refuse("normalize_rewards", true, reason));
        }
        if workers.num_env_groups > 1 {
            let reason =
                "multi-agent environments step on their worker's thread; leave it at 1, or raise num_rollout_workers";
            return Err(refuse("num_env_groups", workers.num_env_groups, reason));
        }
        if workers.inference == InferencePlacement::Shared {
            let reason = "the shared inference thread serves one policy; leave it at per_worker for several agents";
            return Err(refuse("inference", "shared", reason));
        }
        Ok(())
    }

    /// Columns of one update of a single-agent run: a minibatch has whole columns.
    pub(crate) fn columns_of_an_update(&self) -> usize {
        let columns = self.columns_of_a_batch();
        let in_minibatch = |size: NonZeroUsize| (size.get() / self.workers.rollout_fragment_length).max(1);
        self.learner.sgd_minibatch_size.map_or(columns, |size| in_minibatch(size).min(columns))
    }

    /// Makes the minibatch whole columns, as many for each device, of about as many steps as before.
    pub(super) fn fit_minibatch(&mut self) {
        let (steps, devices) = (self.workers.rollout_fragment_length.max(1), self.learner.devices.len().max(1));
        let fit = |size: NonZeroUsize| {
            let columns = (size.get() / steps).max(1).next_multiple_of(devices);
            NonZeroUsize::new(columns.saturating_mul(steps))
        };
        self.learner.sgd_minibatch_size = self.learner.sgd_minibatch_size.and_then(fit);
    }

    /// Columns of one train batch of a single-agent run.
    pub(crate) fn columns_of_a_batch(&self) -> usize {
        self.workers.num_envs_per_worker * self.fragments_of_a_batch()
    }

    /// Fragments that make a train batch.
    pub(crate) fn fragments_of_a_batch(&self) -> usize {
        self.learner.train_batch_size.div_ceil(self.workers.rollout_fragment_length * self.workers.num_envs_per_worker)
    }

    /// Fragments that may wait for the learner.
    pub(crate) fn inqueue_size(&self) -> usize {
        let held_by_workers = match self.learner.inqueue_gate {
            Gate::Bounded => self.workers.num_rollout_workers,
            // The learner empties the queue alone.
            Gate::FillThenDrain => 0,
        };
        let rest_of_a_batch = self.fragments_of_a_batch().saturating_sub(held_by_workers).clamp(1, LONGEST_QUEUE);
        self.learner.learner_queue_size.unwrap_or(rest_of_a_batch)
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        let Self { workers, learner, model, .. } = self;
        let sizes = [
            ("num_envs_per_worker", workers.num_envs_per_worker, "a worker needs an environment to step"),
            ("num_env_groups", workers.num_env_groups, "a worker has at least one group of environments"),
            ("rollout_fragment_length", workers.rollout_fragment_length, "a fragment needs at least one step"),
            ("train_batch_size", learner.train_batch_size, "a train batch needs at least one env-step"),
            ("num_sgd_iter", learner.num_sgd_iter, "every batch needs a pass; set at least 1"),
            ("minibatch_buffer_size", learner.minibatch_buffer_size, "the minibatch buffer needs at least one slot"),
            (
                "learner_queue_size",
                learner.learner_queue_size.unwrap_or(1),
                "queues are bounded; set at least 1 (RLlib's 0 means unbounded)",
            ),
            (
                "metrics_num_episodes_for_smoothing",
                self.results.metrics_num_episodes_for_smoothing,
                "episode statistics need at least one episode",
            ),
        ];
        for (field, value, reason) in sizes {
            if value == 0 {
                return Err(refuse(field, value, reason));
            }
        }
        self.check_groups()?;
        let Some(fragment) = workers.rollout_fragment_length.checked_mul(workers.num_envs_per_worker) else {
            return Err(refuse(
                "rollout_fragment_length",
                workers.rollout_fragment_length,
                "times num_envs_per_worker it overflows; set it lower",
            ));
        };
        if fragment > u32::MAX as usize {
            return Err(refuse(
                "rollout_fragment_length",
                workers.rollout_fragment_length,
                "times num_envs_per_worker it exceeds 2^32 steps in a fragment; set it lower",
            ));
        }
        let limits = [
            (
                "train_batch_size",
                learner.train_batch_size,
                1 << 30,
                "no machine holds such a train batch; set at most 2^30",
            ),
            ("minibatch_buffer_size", learner.minibatch_buffer_size, 1 << 16, "each slot holds a whole train batch"),
            (
                "learner_queue_size",
                learner.learner_queue_size.unwrap_or(1),
                LONGEST_QUEUE,
                "such a queue only makes data stale; set at most 2^20",
            ),
            ("replay_buffer_num_slots", learner.replay_buffer_num_slots, 1 << 24, "each slot holds a whole fragment"),
            (
                "num_multi_gpu_tower_stacks",
                learner.num_multi_gpu_tower_stacks,
                1 << 10,
                "each stack holds a whole train batch",
            ),
            ("num_sgd_iter", learner.num_sgd_iter, 1 << 20, "no batch is worth so many passes; set at most 2^20"),
            (
                "num_rollout_workers",
                workers.num_rollout_workers,
                4096,
                "each is a thread; raise num_envs_per_worker instead",
            ),
            (
                "num_learner_threads",
                learner.num_learner_threads.map_or(1, NonZeroUsize::get),
                1 << 10,
                "each is a thread, and no update has rows for so many; set at most 1024",
            ),
            (
                "metrics_num_episodes_for_smoothing",
                self.results.metrics_num_episodes_for_smoothing,
                WorkerReport::MAX_EPISODES,
                "reports of workers list 1024 episodes, so statistics cannot cover more; set at most 1024",
            ),
        ];
        for (field, value, limit, reason) in limits {
            if value > limit {
                return Err(refuse(field, value, reason));
            }
        }
        if model.burn_in >= workers.rollout_fragment_length {
            return Err(refuse(
                "model.burn_in",
                model.burn_in,
                "no step of a fragment would be trained on; set it below rollout_fragment_length",
            ));
        }
        let fewest = model.burn_in + self.algorithm.fewest_steps();
        if workers.rollout_fragment_length < fewest {
            let reason = format!(
                "no step is left after vtrace_drop_last_ts drops the last and model.burn_in the first ones; set at least {fewest}"
            );
            return Err(refuse("rollout_fragment_length", workers.rollout_fragment_length, &reason));
        }
        if !(learner.replay_proportion.is_finite() && learner.replay_proportion >= 0.0) {
            return Err(refuse(
                "replay_proportion",
                learner.replay_proportion,
                "it is a number of fragments; set a finite number of at least 0",
            ));
        }
        if learner.replay_proportion > 0.0 && learner.replay_buffer_num_slots == 0 {
            return Err(refuse(
                "replay_buffer_num_slots",
                0,
                "replay_proportion is above 0 but no fragments are kept; set both or neither",
            ));
        }
        if let Some(size) = learner.sgd_minibatch_size
            && size.get() < workers.rollout_fragment_length
        {
            return Err(refuse(
                "sgd_minibatch_size",
                size,
                "a minibatch has whole columns; set at least rollout_fragment_length",
            ));
        }
        Ok(())
    }

    fn check_gate(&self) -> Result<(), ConfigError> {
        if self.learner.inqueue_gate == Gate::Bounded {
            return Ok(());
        }
        if self.workers.num_rollout_workers == 0 {
            return Err(refuse(
                "inqueue_gate",
                self.learner.inqueue_gate,
                "num_rollout_workers = 0 runs without threads and without an inqueue; change one of them",
            ));
        }
        let fragments = self.fragments_of_a_batch();
        if self.inqueue_size() < fragments {
            let reason = format!(
                "workers wait while the learner drains the queue, which then holds less than the {fragments} fragments of a \
                 train batch; set at least {fragments}, or inqueue_gate to bounded"
            );
            return Err(refuse("learner_queue_size", self.inqueue_size(), &reason));
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<(), ConfigError> {
        let Self { learner, .. } = self;
        let stacks = learner.num_multi_gpu_tower_stacks;
        if learner.devices.is_empty() {
            return Err(refuse("devices", &learner.devices, "the learner needs a device; `cpu` is always available"));
        }
        if stacks == 0 {
            return Ok(());
        }
        if self.workers.num_rollout_workers == 0 {
            return Err(refuse(
                "num_multi_gpu_tower_stacks",
                stacks,
                "stacks are loaded by threads, and num_rollout_workers = 0 runs without threads; change one of them",
            ));
        }
        if learner.minibatch_buffer_size > stacks {
            return Err(refuse(
                "num_multi_gpu_tower_stacks",
                stacks,
                "minibatch_buffer_size is larger: the buffer would hold all stacks and wait for another one; set at least as \
                 many stacks, and more for loading ahead",
            ));
        }
        match learner.num_data_load_threads {
            0 => Err(refuse("num_data_load_threads", 0, "nothing would load the stacks; set at least 1")),
            threads if threads > stacks => Err(refuse(
                "num_data_load_threads",
                threads,
                "each thread needs a stack, so more threads than num_multi_gpu_tower_stacks would idle",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that every update splits evenly among the devices; only single-agent runs know the number of
    /// columns.
    ///
    /// # Errors
    /// The batch or minibatch that does not split evenly.
    pub(crate) fn check_columns(&self) -> Result<(), ConfigError> {
        let Self { learner, .. } = self;
        let (devices, steps) = (learner.devices.len(), self.workers.rollout_fragment_length);
        let (batch, update) = (self.columns_of_a_batch(), self.columns_of_an_update());
        let reason = |columns: usize, multiple: usize| {
            format!(
                "an update has {columns} columns of rollout_fragment_length steps, which {devices} devices cannot split evenly; \
                 set a multiple of {multiple}, or another number of devices"
            )
        };
        match learner.sgd_minibatch_size {
            Some(size) if !update.is_multiple_of(devices) => {
                Err(refuse("sgd_minibatch_size", size, &reason(update, devices * steps)))
            }
            _ if !(batch % update).is_multiple_of(devices) || !batch.is_multiple_of(devices) => {
                let columns = if batch.is_multiple_of(devices) { batch % update } else { batch };
                let multiple = steps * lcm(devices, self.workers.num_envs_per_worker);
                Err(refuse("train_batch_size", learner.train_batch_size, &reason(columns, multiple)))
            }
            _ => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), ConfigError> {
        let Self { workers, .. } = self;
        if !workers.num_envs_per_worker.is_multiple_of(workers.num_env_groups) {
            let reason = format!(
                "num_envs_per_worker = {} environments do not split into equal groups; set a divisor of it",
                workers.num_envs_per_worker
            );
            return Err(refuse("num_env_groups", workers.num_env_groups, &reason));
        }
        if workers.inference == InferencePlacement::Shared && workers.num_rollout_workers == 0 {
            let reason = "num_rollout_workers = 0 runs without threads; set it to per_worker";
            return Err(refuse("inference", "shared", reason));
        }
        // With tasks, each environment is a group; without, `check_env` checks again.
        self.check_gather(workers.num_envs_per_worker)
    }

    /// Refuses to wait for more groups than a worker has, and groups of tasks.
    pub(crate) fn check_env(&self, env: &dyn EnvFactory) -> Result<(), ConfigError> {
        let Self { workers, .. } = self;
        if env.tasks().is_none() {
            return self.check_gather(workers.num_env_groups);
        }
        if workers.num_env_groups > 1 {
            let reason =
                "asynchronous environments are a group each; leave it at 1, and set gather to the number to wait for";
            return Err(refuse("num_env_groups", workers.num_env_groups, reason));
        }
        self.check_turns(true)
    }

    fn check_gather(&self, n_groups: usize) -> Result<(), ConfigError> {
        match self.workers.gather {
            Gather::AtLeast(n) if n.get() > n_groups => Err(refuse(
                "gather.at_least",
                n,
                "there are fewer groups; set it to num_env_groups at most, or gather to all",
            )),
            _ => Ok(()),
        }
    }

    fn check_waits(&self) -> Result<(), ConfigError> {
        let Self { learner, supervision, results, .. } = self;
        if learner.learner_queue_timeout.is_zero() {
            return Err(refuse(
                "learner_queue_timeout",
                learner.learner_queue_timeout,
                "the learner would be starved at once; set it above 0",
            ));
        }
        let waits = [
            ("learner_queue_timeout", learner.learner_queue_timeout),
            ("worker_restart_backoff_max", supervision.worker_restart_backoff_max),
            ("worker_restart_window", supervision.worker_restart_window),
            ("env_hang_timeout", supervision.env_hang_timeout.unwrap_or_default()),
        ];
        for (field, wait) in waits {
            if wait > LONGEST_WAIT {
                return Err(refuse(field, wait, "it is longer than a century; set a shorter time"));
            }
        }
        if supervision.worker_restart_backoff > supervision.worker_restart_backoff_max {
            return Err(refuse(
                "worker_restart_backoff",
                supervision.worker_restart_backoff,
                "it is longer than worker_restart_backoff_max; set it to at most that",
            ));
        }
        if supervision.env_hang_timeout.is_some_and(|timeout| timeout.is_zero()) {
            let reason =
                "every step would count as hanging; set it far above the slowest step and reset, or to \"never\"";
            return Err(refuse("env_hang_timeout", 0, reason));
        }
        if learner.broadcast_interval == 0 {
            return Err(refuse("broadcast_interval", 0, "the workers would never see new weights; set at least 1"));
        }
        if learner.max_consecutive_quarantined == 0 {
            return Err(refuse(
                "max_consecutive_quarantined",
                0,
                "the run would end before the first batch; set at least 1",
            ));
        }
        if !(results.min_time_s_per_iteration.is_finite() && results.min_time_s_per_iteration >= 0.0) {
            return Err(refuse(
                "min_time_s_per_iteration",
                results.min_time_s_per_iteration,
                "it is a time in seconds; set a finite number of at least 0",
            ));
        }
        Ok(())
    }

    fn check_optimiser(&self) -> Result<(), ConfigError> {
        let Self { learner, .. } = self;
        positive("lr", learner.lr)?;
        never_negative("lr_schedule", learner.lr_schedule.as_ref())?;
        if let Some(clip) = learner.grad_clip {
            positive("grad_clip", clip)?;
        }
        within("decay", learner.decay, 0.0, 1.0)?;
        within("momentum", learner.momentum, 0.0, 1.0)?;
        if learner.decay == 1.0 {
            return Err(refuse(
                "decay",
                learner.decay,
                "the average of squared gradients would never change; set it below 1",
            ));
        }
        if learner.momentum == 1.0 {
            return Err(refuse("momentum", learner.momentum, "steps would grow without bound; set it below 1"));
        }
        positive("epsilon", learner.epsilon)
    }

    fn check_algorithm(&self) -> Result<(), ConfigError> {
        let refused = |error| ConfigError::caused_by("algorithm", self.algorithm.name(), &error);
        self.algorithm.check().map_err(refused)
    }

    fn check_model(&self) -> Result<(), ConfigError> {
        let Self { model, .. } = self;
        if model.fcnet_hiddens.contains(&0) {
            return Err(refuse("model.fcnet_hiddens", &model.fcnet_hiddens, "a layer needs a width above 0"));
        }
        if model.lstm_cell_size == 0 {
            return Err(refuse("model.lstm_cell_size", 0, "an LSTM needs a width above 0"));
        }
        Ok(())
    }
}

/// The least common multiple of two numbers above 0.
fn lcm(a: usize, b: usize) -> usize {
    (1..=b).map(|n| n * a).find(|multiple| multiple.is_multiple_of(b)).unwrap_or(a * b)
}

fn positive(field: &'static str, value: f64) -> Result<(), ConfigError> {
    let in_use = value as f32;
    if in_use.is_finite() && in_use > 0.0 {
        return Ok(());
    }
    Err(refuse(field, value, "as a 32-bit float it must be finite and above 0"))
}

fn within(field: &'static str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(refuse(field, value, &format!("it must be between {low} and {high}")))
}

fn never_negative(field: &'static str, schedule: Option<&Schedule>) -> Result<(), ConfigError> {
    match schedule {
        Some(schedule) if schedule.min_value() < 0.0 => Err(refuse(field, schedule, "its values must be 0 or more")),
        _ => Ok(()),
    }
}

pub(super) fn refuse(field: &'static str, value: impl std::fmt::Debug, reason: &str) -> ConfigError {
    ConfigError { field, value: format!("{value:?}"), reason: reason.to_owned() }
}
