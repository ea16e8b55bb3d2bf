//! [`RunSpec`]: the environments, networks and policies of a run, checked against each other.

mod evaluation;
mod fit;
mod hosts;

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;

use pronk_learner::{
    ActorCriticConfig, ActorCriticLearner, ActorCriticParts, Algorithm, AlgorithmState, InitialState, LearnError,
    Learner, LearnerState, OptimizerConfig, PolicyLearners, RmsPropConfig, Schedule,
};
use pronk_metrics::{ByPolicy, NormalizerMoments, PolicyId, default_policy};
use pronk_policy::{GaussianConfig, Helpers, Network, Params, PolicyError, derive_seed, distribution_with};
use pronk_rollout::{
    BuildError, EnvFactory, EnvSpec, GatheringWorkerConfig, Inference, InferencePort, MultiAgentFactory,
    MultiAgentWorkerConfig, NormalizerConfig, PolicyMapping, RolloutWorker, WorkerConfig, WorkerLinks, WorkerPolicy,
    WorkerSeat, probe_spec,
};

use self::fit::{as_networks_read, check_fits};
use super::networks::{MakeNetwork, Networks};
use super::remains::Counters;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::config::{ConfigError, ModelConfig, ObservationFilter, OptType, TrainerConfig};
use crate::digest::Digest;
use crate::error::TrainError;
use crate::multi_agent::MultiAgentConfig;
use crate::record::Replay;

/// The random stream of initial weights.
const INIT_STREAM: u64 = 0x0057_4549_4748_5453;

/// The random streams of a resumed run.
const LIFE_STREAM: u64 = 0x4c49_4645;

/// The random stream of the order of minibatches.
const MINIBATCH_STREAM: u64 = 0x4d49_4e49_4241_5443;

/// The environments, networks and policies of a run.
pub(super) struct RunSpec {
    pub(super) env: String,
    agents: Agents,
    policies: ByPolicy<PolicySpec>,
    /// What the run normalises.
    normalize: NormalizerConfig,
    /// The moments that it starts with.
    moments: Arc<NormalizerMoments>,
    /// How many times the run was resumed.
    pub(super) life: u64,
    /// Whether workers of other machines may join.
    pub(super) listens: bool,
}

/// The environments.
enum Agents {
    /// Environments with one agent.
    One(Arc<dyn EnvFactory>),
    /// Environments with several.
    Several(Arc<dyn MultiAgentFactory>, PolicyMapping),
}

/// One policy of a run.
struct PolicySpec {
    /// Its spaces, as a single-agent environment would have them.
    spec: EnvSpec,
    networks: Networks,
    /// Name of the algorithm that trains it.
    algorithm: &'static str,
    /// The distribution of continuous actions.
    gaussian: GaussianConfig,
    training: Training,
    /// Separates its random streams from those of other policies; `None` for the only one.
    stream: Option<u64>,
}

/// Whether a policy learns.
enum Training {
    /// From scratch or from a checkpoint, which the learner takes out.
    Learns(Option<Box<Checkpoint>>),
    /// It acts with these weights throughout.
    Frozen(Arc<Params>),
}

impl RunSpec {
    /// For single-agent environments: probes one, makes its network (`own` or the config's), and checks the
    /// checkpoint that the run resumes from; `replay` is the record that it repeats.
    pub(super) fn for_env(
        config: &TrainerConfig,
        env: Arc<dyn EnvFactory>,
        algorithm: Option<&dyn Algorithm>,
        own: Option<Arc<MakeNetwork>>,
        checkpoint: Option<Checkpoint>,
        replay: Option<&Replay>,
    ) -> Result<Self, TrainError> {
        config.check_env(env.as_ref())?;
        let spec = as_networks_read(probe_spec(env.as_ref(), config.seed)?, checkpoint.as_ref(), replay);
        let normalize = config.normalizer(&spec.observation, algorithm)?;
        if config.workers.observation_filter != ObservationFilter::NoFilter && !normalize.observations {
            tracing::info!(observations = %spec.observation, "bytes are scaled by their bounds, not by `observation_filter`");
        }
        let goes_on = checkpoint.is_some() || replay.is_some();
        let networks = Networks::new(own, config, &spec, goes_on)?;
        if let Some(checkpoint) = &checkpoint {
            check_fits(&spec, normalize, &networks, checkpoint)?;
        }
        let moments = checkpoint.as_ref().map_or_else(|| normalize.no_moments(), |from| from.normalizer.clone());
        let life = checkpoint.as_ref().map_or(0, Checkpoint::next_life);
        let name = spec.name.clone();
        let only = PolicySpec {
            spec,
            networks,
            algorithm: config.algorithm.name(),
            gaussian: config.model.gaussian(),
            training: Training::Learns(checkpoint.map(Box::new)),
            stream: None,
        };
        let policies = ByPolicy::from([(default_policy(), only)]);
        Ok(Self {
            env: name,
            agents: Agents::One(env),
            policies,
            normalize,
            moments: Arc::new(moments),
            life,
            listens: false,
        })
    }

    /// For multi-agent environments: the same for each policy.
    pub(super) fn for_agents(
        config: &TrainerConfig,
        env: Arc<dyn MultiAgentFactory>,
        agents: MultiAgentConfig,
        own: Option<&Arc<MakeNetwork>>,
        replay: Option<&Replay>,
    ) -> Result<Self, TrainError> {
        let specs = agents.policy_specs(env.as_ref(), config.seed)?;
        let name = specs.values().next().map(|spec| spec.name.clone()).unwrap_or_default();
        let mut policies = ByPolicy::new();
        let mut life = 0;
        for (stream, (policy, spec)) in (1..).zip(specs) {
            let of_policy = |cause| TrainError::of_policy(&policy, cause);
            let checkpoint = agents.policies[&policy].clone();
            let spec = as_networks_read(spec, checkpoint.as_ref(), replay);
            let goes_on = checkpoint.is_some() || replay.is_some();
            let networks = Networks::new(own.cloned(), config, &spec, goes_on).map_err(of_policy)?;
            if let Some(checkpoint) = &checkpoint {
                check_fits(&spec, NormalizerConfig::default(), &networks, checkpoint)
                    .map_err(|cause| of_policy(cause.into()))?;
            }
            let mut gaussian = config.model.gaussian();
            let training = match (checkpoint, agents.is_trained(&policy)) {
                (checkpoint, true) => {
                    life = life.max(checkpoint.as_ref().map_or(0, Checkpoint::next_life));
                    Training::Learns(checkpoint.map(Box::new))
                }
                (Some(checkpoint), false) => {
                    // It acts with the distribution it was trained with.
                    gaussian = checkpoint.config.model.gaussian();
                    Training::Frozen(Arc::new(checkpoint.state.params))
                }
                (None, false) => {
                    let network = networks.acting(&spec)?;
                    // From the config's own seed in every life: the others have learned against these
                    // weights.
                    Training::Frozen(Arc::new(first_weights(config, config.seed, &*network, Some(stream))))
                }
            };
            let algorithm = config.algorithm.name();
            let policy_spec = PolicySpec { spec, networks, algorithm, gaussian, training, stream: Some(stream) };
            policies.insert(policy, policy_spec);
        }
        let agents = Agents::Several(env, agents.policy_mapping);
        Ok(Self {
            env: name,
            agents,
            policies,
            normalize: NormalizerConfig::default(),
            moments: Arc::default(),
            life,
            listens: false,
        })
    }

    /// Continues a run in this life, with these moments.
    pub(super) fn continue_in(&mut self, life: u64, moments: NormalizerMoments) {
        (self.life, self.moments) = (life, Arc::new(moments));
    }

    /// The digest of the weights of frozen policies, with which a resuming run has to agree.
    pub(super) fn frozen(&self) -> Digest {
        Digest::of_weights(self.policies.iter().filter_map(|(policy, spec)| match &spec.training {
            Training::Frozen(params) => Some((policy, &**params)),
            Training::Learns(_) => None,
        }))
    }

    /// Whether a network scales bytes by other bounds than those of pixels.
    pub(super) fn scales_by_bounds(&self) -> bool {
        self.policies.values().any(|policy| policy.spec.observation.scales_by_bounds())
    }

    /// The policies, each with its spaces as a single-agent environment would have them.
    pub(super) fn specs(&self) -> impl Iterator<Item = (&PolicyId, &EnvSpec)> {
        self.policies.iter().map(|(policy, model)| (policy, &model.spec))
    }

    /// The moments that the first fragments are normalised by: the checkpoint's in a resumed run.
    pub(super) fn first_moments(&self) -> Arc<NormalizerMoments> {
        Arc::clone(&self.moments)
    }

    /// The seed of all random streams: the config's, or one derived from it for a resumed run, which would
    /// otherwise replay the episodes that it has learned from.
    pub(super) fn seed(&self, config: &TrainerConfig) -> u64 {
        if self.life == 0 { config.seed } else { derive_seed(config.seed, &[LIFE_STREAM, self.life]) }
    }

    /// The learner of the config, with an algorithm for each trained policy, in the state of their
    /// checkpoints.
    pub(super) fn learner(
        &mut self,
        config: &TrainerConfig,
        helpers: &Helpers,
        mut algorithm: impl FnMut(&PolicyId) -> Result<Box<dyn Algorithm>, LearnError>,
    ) -> Result<Box<dyn Learner>, TrainError> {
        let seed = self.seed(config);
        let is_only = matches!(self.agents, Agents::One(_));
        let mut learners = Vec::new();
        for (policy, spec) in &mut self.policies {
            let of_policy = |cause| if is_only { cause } else { TrainError::of_policy(policy, cause) };
            if let Training::Learns(_) = spec.training {
                let mut algorithm = algorithm(policy).map_err(|cause| of_policy(cause.into()))?;
                algorithm.set_rhythm(config.update_rhythm(self.listens));
                if algorithm.name() == "appo" && algorithm.target_update_period() == Some(NonZeroU64::MIN) {
                    tracing::warn!(
                        "{policy}: the target network is renewed after every update, so nothing is ever clipped; set \
                         target_update_frequency to several updates, or leave it out"
                    );
                }
                learners.push(spec.learner(config, helpers, (seed, policy), algorithm).map_err(of_policy)?);
            }
        }
        match (learners.pop(), learners.is_empty()) {
            (Some(only), true) if is_only => Ok(Box::new(only)),
            (last, _) => {
                learners.extend(last);
                Ok(Box::new(PolicyLearners::new(learners)?))
            }
        }
    }

    /// Makes the worker of a seat, on the calling thread.
    pub(super) fn worker(
        &self,
        seat: &WorkerSeat,
        config: &TrainerConfig,
        shared: Option<&InferencePort>,
        links: WorkerLinks,
    ) -> Result<RolloutWorker, BuildError> {
        let num_envs_per_worker = at_least_one(config.workers.num_envs_per_worker);
        let rollout_fragment_length = at_least_one(config.workers.rollout_fragment_length);
        match &self.agents {
            Agents::One(env) => {
                let only = self.policies.values().next().ok_or(BuildError::NothingTrained { frozen: 0 })?;
                let worker = WorkerConfig {
                    worker: seat.worker,
                    incarnation: seat.incarnation,
                    seed: self.seed(config),
                    num_envs_per_worker,
                    rollout_fragment_length,
                    gaussian: only.gaussian,
                    normalize: self.normalize,
                };
                let inference = match shared {
                    Some(port) => port.client().into(),
                    None => Inference::from(only.networks.acting(&only.spec)?),
                };
                if config.workers.num_env_groups == 1 && env.tasks().is_none() {
                    return RolloutWorker::new(worker, Arc::clone(env), inference, links);
                }
                let gathering = GatheringWorkerConfig {
                    worker,
                    num_env_groups: at_least_one(config.workers.num_env_groups),
                    gather: config.workers.gather,
                    env_hang_timeout: config.supervision.env_hang_timeout,
                    restart: config.restart_policy(),
                    waits_for_restarts: config.learner.admission.is_deterministic(),
                };
                RolloutWorker::gathering(gathering, Arc::clone(env), inference, links)
            }
            Agents::Several(env, mapping) => {
                let policy = |(policy, model): (&PolicyId, &PolicySpec)| {
                    let policy_of_worker = WorkerPolicy {
                        inference: model.networks.acting(&model.spec)?.into(),
                        observation: model.spec.observation.clone(),
                        action: model.spec.action.clone(),
                        gaussian: model.gaussian,
                        frozen: match &model.training {
                            Training::Learns(_) => None,
                            Training::Frozen(params) => Some(Arc::clone(params)),
                        },
                    };
                    Ok((policy.clone(), policy_of_worker))
                };
                let worker = MultiAgentWorkerConfig {
                    worker: seat.worker,
                    incarnation: seat.incarnation,
                    seed: self.seed(config),
                    num_envs_per_worker,
                    rollout_fragment_length,
                    policies: self.policies.iter().map(policy).collect::<Result<_, BuildError>>()?,
                    mapping: mapping.clone(),
                };
                RolloutWorker::multi_agent(worker, Arc::clone(env), links)
            }
        }
    }

    /// A network for the shared inference thread.
    pub(super) fn acting_network(&self) -> Result<Box<dyn Network>, PolicyError> {
        let only = self.policies.values().next();
        let only = only.ok_or_else(|| PolicyError::BadSpec { reason: "the run has no policy".to_owned() })?;
        only.networks.acting(&only.spec)
    }

    /// Checkpoints of a learner's states, and of the newest published `moments`.
    pub(super) fn checkpoints(
        &self,
        config: &TrainerConfig,
        states: ByPolicy<LearnerState>,
        moments: &NormalizerMoments,
    ) -> ByPolicy<Checkpoint> {
        let checkpoint = |(policy, state): (PolicyId, LearnerState)| {
            let model = self.policies.get(&policy)?;
            let checkpoint = Checkpoint {
                env: self.env.clone(),
                algorithm: model.algorithm.to_owned(),
                observation: model.spec.observation.clone(),
                action: model.spec.action.clone(),
                network: model.networks.spec().cloned(),
                config: config.clone(),
                normalizer: moments.clone(),
                life: self.life,
                score: None,
                state,
            };
            Some((policy, checkpoint))
        };
        states.into_iter().filter_map(checkpoint).collect()
    }

    /// The learner state of a policy with weights `params`, these counters, and a fresh optimiser.
    pub(super) fn state_with(
        &self,
        config: &TrainerConfig,
        policy: &PolicyId,
        params: Params,
        counters: Counters,
    ) -> Result<LearnerState, TrainError> {
        let algorithm = config.algorithm.build()?;
        // The state of a user's own algorithm is unknown here.
        let numbers = if self.policies.get(policy).is_some_and(|spec| spec.algorithm == algorithm.name()) {
            algorithm.save()
        } else {
            BTreeMap::new()
        };
        Ok(LearnerState {
            optimizer: optimizer(config).build(params.values().len())?.state(),
            params,
            updates: counters.updates,
            global_step: counters.env_steps,
            algorithm: AlgorithmState { numbers, target: None },
            publications: Vec::new(),
        })
    }
}

impl PolicySpec {
    /// Its learner, resumed from its checkpoint if it has one.
    fn learner(
        &mut self,
        config: &TrainerConfig,
        helpers: &Helpers,
        (seed, policy): (u64, &PolicyId),
        algorithm: Box<dyn Algorithm>,
    ) -> Result<ActorCriticLearner, TrainError> {
        self.algorithm = algorithm.name();
        let network = self.networks.learning(config, &self.spec, helpers)?;
        check_recurrent_settings(config, network.shape().state_len)?;
        let params = first_weights(config, seed, &*network, self.stream);
        let parts = ActorCriticParts {
            network,
            distribution: distribution_with(&self.spec.action, self.gaussian)?,
            optimizer: optimizer(config).build(params.values().len())?,
            params,
            algorithm,
        };
        let options = ActorCriticConfig {
            policy: policy.clone(),
            lr: config.learner.lr_schedule.clone().unwrap_or(Schedule::Constant(config.learner.lr)),
            grad_clip: config.learner.grad_clip,
            sgd_minibatch_size: config.learner.sgd_minibatch_size,
            seed: stream(seed, MINIBATCH_STREAM, self.stream),
            initial_state: config.model.initial_state,
            burn_in: config.model.burn_in,
        };
        let mut learner = ActorCriticLearner::new(parts, options)?;
        if let Training::Learns(checkpoint) = &mut self.training
            && let Some(checkpoint) = checkpoint.take()
        {
            self.check_resumes(&checkpoint)?;
            learner.load_state(checkpoint.state)?;
        }
        Ok(learner)
    }

    /// Refuses the checkpoint of another algorithm or distribution.
    fn check_resumes(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        if checkpoint.algorithm != self.algorithm {
            return Err(CheckpointError::DoesNotFit { what: "algorithm" });
        }
        if !self.spec.action.has_discrete_actions() && checkpoint.config.model.gaussian != self.gaussian.gaussian {
            return Err(CheckpointError::DoesNotFit { what: "distribution of actions, `model.gaussian`," });
        }
        Ok(())
    }
}

/// The optimiser of the config.
fn optimizer(config: &TrainerConfig) -> OptimizerConfig {
    match config.learner.opt_type {
        OptType::Adam => OptimizerConfig::default(),
        OptType::RmsProp => OptimizerConfig::RmsProp(RmsPropConfig {
            decay: config.learner.decay,
            momentum: config.learner.momentum,
            eps: config.learner.epsilon,
            ..RmsPropConfig::default()
        }),
    }
}

/// The initial weights of a policy, by its network or else by the config.
fn first_weights(config: &TrainerConfig, seed: u64, network: &dyn Network, of: Option<u64>) -> Params {
    let seed = stream(seed, INIT_STREAM, of);
    network.first_params(seed).unwrap_or_else(|| config.model.init.params(Arc::clone(network.layout()), seed))
}

/// The seed of one of a policy's streams.
fn stream(seed: u64, name: u64, of: Option<u64>) -> u64 {
    match of {
        None => derive_seed(seed, &[name]),
        Some(policy) => derive_seed(seed, &[name, policy]),
    }
}

/// Refuses settings of the recurrent state for a network that has none.
fn check_recurrent_settings(config: &TrainerConfig, state_len: usize) -> Result<(), ConfigError> {
    let ModelConfig { burn_in, initial_state, .. } = config.model;
    let refuse = |field, value| {
        let reason = "the network has no recurrent state; set model.use_lstm, or leave this at its default";
        Err(ConfigError::caused_by(field, value, &reason))
    };
    match (state_len, burn_in, initial_state) {
        (0, 1.., _) => refuse("model.burn_in", burn_in.to_string()),
        (0, 0, InitialState::Zero) => refuse("model.initial_state", "zero".to_owned()),
        _ => Ok(()),
    }
}

/// `value`, which the config check has found to be above 0.
pub(super) fn at_least_one(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap_or(NonZeroUsize::MIN)
}
