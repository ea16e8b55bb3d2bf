//! The ways to start a run.

use std::sync::Arc;

use pronk_learner::{Algorithm, Learner};
use pronk_policy::{DeviceSpec, Network, PolicyError};
use pronk_rollout::{EnvFactory, EnvSpec, MultiAgentFactory};

use super::model::{self, Model};
use super::networks::MakeNetwork;
use super::{Trainer, wiring};
use crate::checkpoint::Checkpoint;
use crate::config::TrainerConfig;
use crate::error::TrainError;
use crate::multi_agent::MultiAgentConfig;

/// What of a run is the user's own, in place of the config's.
#[derive(Default)]
struct Own<'a> {
    network: Option<Box<MakeNetwork>>,
    algorithm: Option<Box<dyn Algorithm>>,
    /// What the run goes on from.
    checkpoint: Option<&'a Checkpoint>,
}

impl Trainer {
    /// Starts a run of the config's algorithm, IMPALA by default, on the environments that `env` makes.
    ///
    /// `env` is any closure from [`&EnvContext`](crate::EnvContext) to an environment, or to a `Result` of one.
    ///
    /// # Errors
    /// A setting that cannot work, an environment that cannot be made, or spaces that no network is made for.
    pub fn new(config: TrainerConfig, env: impl EnvFactory + 'static) -> Result<Self, TrainError> {
        Self::with_learner(config, env, Ok)
    }

    /// Starts a run with a learner of your own.
    ///
    /// `replace` is given the learner that [`new`](Self::new) would have used and returns the one to use: another one,
    /// or a wrapper around it. Its weights have to fit the network of the config, because the workers act with it.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and that of `replace`.
    pub fn with_learner(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        replace: impl FnOnce(Box<dyn Learner>) -> Result<Box<dyn Learner>, TrainError>,
    ) -> Result<Self, TrainError> {
        Self::build(config, env, Own::default(), replace)
    }

    /// Starts a run with an algorithm of your own, in place of the config's.
    ///
    /// `examples/own_algorithm.rs` is all of one. *Errors*: those of [`new`](Self::new).
    ///
    /// # Example
    /// ```
    /// use pronk::envs::CartPole;
    /// use pronk::learner::{Ppo, PpoConfig};
    /// use pronk::prelude::*;
    ///
    /// let config = TrainerConfig { min_time_s_per_iteration: 0.01, ..TrainerConfig::default() };
    /// let algorithm = Ppo::new(PpoConfig::default())?;
    /// let trainer = Trainer::with_algorithm(config, |_: &EnvContext| CartPole::new(), algorithm)?;
    /// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert!(run.ledger_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_algorithm(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        algorithm: impl Algorithm + 'static,
    ) -> Result<Self, TrainError> {
        let own = Own { algorithm: Some(Box::new(algorithm)), ..Own::default() };
        Self::build(config, env, own, Ok)
    }

    /// Goes on as [`resume`](Self::resume) does, with an algorithm of your own as in [`with_algorithm`](Self::with_algorithm).
    ///
    /// # Errors
    /// Those of [`resume`](Self::resume).
    pub fn resume_with_algorithm(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        algorithm: impl Algorithm + 'static,
        checkpoint: &Checkpoint,
    ) -> Result<Self, TrainError> {
        let own = Own { algorithm: Some(Box::new(algorithm)), checkpoint: Some(checkpoint), ..Own::default() };
        Self::build(config, env, own, Ok)
    }

    /// Starts a run with networks of your own.
    ///
    /// `network` makes one for an environment, to compute on a device. It is called once to look at what it makes, once
    /// for each of the learner's `devices` in the config, and once for each worker, with the CPU; it may make networks of
    /// different types as long as all have the same layout of parameters. The first weights are drawn from the seed of the
    /// run as the modules of a [candle model](pronk_policy::CandleModel) say, and for other networks as
    /// [`Init::params`](crate::Init::params) does. Of the settings of the network only `model.init` (for those others),
    /// `model.gaussian`, `model.initial_state` and `model.burn_in` count for such a run, and `num_learner_threads` does not.
    ///
    /// A checkpoint of the run holds the weights and not the network: act with it by [`Policy::with_network`], go on with
    /// it by [`resume_with_network`](Self::resume_with_network).
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and a network that does not fit the environment or is unlike the first one made.
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
    /// let config = TrainerConfig { min_time_s_per_iteration: 0.01, ..TrainerConfig::default() };
    /// let trainer = Trainer::with_network(config, |_: &EnvContext| CartPole::new(), network)?;
    /// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert!(run.ledger_closed());
    /// # Ok::<(), pronk::TrainError>(())
    /// ```
    ///
    /// [`Policy::with_network`]: crate::Policy::with_network
    pub fn with_network(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        network: impl Fn(&EnvSpec, DeviceSpec) -> Result<Box<dyn Network>, PolicyError> + Send + Sync + 'static,
    ) -> Result<Self, TrainError> {
        let own = Own { network: Some(Box::new(network)), ..Own::default() };
        Self::build(config, env, own, Ok)
    }

    /// Starts a run that goes on from the weights and the optimiser of `checkpoint`.
    ///
    /// Schedules go on where they were; step counters, ledgers and episode statistics begin anew. Environments play other episodes than
    /// the run that the checkpoint is of, and actions are drawn anew: every random number depends on the seed and on how often the run
    /// was resumed ([`Checkpoint::life`]).
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and a checkpoint of another network, other spaces, another algorithm or another
    /// optimiser.
    pub fn resume(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        checkpoint: &Checkpoint,
    ) -> Result<Self, TrainError> {
        Self::build(config, env, Own { checkpoint: Some(checkpoint), ..Own::default() }, Ok)
    }

    /// Goes on as [`resume`](Self::resume) does, with networks of your own as in [`with_network`](Self::with_network).
    ///
    /// # Errors
    /// Those of [`with_network`](Self::with_network), and a checkpoint of other parameters, other spaces or another
    /// optimiser. Two networks that compute different things from the same parameters cannot be told apart.
    pub fn resume_with_network(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        network: impl Fn(&EnvSpec, DeviceSpec) -> Result<Box<dyn Network>, PolicyError> + Send + Sync + 'static,
        checkpoint: &Checkpoint,
    ) -> Result<Self, TrainError> {
        let own = Own { network: Some(Box::new(network)), checkpoint: Some(checkpoint), ..Own::default() };
        Self::build(config, env, own, Ok)
    }

    /// Starts a run with several agents in each environment, and one policy or several that they play.
    ///
    /// `env` is any closure from [`&EnvContext`](crate::EnvContext) to a [`MultiAgentEnv`](crate::MultiAgentEnv), or to a `Result` of
    /// one. Every policy that is trained has a network, an optimiser and an algorithm of its own, as the config describes them;
    /// one that begins with a checkpoint goes on from it.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), agents that no policy fits, policies that no agent plays, and an observation filter or
    /// normalised rewards.
    ///
    /// # Example
    /// ```
    /// use pronk::envs::TicTacToe;
    /// use pronk::prelude::*;
    /// use pronk::MultiAgentConfig;
    ///
    /// let config = TrainerConfig { min_time_s_per_iteration: 0.01, ..TrainerConfig::default() };
    /// let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    /// let trainer = Trainer::multi_agent(config, |_: &EnvContext| TicTacToe::new(), agents)?;
    /// let run = trainer.run(StopWhen { iterations: Some(2), ..StopWhen::default() })?;
    /// assert!(run.ledger_closed() && run.checkpoints.contains_key("noughts"));
    /// # Ok::<(), pronk::TrainError>(())
    /// ```
    pub fn multi_agent(
        config: TrainerConfig,
        env: impl MultiAgentFactory + 'static,
        agents: MultiAgentConfig,
    ) -> Result<Self, TrainError> {
        config.check()?;
        config.check_for_agents()?;
        let model = Model::for_agents(&config, Arc::new(env), agents)?;
        let learner = model.learner(&config, || model::algorithm(&config))?;
        wiring::connect(config, model, learner)
    }

    /// What all ways to start a run with one agent have in common; `replace` may replace the learner.
    fn build(
        config: TrainerConfig,
        env: impl EnvFactory + 'static,
        own: Own<'_>,
        replace: impl FnOnce(Box<dyn Learner>) -> Result<Box<dyn Learner>, TrainError>,
    ) -> Result<Self, TrainError> {
        config.check()?;
        config.check_columns()?;
        let algorithm = own.algorithm.map_or_else(|| model::algorithm(&config), Ok)?;
        let mut model = Model::for_env(&config, Arc::new(env), own.network, algorithm.name())?;
        model.life = own.checkpoint.map_or(0, Checkpoint::next_life);
        // There is one policy, so it is asked for once.
        let mut algorithm = Some(algorithm);
        let learner = model.learner(&config, || algorithm.take().map_or_else(|| model::algorithm(&config), Ok))?;
        let learner = match own.checkpoint {
            Some(checkpoint) => model.go_on(learner, checkpoint)?,
            None => learner,
        };
        let learner = replace(learner)?;
        wiring::connect(config, model, learner)
    }
}
