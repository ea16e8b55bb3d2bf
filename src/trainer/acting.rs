//! [`ActingHost`]: a host that acts for a run on another machine.

use std::sync::Arc;
use std::time::Duration;

use pronk_buffer::{Fold, Gate, Notifier, Pool, ShutdownToken, WorkerEnds, inqueue, shutdown, weight_cell_from};
use pronk_hosts::{Act, Actor, ActorEdges, Dial, Facts, JoinError, Left, Member, Pixels, Welcome};
use pronk_metrics::{StepLedger, StepTotals, TimeLedger};
use pronk_rollout::{
    Reaper, ResumedSeats, WorkerEdges, WorkerFailure, WorkerLinks, WorkerReport, WorkerSet, WorkerSetConfig,
};

use super::builder::{OneAgent, SeveralAgents, TrainerBuilder};
use super::engine::SHUTDOWN_DEADLINE;
use super::making::{maker, share_inference};
use super::run_spec::RunSpec;
use crate::config::{ConfigError, TrainerConfig};
use crate::error::TrainError;
use crate::signals::on_ctrl_c;

/// How long a host looks for a learner before it gives up.
const PATIENCE: Duration = Duration::from_secs(600);

type MakeSpec = dyn Fn(&TrainerConfig) -> Result<RunSpec, TrainError> + Send;

/// A host that acts for a run on another machine: from [`TrainerBuilder::connect`](crate::TrainerBuilder::connect).
///
/// It asks the learner for the settings of the run, builds its workers by them, and samples until the run is
/// over. If the learner is killed and resumed, or the network fails for a while, it joins again by itself.
#[must_use = "it acts with `run`"]
pub struct ActingHost {
    dial: Box<dyn Dial>,
    relay: Option<Box<dyn Dial>>,
    spec: Box<MakeSpec>,
    workers: u32,
    patience: Duration,
    pixels: Pixels,
    end: Option<ShutdownToken>,
}

/// What a host has done when its run is over.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ActingOutcome {
    /// How often it has joined: more than once if it lost the learner in between.
    pub stays: u64,
    /// Env-steps that have arrived at the learner.
    pub env_steps: u64,
    /// The host's own books, over all stays: what has arrived counts as trained on.
    pub steps: StepTotals,
    /// Whether a [signal](crate::on_ctrl_c) has ended it, before the run was over.
    pub stopped: bool,
    /// Workers that have given up.
    pub worker_failures: Vec<WorkerFailure>,
}

/// Why a host acts for no run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActingError {
    /// It is not let in, or finds no learner.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The learner's settings cannot be read.
    #[error("the settings of the learner cannot be read: {0}")]
    Config(#[from] serde_json::Error),
    /// The workers cannot be built by the learner's settings.
    #[error("the workers cannot be built by the settings of the learner: {0}")]
    Build(Box<TrainError>),
    /// The learner says that the host broke the rules of the run.
    #[error("the learner has ended the session: {0}")]
    Foreign(String),
    /// All workers have given up.
    #[error("all workers of this host have given up: {}", all(.0))]
    Workers(Vec<WorkerFailure>),
    /// A thread cannot be started.
    #[error("a thread that carries fragments cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl From<TrainError> for ActingError {
    fn from(error: TrainError) -> Self {
        Self::Build(Box::new(error))
    }
}

impl TrainerBuilder<OneAgent> {
    /// Acts for a run on another machine instead of starting one. The settings come from there. Where rewards
    /// are normalised by the discount of an algorithm of your own, give it here as well.
    pub fn connect(self, to: impl Dial + 'static) -> ActingHost {
        let Self { parts: run, agents: OneAgent { env, algorithm } } = self;
        let spec = move |config: &TrainerConfig| {
            RunSpec::for_env(config, Arc::clone(&env), algorithm.as_deref(), run.network.clone(), None, None)
        };
        ActingHost::new(Box::new(to), Box::new(spec))
    }
}

impl TrainerBuilder<SeveralAgents> {
    /// Acts for a run on another machine instead of starting one. The settings come from there.
    pub fn connect(self, to: impl Dial + 'static) -> ActingHost {
        let Self { parts: run, agents: SeveralAgents { env, agents, .. } } = self;
        let spec =
            move |config: &_| RunSpec::for_agents(config, Arc::clone(&env), agents.clone(), run.network.as_ref(), None);
        ActingHost::new(Box::new(to), Box::new(spec))
    }
}

impl ActingHost {
    fn new(dial: Box<dyn Dial>, spec: Box<MakeSpec>) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Self { dial, relay: None, spec, workers, patience: PATIENCE, pixels: Pixels::default(), end: None }
    }

    /// How many workers it has. The default is one for each processor.
    pub fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    /// How long it looks for a learner, at its start and whenever it has lost one. The default is 10 minutes.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether observations of bytes are compressed on their way: worth it below a few gigabits per second.
    pub fn pixels(self, pixels: Pixels) -> Self {
        Self { pixels, ..self }
    }

    /// Gets weights from a [`Relay`](crate::hosts::Relay) instead of the learner, as long as it answers.
    pub fn weights_from(self, relay: impl Dial + 'static) -> Self {
        Self { relay: Some(Box::new(relay)), ..self }
    }

    /// Also ends when the guard of this token is dropped.
    pub fn until(self, end: ShutdownToken) -> Self {
        Self { end: Some(end), ..self }
    }

    /// Acts until the run is over, or a [signal](crate::on_ctrl_c) arrives.
    ///
    /// *Blocks* until then.
    ///
    /// # Errors
    /// No learner, one that does not let the host in, settings that its environments or networks do not fit,
    /// or workers that have all given up.
    pub fn run(self) -> Result<ActingOutcome, ActingError> {
        let (token, _listening) = match self.end {
            Some(token) => (token, None),
            None => {
                let (guard, token) = shutdown();
                (token, on_ctrl_c(move || drop(guard)).ok())
            }
        };
        let mut actor = Actor::new(self.dial, self.workers, self.patience, token);
        if let Some(relay) = self.relay {
            actor = actor.weights_from(relay);
        }
        let mut host =
            Host { spec: self.spec, workers: self.workers, pixels: self.pixels, outcome: Default::default() };
        let left = actor.act(&mut host)?;
        let mut outcome = host.outcome;
        match left {
            Left::Foreign(reason) => Err(ActingError::Foreign(reason)),
            Left::NoWorkers => Err(ActingError::Workers(outcome.worker_failures)),
            left => {
                outcome.stopped = left == Left::Stopped;
                Ok(outcome)
            }
        }
    }
}

/// What a host does in each of its stays.
struct Host {
    spec: Box<MakeSpec>,
    workers: u32,
    pixels: Pixels,
    outcome: ActingOutcome,
}

impl Act for Host {
    type Built = (TrainerConfig, RunSpec);
    type Error = ActingError;

    fn build(&mut self, welcome: &Welcome) -> Result<(Self::Built, Facts), ActingError> {
        let mut config: TrainerConfig = serde_json::from_str(&welcome.config)?;
        config.workers.num_rollout_workers = self.workers as usize;
        config.check().map_err(TrainError::from)?;
        let mut spec = (self.spec)(&config)?;
        spec.live(welcome.life);
        let facts = spec.facts().map_err(TrainError::from)?;
        Ok(((config, spec), facts))
    }

    fn stay(&mut self, (config, spec): Self::Built, member: Member) -> Result<Left, ActingError> {
        let layouts = spec.layouts().map_err(TrainError::from)?;
        let first = match member.first_weights(&layouts) {
            Ok(first) => first,
            Err(left) => return Ok(left),
        };
        // First, and so dropped last: environments close before the host goes on.
        let reaper = Reaper::new();
        let (time, steps, notifier) = (TimeLedger::new(), StepLedger::new(), Notifier::new());
        let (guard, token) = shutdown();
        let (publisher, cell) = weight_cell_from(first);
        let workers = config.workers.num_rollout_workers;
        // Couriers take fragments at once, as long as the learner does; here they would only grow old.
        let (sender, fragments) = inqueue(0, Gate::Bounded, &token)
            .map_err(|error| TrainError::from(ConfigError::caused_by("inqueue", 0, &error)))?;
        let pool = Pool::new(3 * workers + 2);
        let (inference, port) = share_inference(&config, &spec, cell.clone(), &token, &time)?.unzip();
        let spec = Arc::new(spec);
        let links = WorkerLinks::new(pool, steps.clone(), token.clone());
        let make = maker(Arc::clone(&spec), config.clone(), (&time, &reaper), (port, links));
        let set = WorkerSetConfig {
            restart: config.restart_policy(),
            env_hang_timeout: config.supervision.env_hang_timeout,
            first_worker: member.first_worker(),
        };
        let edges = WorkerEdges {
            ends: vec![WorkerEnds::free(cell, sender); workers],
            notifier,
            time: time.clone(),
            steps: steps.clone(),
            helper: None,
            resumed: ResumedSeats::default(),
        };
        let set = WorkerSet::start(set, make, token.clone(), edges).map_err(TrainError::from)?;
        let pixels = self.pixels;
        let edges = ActorEdges { fragments, weights: publisher, layouts, steps: steps.clone(), time, pixels, token };
        let mut stay = member.start(edges)?;
        let left = stay.wait(set.reports());
        drop(guard);
        steps.shut_down();
        let ended = set.join(SHUTDOWN_DEADLINE);
        if let Some(late) = inference.and_then(|thread| thread.join(SHUTDOWN_DEADLINE).err()) {
            tracing::warn!(thread = late, "this thread missed its deadline and is abandoned");
        }
        self.outcome.stays += 1;
        self.outcome.worker_failures.extend(ended.failure);
        let mut last = WorkerReport::default();
        ended.unread.into_iter().for_each(|report| last.fold(report));
        stay.leave(last, &left);
        let totals = steps.snapshot();
        self.outcome.env_steps += totals.trained_once.env;
        add(&mut self.outcome.steps, totals);
        Ok(left)
    }
}

fn add(sum: &mut StepTotals, totals: StepTotals) {
    sum.sampled += totals.sampled;
    sum.trained_once += totals.trained_once;
    sum.trained_passes += totals.trained_passes;
    sum.in_flight += totals.in_flight;
    for (into, from) in [(&mut sum.dropped, totals.dropped), (&mut sum.lost, totals.lost)] {
        for (name, steps) in from {
            *into.entry(name).or_default() += steps;
        }
    }
}

fn all(failures: &[WorkerFailure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; and ")
}
