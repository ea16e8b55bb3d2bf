//! [`TrainBatches`]: how fragments become train batches.

use pronk_buffer::{Assemble, MaxLag, MixInConfig, MixInReplay, MultiAgentBatch, Pool, Source, VersionReader};
use pronk_policy::Rng;

use super::restored::Held;
use crate::config::{Admission, ConfigError, TrainerConfig};
use crate::record::{Logged, RunLog};

/// The random stream of replay.
const REPLAY_STREAM: u64 = 0x0052_4550_4c41_5953;

/// The learner's source: fragments, with replay, assembled into train batches.
pub(super) type TrainBatchSource = Assemble<MixInReplay<Fragments, Draws>>;

/// Where fragments come from: the inqueue, the lanes of the workers, or a worker without a thread.
pub(super) type Fragments = Box<dyn Source<Item = MultiAgentBatch> + Send>;

/// Uniform numbers in `[0, 1)`.
type Draws = Box<dyn FnMut() -> f64 + Send>;

/// How train batches are made.
pub(super) struct TrainBatches<'a> {
    pub(super) config: &'a TrainerConfig,
    /// Seed of replay.
    pub(super) seed: u64,
    pub(super) version: VersionReader,
    /// Where every fragment is entered, if there is one.
    pub(super) log: Option<&'a RunLog>,
}

impl TrainBatches<'_> {
    /// The train batches made of `source`'s fragments, after those that a checkpoint held.
    pub(super) fn of(self, source: Fragments, held: Held) -> Result<TrainBatchSource, ConfigError> {
        let Self { config, seed, version, log } = self;
        let source = match log {
            Some(log) => Box::new(Logged::new(source, log.clone())),
            None => source,
        };
        // Before replay, whose fragments are old by design.
        let source: Fragments = match config.learner.max_lag {
            Some(max_lag) => Box::new(MaxLag::new(source, max_lag, version)),
            None => source,
        };
        let replay = MixInConfig {
            replay_buffer_num_slots: config.learner.replay_buffer_num_slots,
            replay_proportion: config.learner.replay_proportion,
        };
        let mut draws = Rng::stream(seed, &[REPLAY_STREAM]);
        // Stored fragments, and their copies in train batches.
        let pool = Pool::new(2 * config.learner.replay_buffer_num_slots);
        let source = MixInReplay::new(source, replay, pool, Box::new(move || draws.next_f64()) as Draws)
            .map_err(|error| ConfigError::caused_by("replay_proportion", config.learner.replay_proportion, &error))?;
        let source = match held.replay {
            Some(saved) if config.learner.replay_proportion > 0.0 => source.resumed(saved),
            _ => source,
        };
        // Train batches in the buffer and in stacks, and one being assembled.
        let n_held = config.learner.minibatch_buffer_size + config.learner.num_multi_gpu_tower_stacks;
        let pool = Pool::new(n_held + 1);
        let assemble = match config.learner.admission {
            Admission::Free => Assemble::new(source, config.learner.train_batch_size as u64, pool),
            Admission::Deterministic { .. } => Assemble::counting(source, config.fragments_of_a_batch() as u64, pool),
        };
        Ok(assemble.after_batches(held.batches).after(held.partial))
    }
}
