//! The wiring of a run: every queue, cell and mailbox is made in [`connect`].

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pronk_buffer::{
    Ask, InqueueSender, LoaderConfig, LoaderMetrics, LoaderParts, LoaderStacks, MultiAgentBatch, Notifier, Pool,
    RoundGate, ShutdownToken, Source, TurnConfig, TurnPosition, Turns, WeightCell, WorkerEnds, inqueue, mailbox,
    recorded_turns, rounds, shutdown, turns, weight_cell_from,
};
use pronk_learner::{
    HoldsBatch, Journal, Learner, LearnerLoop, LearnerLoopConfig, LearnerMetrics, LearnerParts, LearnerState,
    LearnerThread, SavedLoop, Stack, StackLoader,
};
use pronk_metrics::{ByPolicy, StateClock, StepLedger, TimeLedger};
use pronk_policy::{Helper, Params};
use pronk_rollout::{
    CallMonitor, InlineSource, Reaper, StartError, WorkerEdges, WorkerLinks, WorkerSet, WorkerSetConfig,
};

use super::best::Best;
use super::engine::{Engine, SHUTDOWN_DEADLINE};
use super::evaluations::Evaluations;
use super::evaluator::{self, Evaluator};
use super::handle::TrainerState;
use super::hosts_plan::HostsPlan;
use super::making::{maker, share_inference};
use super::remains::Counters;
use super::restored::Restored;
use super::run_spec::{RunSpec, at_least_one};
use super::train_batches::{Fragments, TrainBatchSource, TrainBatches};
use super::video_folder::VideoFolder;
use crate::checkpoint::SavedEvaluations;
use crate::config::{Admission, ConfigError, TrainerConfig};
use crate::error::TrainError;
use crate::record::{self, Header, Recording, Replay, RunLog};
use crate::resume::{Resumed, SavedTrainer};
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
    /// Storage for the learner's state in the first checkpoint: new memory would make the learner wait.
    pub(super) storage: ByPolicy<LearnerState>,
    /// Follows what the run trains on, if anything asks for it.
    pub(super) log: Option<RunLog>,
    /// What a resumed run's trainer knows.
    pub(super) saved: Option<SavedTrainer>,
    /// Evaluations beside the run.
    pub(super) evaluations: Option<Evaluations>,
}

/// Whether and how a run is recorded, repeated, saved and resumed.
#[derive(Default)]
pub(super) struct Lineage {
    pub(super) recording: Option<Recording>,
    pub(super) replay: Option<Replay>,
    /// Where it saves checkpoints.
    pub(super) saves_into: Option<PathBuf>,
    /// Where it saves videos of evaluations.
    pub(super) videos_into: Option<PathBuf>,
    pub(super) resumed: Option<Resumed>,
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
    (learner, helper): (Box<dyn Learner>, Option<Helper>),
    Lineage { recording, replay, saves_into, videos_into, resumed }: Lineage,
    listen: Option<HostsPlan>,
) -> Result<Wired, TrainError> {
    let started = Instant::now();
    // First, and so dropped last: a run that fails to start waits for its environments to close.
    let reaper = Reaper::new();
    let (time, notifier) = (TimeLedger::new(), Notifier::new());
    let Restored {
        steps,
        first,
        moments,
        mut held,
        learner_loop,
        turns: position,
        seats,
        log: saved_log,
        trainer: saved,
        evaluated,
    } = resumed.map(Restored::from).unwrap_or_else(|| Restored::nothing(&*learner, &spec));
    let clock = StateClock::new("trainer", TrainerState::Caller);
    time.add(clock.reader());
    let (shutdown, token) = shutdown();
    let (mut publisher, weights) = weight_cell_from(first);
    publisher.resume(moments);
    let log = match recording.is_some() || replay.is_some() || config.results.weights_digest {
        true => {
            let header = Header::of(config, (&spec.env, spec.scales_by_bounds()), spec.life, &weights.load().weights);
            let log = record::start(header, recording.as_ref(), replay.as_ref())?;
            saved_log.into_iter().for_each(|saved| log.resume(saved));
            Some(log)
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
    let storage = learner.save(ByPolicy::new());
    let begun = storage.iter().map(|(policy, state)| (policy.clone(), Counters::of(state))).collect();

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
        // Workers may all be elsewhere.
        (None, _) if listen.is_some() => Edges::Threads(admit_freely(config, weights.clone(), &token)?),
        (Some(replay), _) if replay.is_from_fragments() => Edges::Recorded(Box::new(replay.source(steps.clone())?)),
        (_, None) => Edges::Inline,
        (Some(replay), Some(workers)) => {
            let (ends, fragments) = recorded_turns(&replay.turns(), workers.get(), &mut publisher, &token);
            Edges::Threads(Admitted { ends, fragments: Box::new(fragments), turns: None, sender: None })
        }
        (None, Some(workers)) => {
            let resumed = (position, std::mem::take(&mut held.queued));
            Edges::Threads(admit(config, workers, weights.clone(), &token, resumed)?)
        }
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
    let hosts = listen.map(|plan| plan.with(config, &spec, weights.clone(), pool.clone())).transpose()?;
    let (inference, port) = share_inference(config, &spec, weights.clone(), &token, &time)?.unzip();
    let spec = Arc::new(spec);
    // Free workers are not saved: they are in the middle of a fragment.
    let is_saved = saves_into.is_some();
    let saves_envs = is_saved && spec.goes_on_exactly(config);
    // Kept for replacements of workers.
    let links = WorkerLinks { saves_envs, ..WorkerLinks::new(pool, steps.clone(), token.clone()) };
    let make_worker = maker(Arc::clone(&spec), config.clone(), (&time, &reaper), (port, links));

    let (engine, learner_metrics) = match edges {
        Edges::Recorded(source) => {
            let (_, reports) = mailbox(NonZeroUsize::MIN, &notifier);
            let source = ask(train_batches.of(source, held)?, None, gate, None);
            let (learner_loop, outqueue) = LearnerLoop::new(loop_config(config, is_saved), over(parts, source));
            let metrics = learner_loop.metrics().clone();
            let monitor = CallMonitor::new();
            (Engine::Inline { learner_loop, outqueue, reports, monitor, rounds, spent_restarts: None }, metrics)
        }
        Edges::Inline => {
            let (source, reports) = InlineSource::new(
                make_worker,
                config.restart_policy(),
                weights,
                (steps.clone(), token.clone()),
                &notifier,
                seats,
            )
            .map_err(|cause| StartError::Worker { thread: "rollout-0".to_owned(), cause: Box::new(cause) })?;
            time.add(source.clock());
            let (monitor, spent_restarts) = (source.monitor(), Some(source.spent_restarts()));
            let source = ask(train_batches.of(Box::new(source), held)?, None, gate, learner_loop.as_ref());
            let (own, outqueue) = LearnerLoop::new(loop_config(config, is_saved), over(parts, source));
            let learner_loop = resumed_loop(own, learner_loop.as_ref());
            let metrics = learner_loop.metrics().clone();
            (Engine::Inline { learner_loop, outqueue, reports, monitor, rounds, spent_restarts }, metrics)
        }
        Edges::Threads(Admitted { ends, fragments, turns, sender }) => {
            let env_hang_timeout = config.supervision.env_hang_timeout;
            let set = WorkerSetConfig { restart: config.restart_policy(), env_hang_timeout, first_worker: 1 };
            let edges = WorkerEdges {
                ends,
                notifier: notifier.clone(),
                time: time.clone(),
                steps: steps.clone(),
                helper,
                resumed: seats,
            };
            let workers = WorkerSet::prepare(set, make_worker, token.clone(), edges)?;
            let hosts = match (hosts, sender) {
                (Some(hosts), Some(sender)) => Some(hosts.open(sender, workers.reporter(), &steps, &time)?),
                _ => None,
            };
            let source = train_batches.of(fragments, held)?;
            let loop_config = loop_config(config, is_saved);
            let (learner, loaders) =
                spawn_learner(config, source, parts, (turns.clone(), gate), (loop_config, learner_loop.as_ref()))?;
            let metrics = learner.metrics().clone();
            (Engine::Threads { learner, workers, hosts, loaders, inference, turns, rounds }, metrics)
        }
    };
    let evaluations = match config.evaluation.every {
        None => None,
        Some(every) => {
            let (from, known) = evaluated.unzip();
            let score = known.as_ref().and_then(|known: &SavedEvaluations| known.best);
            let best = Best::of(saves_into.as_deref(), from.as_deref(), score);
            let evaluations = Evaluations::new(every, steps.snapshot().sampled.env, (&best, known));
            let of_run = (Arc::clone(&spec), config.clone());
            let kept = (best, videos_into.map(VideoFolder::new));
            let evaluator = evaluator::start(of_run, kept, (&token, &notifier), (&time, &reaper.handle()));
            let no_thread = |cause| StartError::Spawn { thread: Evaluator::NAME.to_owned(), cause };
            Some(evaluations.by(evaluator.map_err(no_thread)?))
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
        storage,
        log,
        saved,
        evaluations,
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
    /// Under free admission: for fragments of workers on other machines.
    sender: Option<InqueueSender<MultiAgentBatch>>,
}

/// Makes the edges between `workers` and the learner.
fn admit(
    config: &TrainerConfig,
    workers: NonZeroUsize,
    weights: WeightCell<ByPolicy<Params>>,
    token: &ShutdownToken,
    (position, ahead): (Option<TurnPosition>, Vec<MultiAgentBatch>),
) -> Result<Admitted, ConfigError> {
    let Admission::Deterministic { lag } = config.learner.admission else {
        return Ok(Admitted { sender: None, ..admit_freely(config, weights, token)? });
    };
    let fragment = config.workers.rollout_fragment_length * config.workers.num_envs_per_worker;
    let config = TurnConfig {
        workers,
        fragments_of_a_batch: at_least_one(config.fragments_of_a_batch()),
        lag,
        env_steps_of_a_fragment: fragment as u64,
    };
    let (turns, ends, fragments) = turns(config, &weights, token);
    position.into_iter().for_each(|position| turns.resume(position));
    Ok(Admitted { ends, fragments: Box::new(fragments.after(ahead)), turns: Some(turns), sender: None })
}

/// Makes one inqueue for the workers of the config, and perhaps for those of other machines.
fn admit_freely(
    config: &TrainerConfig,
    weights: WeightCell<ByPolicy<Params>>,
    token: &ShutdownToken,
) -> Result<Admitted, ConfigError> {
    let (sender, receiver) = inqueue(config.inqueue_size(), config.learner.inqueue_gate, token)
        .map_err(|error| ConfigError::caused_by("learner_queue_size", config.inqueue_size(), &error))?;
    let ends = vec![WorkerEnds::free(weights, sender.clone()); config.workers.num_rollout_workers];
    Ok(Admitted { ends, fragments: Box::new(receiver), turns: None, sender: Some(sender) })
}

/// Under deterministic admission, grants turns and waits for rounds at every ask for a train batch.
fn ask<S: Source + Send + 'static>(
    source: S,
    turns: Option<Turns<ByPolicy<Params>>>,
    gate: Option<RoundGate>,
    resumed: Option<&SavedLoop>,
) -> Box<dyn Source<Item = S::Item> + Send> {
    match (gate, resumed) {
        (Some(gate), None) => Box::new(Ask::new(source, turns, gate)),
        (Some(gate), Some(saved)) => Box::new(Ask::new(source, turns, gate).resumed(saved.ring.n_items())),
        (None, _) => Box::new(source),
    }
}

/// A loop that continues from a saved one, if there is one.
fn resumed_loop<S: Source<Item: HoldsBatch>>(own: LearnerLoop<S>, saved: Option<&SavedLoop>) -> LearnerLoop<S> {
    match saved {
        Some(saved) => own.resumed(saved),
        None => own,
    }
}

/// Starts the learner's thread, with loader threads if the config has stacks.
fn spawn_learner(
    config: &TrainerConfig,
    source: TrainBatchSource,
    parts: LearnerParts<()>,
    (turns, gate): (Option<Turns<ByPolicy<Params>>>, Option<RoundGate>),
    (loop_config, saved): (LearnerLoopConfig, Option<&SavedLoop>),
) -> Result<(LearnerThread, Option<LoaderMetrics>), TrainError> {
    if config.learner.num_multi_gpu_tower_stacks == 0 {
        let (own, outqueue) = LearnerLoop::new(loop_config, over(parts, ask(source, turns, gate, saved)));
        return Ok((LearnerThread::spawn(resumed_loop(own, saved), outqueue)?, None));
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
    let parts = LearnerParts { loaders: metrics.clone(), ..over(parts, ask(stacks, turns, gate, saved)) };
    let (own, outqueue) = LearnerLoop::new(loop_config, parts);
    Ok((LearnerThread::spawn(resumed_loop(own, saved), outqueue)?, metrics))
}

/// The parts with a source.
fn over<S>(parts: LearnerParts<()>, source: S) -> LearnerParts<S> {
    let LearnerParts { source: (), learner, publisher, loaders, steps, time, token, notifier, journal } = parts;
    LearnerParts { source, learner, publisher, loaders, steps, time, token, notifier, journal }
}

fn loop_config(config: &TrainerConfig, is_saved: bool) -> LearnerLoopConfig {
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
        cut_at_end: is_saved,
    }
}
