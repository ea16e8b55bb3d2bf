//! How the rooms are joined: every queue, cell and mailbox of a run is made in [`connect`].

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Instant;

use pronk_buffer::{
    Assemble, Bell, Mailbox, MixInConfig, MixInReplay, MultiAgentBatch, Pool, Source, VersionReader, inqueue, lifeline,
    weight_cell,
};
use pronk_learner::{
    ActorCriticConfig, ActorCriticLearner, ActorCriticParts, Algorithm, Learner, LearnerLoop, LearnerLoopConfig,
    LearnerParts, LearnerReport, LearnerState, LearnerThread, OptimizerConfig, RmsPropConfig, Schedule, UpdateRhythm,
};
use pronk_metrics::{StateClock, StepLedger, Steps, TimeLedger, TimerStat};
use pronk_policy::{Network, PolicyError, Rng, derive_seed, distribution_with};
use pronk_rollout::{
    EnvFactory, EnvSpec, InlineSource, RestartPolicy, StartError, WorkerConfig, WorkerEdges, WorkerLinks, WorkerSet,
    WorkerSetConfig, probe_spec,
};

use super::engine::Engine;
use super::episodes::EpisodeHistory;
use super::iteration::Iteration;
use super::networks::{MakeNetwork, Networks};
use super::reporters::Reporters;
use super::{Trainer, TrainerState};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::config::{ConfigError, OptType, TrainerConfig};
use crate::error::TrainError;

/// Reports of the learner that wait for the trainer before they are folded together.
const OUTQUEUE_CAPACITY: usize = 1024;

/// Names the stream of random numbers that the network's first weights are drawn from.
const INIT_STREAM: u64 = 0x0057_4549_4748_5453;

/// Names the stream that decides what is replayed.
const REPLAY_STREAM: u64 = 0x0052_4550_4c41_5953;

/// Names the stream that the order of minibatches is drawn from.
const MINIBATCH_STREAM: u64 = 0x4d49_4e49_4241_5443;

/// What is trained: environment, network and algorithm as they belong together.
pub(super) struct Model {
    pub(super) env: EnvSpec,
    networks: Networks,
    algorithm: &'static str,
}

impl Model {
    /// Looks at an environment, and at a network for it: one that `own` makes, or else the one of the config.
    pub(super) fn for_env(
        config: &TrainerConfig,
        env: &dyn EnvFactory,
        own: Option<Box<MakeNetwork>>,
        algorithm: &'static str,
    ) -> Result<Self, TrainError> {
        let env = probe_spec(env, config.seed)?;
        let networks = match own {
            Some(make) => Networks::own(make, &env)?,
            None => Networks::described(config, &env)?,
        };
        Ok(Self { env, networks, algorithm })
    }

    /// The learner that the config describes.
    pub(super) fn learner(
        &self,
        config: &TrainerConfig,
        algorithm: Box<dyn Algorithm>,
    ) -> Result<Box<dyn Learner>, TrainError> {
        let params = config.model.init.params(self.networks.layout()?, derive_seed(config.seed, &[INIT_STREAM]));
        let optimizer = match config.opt_type {
            OptType::Adam => OptimizerConfig::default(),
            OptType::RmsProp => OptimizerConfig::RmsProp(RmsPropConfig {
                decay: config.decay,
                momentum: config.momentum,
                eps: config.epsilon,
                ..RmsPropConfig::default()
            }),
        };
        let parts = ActorCriticParts {
            network: self.networks.learning(config, &self.env)?,
            distribution: distribution_with(&self.env.action, config.model.gaussian)?,
            optimizer: optimizer.build(params.values().len())?,
            params,
            algorithm,
        };
        let options = ActorCriticConfig {
            lr: config.lr_schedule.clone().unwrap_or(Schedule::Constant(config.lr)),
            grad_clip: config.grad_clip,
            sgd_minibatch_size: config.sgd_minibatch_size,
            seed: derive_seed(config.seed, &[MINIBATCH_STREAM]),
            ..ActorCriticConfig::default()
        };
        Ok(Box::new(ActorCriticLearner::new(parts, options)?))
    }

    /// Has `learner` go on from a checkpoint; one of another policy is refused by the name of what differs.
    pub(super) fn go_on(
        &self,
        mut learner: Box<dyn Learner>,
        checkpoint: &Checkpoint,
    ) -> Result<Box<dyn Learner>, TrainError> {
        let spaces = [
            ("observation space", checkpoint.observation == self.env.observation),
            ("action space", checkpoint.action == self.env.action),
            ("algorithm", checkpoint.algorithm == self.algorithm),
        ];
        if let Some((what, _)) = spaces.into_iter().find(|(_, same)| !same) {
            return Err(CheckpointError::DoesNotFit { what }.into());
        }
        self.networks.check_fits(checkpoint)?;
        learner.load(checkpoint.state.clone())?;
        Ok(learner)
    }

    /// A network to act with, on the thread that calls it.
    fn acting_network(&self) -> Result<Box<dyn Network>, PolicyError> {
        self.networks.acting(&self.env)
    }

    /// `state` with all that is needed to use it again.
    pub(super) fn checkpoint(&self, config: &TrainerConfig, state: LearnerState) -> Checkpoint {
        Checkpoint {
            env: self.env.name.clone(),
            algorithm: self.algorithm.to_owned(),
            observation: self.env.observation.clone(),
            action: self.env.action.clone(),
            network: self.networks.spec().cloned(),
            config: config.clone(),
            state,
        }
    }
}

/// The algorithm of the config. What it leaves open depends on how often the run updates the weights.
pub(super) fn algorithm(config: &TrainerConfig) -> Result<Box<dyn Algorithm>, TrainError> {
    let at_least_one = |count: u64| NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN);
    let passes = config.num_sgd_iter as u64;
    // Batches are whole fragments, and minibatches whole columns.
    let (steps, width) = (config.rollout_fragment_length, config.num_envs_per_worker);
    let columns = width * config.train_batch_size.div_ceil(steps * width);
    let minibatches = config.sgd_minibatch_size.map_or(1, |size| columns.div_ceil((size.get() / steps).max(1)));
    let updates = passes * minibatches as u64;
    let rhythm = UpdateRhythm {
        per_train_batch: at_least_one(updates),
        per_buffer: at_least_one(updates * config.minibatch_buffer_size as u64),
    };
    Ok(config.algorithm.build(rhythm)?)
}

/// Joins the rooms and starts the run.
///
/// ```text
/// RolloutWorker ×N ──inqueue──▶ MixInReplay ─▶ Assemble ─▶ LearnerLoop ──outqueue──▶ Trainer
///       ▲   └───────────────── worker reports ─────────────────────────────────────────▶│
///       └───────── WeightCell ◀─────────┘
/// ```
pub(super) fn connect(
    config: TrainerConfig,
    model: Model,
    env: Arc<dyn EnvFactory>,
    learner: Box<dyn Learner>,
) -> Result<Trainer, TrainError> {
    let started = Instant::now();
    let (steps, time, bell) = (StepLedger::new(), TimeLedger::new(), Bell::new());
    let clock = StateClock::new("trainer", TrainerState::Away);
    time.add(clock.reader());
    let (lifeline, tether) = lifeline();
    let (publisher, weights) = weight_cell(learner.weights().clone());

    // One fragment in the making and one being pushed for each worker, what waits, and what is being joined.
    let fragment = config.num_envs_per_worker * config.rollout_fragment_length;
    let fragments =
        2 * config.num_rollout_workers.max(1) + config.learner_queue_size + config.train_batch_size.div_ceil(fragment);
    let links = WorkerLinks { pool: Pool::new(fragments), steps: steps.clone(), tether: tether.clone() };
    let train_batches = TrainBatches { config: &config, version: weights.version_reader() };
    let parts = LearnerParts {
        source: (),
        learner,
        publisher,
        steps: steps.clone(),
        time: time.clone(),
        tether: tether.clone(),
        bell: bell.clone(),
    };

    let (engine, learner_metrics) = match NonZeroU32::new(config.num_rollout_workers as u32) {
        None => {
            let one = WorkerConfig {
                worker: 0,
                seed: config.seed,
                num_envs_per_worker: at_least_one(config.num_envs_per_worker),
                rollout_fragment_length: at_least_one(config.rollout_fragment_length),
                gaussian: config.model.gaussian,
            };
            let network = model.acting_network()?;
            let (source, reports) = InlineSource::new(one, restart(&config), env, network, weights, links, &bell)
                .map_err(|cause| StartError::Worker { thread: "rollout-0".to_owned(), cause: Box::new(cause) })?;
            time.add(source.clock());
            let (learner_loop, outqueue) = train_batches.learner_loop(source, parts)?;
            let metrics = learner_loop.metrics().clone();
            (Engine::Inline { learner_loop, outqueue, reports }, metrics)
        }
        Some(num_rollout_workers) => {
            let (sender, receiver) = inqueue(config.learner_queue_size, &tether).map_err(|error| ConfigError {
                field: "learner_queue_size",
                value: config.learner_queue_size.to_string(),
                reason: error.to_string(),
            })?;
            let (learner_loop, outqueue) = train_batches.learner_loop(receiver, parts)?;
            let set = WorkerSetConfig {
                num_rollout_workers,
                num_envs_per_worker: at_least_one(config.num_envs_per_worker),
                rollout_fragment_length: at_least_one(config.rollout_fragment_length),
                seed: config.seed,
                gaussian: config.model.gaussian,
                restart: restart(&config),
            };
            let edges = WorkerEdges { fragments: sender, weights, bell: bell.clone(), time: time.clone() };
            let workers = WorkerSet::start(set, env, &|| model.acting_network(), links, edges)?;
            let learner = LearnerThread::spawn(learner_loop, outqueue)?;
            let metrics = learner.metrics().clone();
            (Engine::Threads { learner, workers }, metrics)
        }
    };
    Ok(Trainer {
        model,
        engine: Some(engine),
        lifeline: Some(lifeline),
        bell,
        learner_metrics,
        steps,
        time,
        clock,
        reporters: Reporters::default(),
        history: EpisodeHistory::new(config.metrics_num_episodes_for_smoothing),
        started,
        iterations: 0,
        training_iteration: TimerStat::new(),
        worker_restarts: 0,
        fragments_added: Steps::default(),
        version: 0,
        iteration: Iteration::first(started),
        last: None,
        config,
    })
}

/// What a learner's loop takes its batches from: fragments of a source, some used again, joined.
pub(super) type TrainBatchSource<S> = Assemble<MixInReplay<S, Draws>>;

/// Uniform numbers in `[0, 1)`.
type Draws = Box<dyn FnMut() -> f64 + Send>;

/// How train batches are made and what is done with them.
struct TrainBatches<'a> {
    config: &'a TrainerConfig,
    version: VersionReader,
}

impl TrainBatches<'_> {
    /// The learner's loop over the train batches made of `source`'s fragments.
    fn learner_loop<S: Source<Item = MultiAgentBatch>>(
        self,
        source: S,
        parts: LearnerParts<()>,
    ) -> Result<(LearnerLoop<TrainBatchSource<S>>, Mailbox<LearnerReport>), ConfigError> {
        let Self { config, version } = self;
        let replay = MixInConfig {
            replay_buffer_num_slots: config.replay_buffer_num_slots,
            replay_proportion: config.replay_proportion,
        };
        let mut draws = Rng::stream(config.seed, &[REPLAY_STREAM]);
        // Fragments that are kept, and replayed ones in the train batches.
        let pool = Pool::new(2 * config.replay_buffer_num_slots);
        let source = MixInReplay::new(source, replay, pool, Box::new(move || draws.next_f64()) as Draws)
            .map_err(|error| ConfigError::caused_by("replay_proportion", config.replay_proportion, &error))?;
        // Train batches in the ring, and one that is being joined.
        let pool = Pool::new(config.minibatch_buffer_size + 1);
        let mut assemble = Assemble::new(source, config.train_batch_size as u64, pool);
        if let Some(max_lag) = config.max_lag {
            assemble = assemble.with_max_lag(max_lag, version);
        }
        let options = LearnerLoopConfig {
            num_sgd_iter: NonZeroU32::new(config.num_sgd_iter as u32).unwrap_or(NonZeroU32::MIN),
            minibatch_buffer_size: at_least_one(config.minibatch_buffer_size),
            learner_queue_timeout: config.learner_queue_timeout,
            on_starved: config.on_starved,
            broadcast_interval: NonZeroU64::new(config.broadcast_interval).unwrap_or(NonZeroU64::MIN),
            max_consecutive_quarantined: NonZeroU32::new(config.max_consecutive_quarantined).unwrap_or(NonZeroU32::MIN),
            outqueue_capacity: at_least_one(OUTQUEUE_CAPACITY),
        };
        let LearnerParts { learner, publisher, steps, time, tether, bell, source: () } = parts;
        let parts = LearnerParts { source: assemble, learner, publisher, steps, time, tether, bell };
        Ok(LearnerLoop::new(options, parts))
    }
}

fn restart(config: &TrainerConfig) -> RestartPolicy {
    RestartPolicy {
        num_consecutive_worker_failures_tolerance: config.num_consecutive_worker_failures_tolerance,
        first_backoff: config.worker_restart_backoff,
        max_backoff: config.worker_restart_backoff_max,
    }
}

/// `value`, which the config's check has found not to be 0.
fn at_least_one(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap_or(NonZeroUsize::MIN)
}
