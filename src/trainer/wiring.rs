//! The wiring of a run: every queue, cell and mailbox is made in [`connect`].

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Instant;

use pronk_buffer::{
    Ask, LoaderConfig, LoaderMetrics, LoaderParts, LoaderStacks, Notifier, Pool, RoundGate, ShutdownToken, Source,
    TurnConfig, Turns, Versioned, WeightCell, WorkerEnds, inqueue, mailbox, recorded_turns, rounds, shutdown, turns,
    weight_cell_from,
};
use pronk_learner::{
    Journal, Learner, LearnerLoop, LearnerLoopConfig, LearnerMetrics, LearnerParts, LearnerThread, Stack, StackLoader,
};
use pronk_metrics::{ByPolicy, StateClock, StepLedger, TimeLedger};
use pronk_policy::Params;
use pronk_rollout::{
    CallMonitor, InferencePort, InferenceThread, InlineSource, Reaper, StartError, WorkerEdges, WorkerLinks,
    WorkerSeat, WorkerSet, WorkerSetConfig,
};

use super::engine::{Engine, SHUTDOWN_DEADLINE};
use super::handle::TrainerState;
use super::remains::Counters;
use super::run_spec::{RunSpec, at_least_one};
use super::train_batches::{Fragments, TrainBatchSource, TrainBatches};
use crate::config::{Admission, ConfigError, InferencePlacement, TrainerConfig};
use crate::error::TrainError;
use crate::record::{self, Header, Recording, Replay, RunLog};
use crate::signals::SharedGuard;

/// Capacity of the learner's mailbox, beyond which reports fold.
const OUTQUEUE_CAPACITY: usize = 1024;

/// A run that is wired and ready to start: its engine, and what the trainer reads and stops it by.
pub(super) struct Wired {
    pub(super) started: Instant,
    pub(super) spec: Arc<RunSpec>,
    pub(super) engine: Engine,
    pub(super) reaper: Reaper,
    pub(super) shutdown: SharedGuard,
    pub(super) notifier: Notifier,
    pub(super) learner_metrics: LearnerMetrics,
    pub(super) steps: StepLedger,
    pub(super) time: TimeLedger,
    pub(super) clock: StateClock<TrainerState>,
    pub(super) weights: WeightCell<ByPolicy<Params>>,
    /// Counters of each policy's learner at the start.
    pub(super) begun: ByPolicy<Counters>,
    /// Follows what the run trains on, if anything asks for it.
    pub(super) log: Option<RunLog>,
}

/// Wires a run. Its workers wait for [`Engine::begin`].
///
/// ```text
/// RolloutWorker ×N ──inqueue──▶ MixInReplay ─▶ Assemble ─▶ [LoaderStacks] ─▶ LearnerLoop ──outqueue──▶ Trainer
///       ▲   └───────────────── worker reports ───────────────────────────────────────────────────────────▶│
///       └───────── WeightCell ◀──────────────────────────┘
/// ```
pub(super) fn connect(
    config: &TrainerConfig,
    spec: RunSpec,
    learner: Box<dyn Learner>,
    (recording, replay): (Option<Recording>, Option<Replay>),
) -> Result<Wired, TrainError> {
    let started = Instant::now();
    // First, and so dropped last: a run that fails to start waits for its environments to close.
    let reaper = Reaper::new();
    let (steps, time, notifier) = (StepLedger::new(), TimeLedger::new(), Notifier::new());
    let clock = StateClock::new("trainer", TrainerState::Caller);
    time.add(clock.reader());
    let (shutdown, token) = shutdown();
    let first = Versioned { version: 0, weights: first_weights(&*learner), moments: spec.first_moments() };
    let (mut publisher, weights) = weight_cell_from(first);
    let log = match recording.is_some() || replay.is_some() || config.results.weights_digest {
        true => {
            let header = Header::of(config, &spec.env, spec.life, &weights.load().weights);
            Some(record::start(header, recording.as_ref(), replay.as_ref())?)
        }
        false => None,
    };
    let (rounds, gate) = match config.learner.admission {
        Admission::Free => (None, None),
        Admission::Deterministic { .. } => {
            let (rounds, gate) = rounds(config.batches_of_an_iteration(), &notifier, &token);
            (Some(rounds), Some(gate))
        }
    };
    let begun = learner.save().into_iter().map(|(policy, state)| (policy, Counters::of(&state))).collect();

    // Per worker one fragment being sampled and one being pushed, plus those queued and those being
    // assembled.
    let queued = match config.learner.admission {
        Admission::Free => config.inqueue_size(),
        Admission::Deterministic { lag } => (lag + 1) * config.fragments_of_a_batch(),
    };
    let pool = Pool::new(2 * config.workers.num_rollout_workers.max(1) + queued + config.fragments_of_a_batch());
    let (seed, version) = (spec.seed(config), weights.version_reader());
    let train_batches = TrainBatches { config, seed, version, log: log.as_ref() };
    let edges = match (&replay, NonZeroUsize::new(config.workers.num_rollout_workers)) {
        (Some(replay), _) if replay.is_from_fragments() => Edges::Recorded(Box::new(replay.source(steps.clone())?)),
        (_, None) => Edges::Inline,
        (Some(replay), Some(workers)) => {
            let (ends, fragments) = recorded_turns(&replay.turns(), workers.get(), &mut publisher, &token);
            Edges::Threads(Admitted { ends, fragments: Box::new(fragments), turns: None })
        }
        (None, Some(workers)) => Edges::Threads(admit(config, workers, weights.clone(), &token)?),
    };
    let parts = LearnerParts {
        source: (),
        learner,
        publisher,
        loaders: None,
        steps: steps.clone(),
        time: time.clone(),
        token: token.clone(),
        notifier: notifier.clone(),
        journal: log.clone().map(|log| Box::new(log) as Box<dyn Journal>),
    };
    let published = weights.clone();
    let (inference, port) = share_inference(config, &spec, weights.clone(), &token, &time)?.unzip();
    let spec = Arc::new(spec);
    // Kept for replacements of workers.
    let make_worker = {
        let (spec, config, time, reaper) = (Arc::clone(&spec), config.clone(), time.clone(), reaper.handle());
        let links = WorkerLinks::new(pool, steps.clone(), token.clone());
        Arc::new(move |seat: &WorkerSeat| {
            let (monitor, slots) = (seat.monitor.of_run(&time, &reaper), Arc::clone(&seat.slots));
            let links = WorkerLinks { monitor, slots, life: spec.life, ..links.clone() };
            spec.worker(seat, &config, port.as_ref(), links)
        })
    };

    let (engine, learner_metrics) = match edges {
        Edges::Recorded(source) => {
            let (_, reports) = mailbox(NonZeroUsize::MIN, &notifier);
            let source = ask(train_batches.of(source)?, None, gate);
            let (learner_loop, outqueue) = LearnerLoop::new(loop_config(config), over(parts, source));
            let metrics = learner_loop.metrics().clone();
            (Engine::Inline { learner_loop, outqueue, reports, monitor: CallMonitor::new(), rounds }, metrics)
        }
        Edges::Inline => {
            let (source, reports) = InlineSource::new(
                make_worker,
                config.restart_policy(),
                weights,
                (steps.clone(), token.clone()),
                &notifier,
            )
            .map_err(|cause| StartError::Worker { thread: "rollout-0".to_owned(), cause: Box::new(cause) })?;
            time.add(source.clock());
            let monitor = source.monitor();
            let source = ask(train_batches.of(Box::new(source))?, None, gate);
            let (learner_loop, outqueue) = LearnerLoop::new(loop_config(config), over(parts, source));
            let metrics = learner_loop.metrics().clone();
            (Engine::Inline { learner_loop, outqueue, reports, monitor, rounds }, metrics)
        }
        Edges::Threads(Admitted { ends, fragments, turns }) => {
            let env_hang_timeout = config.supervision.env_hang_timeout;
            let set = WorkerSetConfig { restart: config.restart_policy(), env_hang_timeout };
            let edges = WorkerEdges { ends, notifier: notifier.clone(), time: time.clone(), steps: steps.clone() };
            let workers = WorkerSet::prepare(set, make_worker, token.clone(), edges)?;
            let source = train_batches.of(fragments)?;
            let (learner, loaders) = spawn_learner(config, source, parts, (turns.clone(), gate))?;
            let metrics = learner.metrics().clone();
            (Engine::Threads { learner, workers, loaders, inference, turns, rounds }, metrics)
        }
    };
    Ok(Wired {
        started,
        spec,
        engine,
        reaper,
        shutdown: SharedGuard::new(shutdown),
        notifier,
        learner_metrics,
        steps,
        time,
        clock,
        weights: published,
        begun,
        log,
    })
}

/// Where fragments come from.
enum Edges {
    /// From a record.
    Recorded(Fragments),
    /// From a worker on the trainer's thread.
    Inline,
    /// From workers on threads.
    Threads(Admitted),
}

/// The workers' ends of the edges, and the source of their fragments.
struct Admitted {
    ends: Vec<WorkerEnds<ByPolicy<Params>>>,
    fragments: Fragments,
    /// Under deterministic admission, unless a record is replayed.
    turns: Option<Turns<ByPolicy<Params>>>,
}

/// Makes the edges between `workers` and the learner.
fn admit(
    config: &TrainerConfig,
    workers: NonZeroUsize,
    weights: WeightCell<ByPolicy<Params>>,
    token: &ShutdownToken,
) -> Result<Admitted, ConfigError> {
    let Admission::Deterministic { lag } = config.learner.admission else {
        let (sender, receiver) = inqueue(config.inqueue_size(), config.learner.inqueue_gate, token)
            .map_err(|error| ConfigError::caused_by("learner_queue_size", config.inqueue_size(), &error))?;
        let ends = vec![WorkerEnds::free(weights, sender); workers.get()];
        return Ok(Admitted { ends, fragments: Box::new(receiver), turns: None });
    };
    let fragment = config.workers.rollout_fragment_length * config.workers.num_envs_per_worker;
    let config = TurnConfig {
        workers,
        fragments_of_a_batch: at_least_one(config.fragments_of_a_batch()),
        lag,
        env_steps_of_a_fragment: fragment as u64,
    };
    let (turns, ends, fragments) = turns(config, &weights, token);
    Ok(Admitted { ends, fragments: Box::new(fragments), turns: Some(turns) })
}

/// Under deterministic admission, grants turns and waits for rounds at every ask for a train batch.
fn ask<S: Source + Send + 'static>(
    source: S,
    turns: Option<Turns<ByPolicy<Params>>>,
    gate: Option<RoundGate>,
) -> Box<dyn Source<Item = S::Item> + Send> {
    match gate {
        Some(gate) => Box::new(Ask::new(source, turns, gate)),
        None => Box::new(source),
    }
}

/// Starts the shared inference thread, if the config has one.
fn share_inference(
    config: &TrainerConfig,
    spec: &RunSpec,
    weights: WeightCell<ByPolicy<Params>>,
    token: &ShutdownToken,
    time: &TimeLedger,
) -> Result<Option<(InferenceThread, InferencePort)>, TrainError> {
    if config.workers.inference == InferencePlacement::PerWorker {
        return Ok(None);
    }
    let started = InferenceThread::start(spec.acting_network()?, weights, token, time);
    let no_thread = |cause| StartError::Spawn { thread: InferenceThread::NAME.to_owned(), cause };
    Ok(Some(started.map_err(no_thread)?))
}

/// Starts the learner's thread, with loader threads if the config has stacks.
fn spawn_learner(
    config: &TrainerConfig,
    source: TrainBatchSource,
    parts: LearnerParts<()>,
    (turns, gate): (Option<Turns<ByPolicy<Params>>>, Option<RoundGate>),
) -> Result<(LearnerThread, Option<LoaderMetrics>), TrainError> {
    if config.learner.num_multi_gpu_tower_stacks == 0 {
        let (learner_loop, outqueue) = LearnerLoop::new(loop_config(config), over(parts, ask(source, turns, gate)));
        return Ok((LearnerThread::spawn(learner_loop, outqueue)?, None));
    }
    let loaders = LoaderConfig {
        num_data_load_threads: at_least_one(config.learner.num_data_load_threads),
        join_within: SHUTDOWN_DEADLINE,
    };
    let stacks = std::iter::repeat_with(Stack::default).take(config.learner.num_multi_gpu_tower_stacks).collect();
    let loader_parts = LoaderParts { source, stacks, time: parts.time.clone(), token: parts.token.clone() };
    let loader = StackLoader::new(parts.learner.obs_loaders());
    let stacks = LoaderStacks::start(loaders, loader_parts, move |_| Ok(loader.clone()))?;
    let metrics = Some(stacks.metrics().clone());
    let parts = LearnerParts { loaders: metrics.clone(), ..over(parts, ask(stacks, turns, gate)) };
    let (learner_loop, outqueue) = LearnerLoop::new(loop_config(config), parts);
    Ok((LearnerThread::spawn(learner_loop, outqueue)?, metrics))
}

/// The parts with a source.
fn over<S>(parts: LearnerParts<()>, source: S) -> LearnerParts<S> {
    let LearnerParts { source: (), learner, publisher, loaders, steps, time, token, notifier, journal } = parts;
    LearnerParts { source, learner, publisher, loaders, steps, time, token, notifier, journal }
}

fn loop_config(config: &TrainerConfig) -> LearnerLoopConfig {
    LearnerLoopConfig {
        num_sgd_iter: NonZeroU32::new(config.learner.num_sgd_iter as u32).unwrap_or(NonZeroU32::MIN),
        init_num_sgd_iter: (config.learner.num_multi_gpu_tower_stacks > 0).then_some(NonZeroU32::MIN),
        minibatch_buffer_size: at_least_one(config.learner.minibatch_buffer_size),
        learner_queue_timeout: config.learner.learner_queue_timeout,
        on_starved: config.learner.on_starved,
        broadcast_interval: NonZeroU64::new(config.learner.broadcast_interval).unwrap_or(NonZeroU64::MIN),
        max_consecutive_quarantined: NonZeroU32::new(config.learner.max_consecutive_quarantined)
            .unwrap_or(NonZeroU32::MIN),
        outqueue_capacity: at_least_one(match config.learner.admission {
            Admission::Free => OUTQUEUE_CAPACITY,
            // All of a round, unfolded: in another order, sums may differ in their last bits.
            Admission::Deterministic { .. } => usize::MAX,
        }),
    }
}

/// The initial weights of workers.
fn first_weights(learner: &dyn Learner) -> ByPolicy<Params> {
    learner.weights().into_iter().map(|(policy, params)| (policy, params.clone())).collect()
}
