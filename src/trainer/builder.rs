//! [`TrainerBuilder`]: how to start a run.

use std::path::PathBuf;
use std::sync::Arc;

use pronk_learner::{Algorithm, LearnError, Learner};
use pronk_metrics::{DEFAULT_POLICY, PolicyId, ReportError, Reporter};
use pronk_policy::{DeviceSpec, Network, PolicyError};
use pronk_rollout::{EnvFactory, EnvSpec, MultiAgentFactory};

use super::handle::Trainer;
use super::parts::RunParts;
use super::run_spec::RunSpec;
use crate::config::TrainerConfig;
use crate::error::TrainError;
use crate::multi_agent::MultiAgentConfig;
use crate::record::{Recording, Replay};
use crate::resume::Resume;

type MakeAlgorithm = dyn FnMut(&PolicyId) -> Result<Box<dyn Algorithm>, LearnError>;

/// The parts of a run: from [`Trainer::builder`], started by `build`.
///
/// A run needs environments, so `build` exists only after [`env`](Self::env) or
/// [`multi_agent_env`](Self::multi_agent_env). Everything else is optional and combines. A second call
/// replaces the first, except for reporters, which add up.
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
/// Without environments it does not compile:
/// ```compile_fail,E0599
/// use pronk::prelude::*;
///
/// let trainer = Trainer::builder(TrainerConfig::default()).build();
/// ```
#[must_use = "a run starts with `build`"]
pub struct TrainerBuilder<Agents = ()> {
    pub(super) parts: RunParts,
    pub(super) agents: Agents,
}

/// State of a [`TrainerBuilder`] with single-agent environments.
pub struct OneAgent {
    pub(super) env: Arc<dyn EnvFactory>,
    pub(super) algorithm: Option<Box<dyn Algorithm>>,
}

/// State of a [`TrainerBuilder`] with multi-agent environments.
pub struct SeveralAgents {
    pub(super) env: Arc<dyn MultiAgentFactory>,
    pub(super) agents: MultiAgentConfig,
    algorithm: Option<Box<MakeAlgorithm>>,
}

impl Trainer {
    /// Short for `Trainer::builder(config).env(env).build()`.
    ///
    /// # Errors
    /// An invalid setting, an environment that cannot be made, or spaces that no network supports.
    pub fn new(config: TrainerConfig, env: impl EnvFactory + 'static) -> Result<Self, TrainError> {
        Self::builder(config).env(env).build()
    }

    /// A builder of a run with these settings; its environments come next.
    pub fn builder(config: TrainerConfig) -> TrainerBuilder {
        TrainerBuilder { parts: RunParts::new(config), agents: () }
    }
}

impl TrainerBuilder {
    /// Single-agent environments: `env` is any closure from [`&EnvContext`](crate::EnvContext) to an
    /// environment, or to a `Result` of one.
    pub fn env(self, env: impl EnvFactory + 'static) -> TrainerBuilder<OneAgent> {
        TrainerBuilder { parts: self.parts, agents: OneAgent { env: Arc::new(env), algorithm: None } }
    }

    /// Multi-agent environments, and their policies.
    ///
    /// `env` is any closure from [`&EnvContext`](crate::EnvContext) to a
    /// [`MultiAgentEnv`](crate::MultiAgentEnv), or to a `Result` of one. Every trained policy has its own
    /// network, optimiser and algorithm; one with a checkpoint resumes from it.
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
        TrainerBuilder { parts: self.parts, agents: SeveralAgents { env: Arc::new(env), agents, algorithm: None } }
    }
}

impl<Agents> TrainerBuilder<Agents> {
    /// Uses your own networks instead of the config's.
    ///
    /// `network` makes a network for an environment (or for a policy's spaces, with several agents) on a
    /// device. For each policy it is called once to probe the layout, once for each of the learner's
    /// `devices`, and once for each worker, with the CPU. It may return different types as long as all have
    /// the same parameter layout. Initial weights are drawn from the run's seed by the modules of a [candle
    /// model](pronk_policy::CandleModel), or else by [`Init::params`](crate::Init::params). Of the settings
    /// in `model` only `init` (for networks that are no candle models), `gaussian`, `log_std_range`,
    /// `initial_state` and `burn_in` apply; `num_learner_threads` does not, and a precision other than `f32`
    /// is refused.
    ///
    /// A checkpoint holds the weights but not the network: act with
    /// [`Checkpoint::policy_with`](crate::Checkpoint::policy_with), and resume with the same `network`. A
    /// different network with the same layout is not detected.
    ///
    /// *Errors* of `build`: a network that does not fit the environment, or has another layout than the
    /// first.
    ///
    /// # Example
    /// A layer of 32 on candle; `examples/own_network.rs` has a custom model.
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
        mut self,
        network: impl Fn(&EnvSpec, DeviceSpec) -> Result<Box<dyn Network>, PolicyError> + Send + Sync + 'static,
    ) -> Self {
        self.parts.network = Some(Arc::new(network));
        self
    }

    /// Uses your own learner.
    ///
    /// `replace` receives the default learner and returns the one to use, such as a wrapper. Its weights must
    /// fit the networks of the run, which the workers act with.
    pub fn learner(
        mut self,
        replace: impl FnOnce(Box<dyn Learner>) -> Result<Box<dyn Learner>, TrainError> + 'static,
    ) -> Self {
        self.parts.learner = Some(Box::new(replace));
        self
    }

    /// Records the run, so that it can be replayed: which fragments were trained on, in which order, and with
    /// which weights each was sampled.
    ///
    /// If the file cannot be written later, the run goes on without a record, and `record_failed` in the
    /// results says why. A run that replays another is not recorded.
    ///
    /// *Errors* of `build`: a file that exists or cannot be created.
    pub fn record(mut self, recording: Recording) -> Self {
        self.parts.recording = Some(recording);
        self
    }

    /// Repeats a recorded run to the same weights, with the same config and environments; settings of results
    /// and supervision may differ. It ends with the record ([`StopReason::Replayed`](crate::StopReason)), and
    /// fails at the first difference, which the error names: a fragment with its environment and episode, or
    /// an update.
    ///
    /// *Errors* of `build`: a record of another run, or one that cannot be sampled again.
    pub fn replay(mut self, replay: Replay) -> Self {
        self.parts.replay = Some(replay);
        self
    }

    /// Adds a reporter: see [`Trainer::add_reporter`].
    pub fn reporter(self, reporter: impl Reporter + 'static) -> Self {
        self.observed(|trainer| {
            trainer.add_reporter(reporter);
            Ok(())
        })
    }

    /// Logs the run to `folder`: see [`Trainer::log_to`].
    pub fn log_to(self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.observed(move |trainer| trainer.log_to(folder))
    }

    /// Saves the run into the folder `dir`, periodically, as the [settings](crate::config::CheckpointConfig) in
    /// [`TrainerConfig::checkpoint`] say, and at its end. Workers and the learner go on meanwhile.
    ///
    /// The first one of a new run replaces checkpoints of another run in the folder. The folder `best` in it
    /// has the best policy of a run that [evaluates](crate::config::EvaluationConfig).
    ///
    /// A checkpoint is taken where an iteration ends. A failed one does not end the run: each cause is
    /// logged once and is in the results under `checkpoints_failed` and in
    /// [`Run::checkpoint_failures`](crate::Run::checkpoint_failures). Dropping a trainer saves nothing
    /// more.
    ///
    /// *Errors* of `build`: a folder that cannot be made, or a replay.
    ///
    /// # Example
    /// ```
    /// use pronk::Resume;
    /// use pronk::envs::CartPole;
    /// use pronk::prelude::*;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let mut config = TrainerConfig::default();
    /// config.workers.num_rollout_workers = 0;
    /// config.results.min_time_s_per_iteration = 0.01;
    /// config.checkpoint.keep_best = true;
    /// let start = || {
    ///     let run = Trainer::builder(config.clone()).env(|_: &EnvContext| CartPole::new());
    ///     run.checkpoints(folder.path()).resume(Resume::auto()).build()
    /// };
    /// let iterations = |n| StopWhen { iterations: Some(n), ..StopWhen::default() };
    ///
    /// start()?.run(iterations(2))?; // nothing to resume from yet
    /// let run = start()?.run(iterations(3))?; // goes on with the third iteration
    /// assert_eq!(run.result.iteration, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoints(mut self, dir: impl Into<PathBuf>) -> Self {
        self.parts.checkpoints = Some(dir.into());
        self
    }

    /// Saves a video of every [evaluation](crate::config::EvaluationConfig) into the folder `dir`, as
    /// `evaluation-000000050000.png` for one that began at 50,000 env-steps: its first episode as an
    /// [animated PNG](crate::video::Video). The newest ten are kept.
    ///
    /// `evaluation.video` in the results names the newest, and `evaluation.video_failed` says why one could
    /// not be saved, which does not end the run. Environments that do not [draw
    /// themselves](crate::Env::render) have none.
    pub fn videos(mut self, dir: impl Into<PathBuf>) -> Self {
        self.parts.videos = Some(dir.into());
        self
    }

    /// Begins with a checkpoint.
    ///
    /// With [`Resume::auto`] or [`Resume::from`] the run continues that was saved there: counters,
    /// schedules, statistics, ledgers and logs. Under deterministic admission and without threads it
    /// continues exactly; otherwise what was in flight is lost, and episodes differ from earlier ones. See
    /// "Killed and gone on" in `docs/resume.md`.
    ///
    /// With `&Checkpoint`, or one for each policy, a new run begins from weights and optimisers. Schedules
    /// continue; step counters, ledgers and episode statistics start at zero. Random numbers depend on the
    /// seed and on how many times the run was resumed ([`Checkpoint::life`](crate::Checkpoint::life)), so
    /// episodes differ from earlier ones.
    ///
    /// *Errors* of `build`: no checkpoint at a path, one of another run, network, spaces, algorithm or
    /// optimiser.
    pub fn resume(mut self, from: impl Into<Resume>) -> Self {
        self.parts.resume = Some(from.into());
        self
    }

    /// Leaves [signals](Trainer#signals) to the program: the first one ends the process, unless the program
    /// handles it or listens with [`on_signal`](crate::signals::on_signal). For programs that do more than
    /// train.
    pub fn without_signals(mut self) -> Self {
        self.parts.without_signals = true;
        self
    }

    fn observed(mut self, observe: impl FnOnce(&mut Trainer) -> Result<(), ReportError> + 'static) -> Self {
        self.parts.observers.push(Box::new(observe));
        self
    }
}

impl TrainerBuilder<OneAgent> {
    /// Uses your own algorithm instead of the config's: see `examples/own_algorithm.rs`. The run asks it for
    /// its discount if rewards are normalised, and tells it its rhythm of updates.
    pub fn algorithm(mut self, algorithm: impl Algorithm + 'static) -> Self {
        self.agents.algorithm = Some(Box::new(algorithm));
        self
    }

    /// Starts the run.
    ///
    /// # Errors
    /// An invalid setting, an environment that cannot be made, spaces that no network supports, a network,
    /// learner or checkpoint that does not fit, or a log folder that holds a run.
    pub fn build(self) -> Result<Trainer, TrainError> {
        let Self { parts: mut run, agents: OneAgent { env, algorithm } } = self;
        run.config.check()?;
        run.config.check_columns()?;
        let (mut checkpoints, found) = run.look_for_a_run()?;
        let (own, from) = (run.network.clone(), checkpoints.remove(DEFAULT_POLICY));
        let spec = RunSpec::for_env(&run.config, env, algorithm.as_deref(), own, from, run.replay.as_ref())?;
        let config = run.config.clone();
        // There is one policy, so this is called once.
        let mut own = algorithm;
        run.start(spec, found, move |_| own.take().map_or_else(|| config.algorithm.build(), Ok))
    }
}

impl TrainerBuilder<SeveralAgents> {
    /// Uses your own algorithms instead of the config's: `make` makes one for each trained policy, because
    /// their state is per policy.
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

    /// Starts the run.
    ///
    /// # Errors
    /// As for one agent; also agents without a policy, policies without agents, and settings that need a
    /// single agent.
    pub fn build(self) -> Result<Trainer, TrainError> {
        let Self { parts: mut run, agents: SeveralAgents { env, mut agents, mut algorithm } } = self;
        run.config.check()?;
        run.config.check_for_agents()?;
        let (checkpoints, found) = run.look_for_a_run()?;
        agents.policies.extend(checkpoints.into_iter().map(|(policy, checkpoint)| (policy, Some(checkpoint))));
        let spec = RunSpec::for_agents(&run.config, env, agents, run.network.as_ref(), run.replay.as_ref())?;
        let config = run.config.clone();
        run.start(spec, found, move |policy| match &mut algorithm {
            Some(make) => make(policy),
            None => config.algorithm.build(),
        })
    }
}
