//! [`TrainerBuilder`]: the one way to start a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pronk_learner::{Algorithm, LearnError, Learner};
use pronk_metrics::{ByPolicy, PolicyId, ReportError, Reporter, Steps, TimerStat};
use pronk_policy::{DeviceSpec, Network, PolicyError};
use pronk_rollout::{AbandonedThreads, EnvFactory, EnvSpec, MultiAgentFactory};

use super::episodes::EpisodeHistory;
use super::handle::{FINISH_DEADLINE, Trainer};
use super::iteration::Iteration;
use super::networks::MakeNetwork;
use super::processors::ProcessorTime;
use super::remains::Remains;
use super::reporters::Reporters;
use super::run_spec::{self, RunSpec};
use super::wiring::{self, Wired};
use crate::checkpoint::Checkpoint;
use crate::config::TrainerConfig;
use crate::error::TrainError;
use crate::multi_agent::MultiAgentConfig;

type ReplaceLearner = dyn FnOnce(Box<dyn Learner>) -> Result<Box<dyn Learner>, TrainError>;
type MakeAlgorithm = dyn FnMut(&PolicyId) -> Result<Box<dyn Algorithm>, LearnError>;
type Observe = dyn FnOnce(&mut Trainer) -> Result<(), ReportError>;

/// What a run is made of, before it starts: made by [`Trainer::builder`], started by `build`.
///
/// `Agents` is what is known of the environments: nothing, [`OneAgent`] or [`SeveralAgents`]. A run needs
/// environments, so there is no `build` before [`env`](Self::env) or [`multi_agent_env`](Self::multi_agent_env), of which there is one. All
/// else may be left out, and combines; what is given twice counts as given last, but for reporters, which add
/// up.
///
/// # Example
/// ```
/// use pronk::envs::CartPole;
/// use pronk::learner::{Ppo, PpoConfig};
/// use pronk::prelude::*;
///
/// let folder = tempfile::tempdir()?;
/// let mut config = TrainerConfig::default();
/// config.results.min_time_s_per_iteration = 0.01;
/// let ppo = || Ppo::new(PpoConfig::default());
///
/// let trainer = Trainer::builder(config.clone()).env(|_: &EnvContext| CartPole::new()).algorithm(ppo()?).build()?;
/// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
///
/// let trainer = Trainer::builder(config)
///     .env(|_: &EnvContext| CartPole::new())
///     .algorithm(ppo()?)
///     .resume(&run.checkpoints["default_policy"])
///     .log_to(folder.path())
///     .build()?;
/// assert_eq!(trainer.finish()?.checkpoints["default_policy"].life, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Without environments there is no run:
/// ```compile_fail,E0599
/// use pronk::prelude::*;
///
/// let trainer = Trainer::builder(TrainerConfig::default()).build();
/// ```
#[must_use = "a run starts with `build`"]
pub struct TrainerBuilder<Agents = ()> {
    config: TrainerConfig,
    agents: Agents,
    network: Option<Arc<MakeNetwork>>,
    learner: Option<Box<ReplaceLearner>>,
    /// What the trainer is given once it is there.
    observers: Vec<Box<Observe>>,
}

/// A [`TrainerBuilder`] that has environments with one agent.
pub struct OneAgent {
    env: Arc<dyn EnvFactory>,
    algorithm: Option<Box<dyn Algorithm>>,
    checkpoint: Option<Checkpoint>,
}

/// A [`TrainerBuilder`] that has environments with several agents.
pub struct SeveralAgents {
    env: Arc<dyn MultiAgentFactory>,
    agents: MultiAgentConfig,
    algorithm: Option<Box<MakeAlgorithm>>,
}

impl Trainer {
    /// Starts a run of the config's algorithm, IMPALA by default, on the environments that `env` makes: short
    /// for `Trainer::builder(config).env(env).build()`.
    ///
    /// # Errors
    /// A setting that cannot work, an environment that cannot be made, or spaces that no network is made for.
    pub fn new(config: TrainerConfig, env: impl EnvFactory + 'static) -> Result<Self, TrainError> {
        Self::builder(config).env(env).build()
    }

    /// What a run of these settings is made of: next come its environments.
    pub fn builder(config: TrainerConfig) -> TrainerBuilder {
        TrainerBuilder { config, agents: (), network: None, learner: None, observers: Vec::new() }
    }
}

impl TrainerBuilder {
    /// Environments with one agent: `env` is any closure from [`&EnvContext`](crate::EnvContext) to an environment, or to a
    /// `Result` of one.
    pub fn env(self, env: impl EnvFactory + 'static) -> TrainerBuilder<OneAgent> {
        self.with(OneAgent { env: Arc::new(env), algorithm: None, checkpoint: None })
    }

    /// Environments with several agents, and one policy or several that they play.
    ///
    /// `env` is any closure from [`&EnvContext`](crate::EnvContext) to a [`MultiAgentEnv`](crate::MultiAgentEnv), or to a `Result` of one. Every
    /// policy that is trained has a network, an optimiser and an algorithm of its own; one that begins with a
    /// checkpoint goes on from it.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::TicTacToe;
    /// use pronk::prelude::*;
    /// use pronk::MultiAgentConfig;
    ///
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    /// let trainer = Trainer::builder(config).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents).build()?;
    /// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert!(run.ledger_closed() && run.checkpoints.contains_key("noughts"));
    /// # Ok::<(), pronk::TrainError>(())
    /// ```
    pub fn multi_agent_env(
        self,
        env: impl MultiAgentFactory + 'static,
        agents: MultiAgentConfig,
    ) -> TrainerBuilder<SeveralAgents> {
        self.with(SeveralAgents { env: Arc::new(env), agents, algorithm: None })
    }

    /// The opposite of [`split`](Self::split).
    fn with<Agents>(self, agents: Agents) -> TrainerBuilder<Agents> {
        let Self { config, agents: (), network, learner, observers } = self;
        TrainerBuilder { config, agents, network, learner, observers }
    }

    /// Joins the rooms, once it is known what is trained and by which algorithm.
    fn start(
        self,
        mut spec: RunSpec,
        algorithm: impl FnMut(&PolicyId) -> Result<Box<dyn Algorithm>, LearnError>,
    ) -> Result<Trainer, TrainError> {
        let mut learner = spec.learner(&self.config, algorithm)?;
        if let Some(replace) = self.learner {
            learner = replace(learner)?;
        }
        let wired = wiring::connect(&self.config, spec, learner)?;
        let mut trainer = trainer(self.config, wired);
        self.observers.into_iter().try_for_each(|observe| observe(&mut trainer))?;
        Ok(trainer)
    }
}

impl<Agents> TrainerBuilder<Agents> {
    /// Networks of your own, in place of the config's.
    ///
    /// `network` makes one for an environment, or for what a policy sees and does of one with several agents,
    /// to compute on a device. For each policy it is called once to look at what it makes, once for each of
    /// the learner's `devices` in the config, and once for each worker, with the CPU; it may make networks of
    /// different types as long as all have the same layout of parameters. The first weights are drawn from
    /// the seed of the run as the modules of a [candle model](pronk_policy::CandleModel) say, and for other networks as
    /// [`Init::params`](crate::Init::params) does. Of the settings of the network only `model.init` (for those others),
    /// `model.gaussian`, `model.initial_state` and `model.burn_in` count for such a run, and
    /// `num_learner_threads` does not.
    ///
    /// A checkpoint of the run holds the weights and not the network: act with it by
    /// [`Policy::with_network`](crate::Policy::with_network), and go on from it with the same network given here. Two networks that
    /// compute different things from the same parameters cannot be told apart.
    ///
    /// *Errors* of `build`: a network that does not fit the environment or is unlike the first one made.
    ///
    /// # Example
    /// A layer of 32 that candle computes; `examples/own_network.rs` has a model of its own.
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::policy::{CandleNetwork, Encoder, NetworkSpec};
    /// use pronk::prelude::*;
    /// use pronk::{Activation, DeviceSpec, EnvSpec, Network, PolicyError};
    ///
    /// fn network(env: &EnvSpec, device: DeviceSpec) -> Result<Box<dyn Network>, PolicyError> {
    ///     let encoder = Encoder::Mlp { hidden: vec![32], activation: Activation::Relu };
    ///     let spec = NetworkSpec { encoder, ..NetworkSpec::for_spaces(&env.observation, &env.action)? };
    ///     Ok(Box::new(CandleNetwork::new(spec, device.open()?)?))
    /// }
    ///
    /// let mut config = TrainerConfig::default();
    /// config.results.min_time_s_per_iteration = 0.01;
    /// let trainer = Trainer::builder(config).env(|_: &EnvContext| CartPole::new()).network(network).build()?;
    /// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert!(run.ledger_closed());
    /// # Ok::<(), pronk::TrainError>(())
    /// ```
    pub fn network(
        self,
        network: impl Fn(&EnvSpec, DeviceSpec) -> Result<Box<dyn Network>, PolicyError> + Send + Sync + 'static,
    ) -> Self {
        Self { network: Some(Arc::new(network)), ..self }
    }

    /// A learner of your own.
    ///
    /// `replace` is given the learner that the run would have used, and returns the one to use: another one,
    /// or a wrapper around it. Its weights have to fit the networks of the run, because the workers act with
    /// them.
    pub fn learner(
        self,
        replace: impl FnOnce(Box<dyn Learner>) -> Result<Box<dyn Learner>, TrainError> + 'static,
    ) -> Self {
        Self { learner: Some(Box::new(replace)), ..self }
    }

    /// Adds something that is shown every result: see [`Trainer::add_reporter`].
    pub fn reporter(self, reporter: impl Reporter + 'static) -> Self {
        self.observed(|trainer| {
            trainer.add_reporter(reporter);
            Ok(())
        })
    }

    /// Writes down everything about the run in `folder`: see [`Trainer::log_to`].
    pub fn log_to(self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.observed(move |trainer| trainer.log_to(folder))
    }

    /// Saves into `dir` on the way and as the run ends: see [`Trainer::checkpoint_every`].
    pub fn checkpoint_every(self, every: Duration, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        self.observed(move |trainer| {
            trainer.checkpoint_every(every, dir);
            Ok(())
        })
    }

    fn observed(mut self, observe: impl FnOnce(&mut Trainer) -> Result<(), ReportError> + 'static) -> Self {
        self.observers.push(Box::new(observe));
        self
    }

    /// What is known of the environments, and all else.
    fn split(self) -> (TrainerBuilder, Agents) {
        let Self { config, agents, network, learner, observers } = self;
        (TrainerBuilder { config, agents: (), network, learner, observers }, agents)
    }
}

impl TrainerBuilder<OneAgent> {
    /// An algorithm of your own, in place of the config's: `examples/own_algorithm.rs` is all of one.
    pub fn algorithm(mut self, algorithm: impl Algorithm + 'static) -> Self {
        self.agents.algorithm = Some(Box::new(algorithm));
        self
    }

    /// Goes on from the weights and the optimiser of `checkpoint`.
    ///
    /// Schedules go on where they were; step counters, ledgers and episode statistics begin anew.
    /// Environments play other episodes than the run that the checkpoint is of, and actions are drawn anew:
    /// every random number depends on the seed and on how often the run was resumed ([`Checkpoint::life`]).
    ///
    /// *Errors* of `build`: a checkpoint of another network, other spaces, another algorithm or another
    /// optimiser.
    pub fn resume(mut self, checkpoint: &Checkpoint) -> Self {
        self.agents.checkpoint = Some(checkpoint.clone());
        self
    }

    /// Starts the run.
    ///
    /// # Errors
    /// A setting that cannot work, an environment that cannot be made, spaces that no network is made for,
    /// something of your own that does not fit the rest, a folder that holds a run already.
    pub fn build(self) -> Result<Trainer, TrainError> {
        let (run, OneAgent { env, algorithm, checkpoint }) = self.split();
        run.config.check()?;
        run.config.check_columns()?;
        let spec = RunSpec::for_env(&run.config, env, run.network.clone(), checkpoint)?;
        let config = run.config.clone();
        // There is one policy, so it is taken once.
        let mut own = algorithm;
        run.start(spec, move |_| own.take().map_or_else(|| run_spec::algorithm(&config), Ok))
    }
}

impl TrainerBuilder<SeveralAgents> {
    /// Algorithms of your own, in place of the config's: `make` makes one for each policy that is trained,
    /// because what an algorithm keeps between updates belongs to one policy.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::TicTacToe;
    /// use pronk::learner::{Ppo, PpoConfig};
    /// use pronk::prelude::*;
    /// use pronk::MultiAgentConfig;
    ///
    /// let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    /// let trainer = Trainer::builder(TrainerConfig::default())
    ///     .multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents)
    ///     .algorithm(|_policy| Ok(Box::new(Ppo::new(PpoConfig::default())?)))
    ///     .build()?;
    /// assert_eq!(trainer.finish()?.checkpoints["noughts"].algorithm, "ppo");
    /// # Ok::<(), pronk::TrainError>(())
    /// ```
    pub fn algorithm(
        mut self,
        make: impl FnMut(&PolicyId) -> Result<Box<dyn Algorithm>, LearnError> + 'static,
    ) -> Self {
        self.agents.algorithm = Some(Box::new(make));
        self
    }

    /// Has the policies begin with these checkpoints, such as [`Checkpoint::load_all`] reads: short for
    /// putting them into [`MultiAgentConfig::policies`]. The others begin as they are there.
    pub fn resume(mut self, checkpoints: ByPolicy<Checkpoint>) -> Self {
        let checkpoints = checkpoints.into_iter().map(|(policy, checkpoint)| (policy, Some(checkpoint)));
        self.agents.agents.policies.extend(checkpoints);
        self
    }

    /// Starts the run.
    ///
    /// # Errors
    /// Those of a run with one agent, agents that no policy fits, policies that no agent plays, and an
    /// observation filter or normalised rewards.
    pub fn build(self) -> Result<Trainer, TrainError> {
        let (run, SeveralAgents { env, agents, mut algorithm }) = self.split();
        run.config.check()?;
        run.config.check_for_agents()?;
        let spec = RunSpec::for_agents(&run.config, env, agents, run.network.as_ref())?;
        let config = run.config.clone();
        run.start(spec, move |policy| match &mut algorithm {
            Some(make) => make(policy),
            None => run_spec::algorithm(&config),
        })
    }
}

/// The trainer of a wired run, before its first iteration.
fn trainer(config: TrainerConfig, wired: Wired) -> Trainer {
    let Wired { started, spec, engine, reaper, shutdown, notifier, learner_metrics, steps, time, clock, .. } = wired;
    let processors = ProcessorTime::now(&time.read());
    Trainer {
        spec,
        engine: Some(engine),
        reaper,
        shutdown,
        notifier,
        learner_metrics,
        steps,
        time,
        clock,
        reporters: Reporters::default(),
        history: EpisodeHistory::new(config.results.metrics_num_episodes_for_smoothing),
        started,
        iterations: 0,
        training_iteration: TimerStat::new(),
        reporting: TimerStat::new(),
        worker_restarts: 0,
        worker_failures: Vec::new(),
        abandoned: AbandonedThreads::default(),
        fragments_added: Steps::default(),
        first_update: None,
        source_ended: false,
        failure: None,
        version: 0,
        weights: wired.weights,
        begun: wired.begun,
        updates: 0,
        iteration: Iteration::first(started, processors),
        last: None,
        periodic: None,
        finish_deadline: FINISH_DEADLINE,
        remains: Remains::default(),
        config,
    }
}
