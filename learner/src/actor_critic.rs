//! The learner for an algorithm with a policy and a value network.

mod burn_in;
mod minibatches;
mod obs_ref;
mod publications;
mod sequence_input;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod update;

pub(crate) use obs_ref::obs_ref;

use std::num::NonZeroUsize;
use std::sync::Arc;

use pronk_buffer::{MultiAgentBatch, SampleBatch};
use pronk_metrics::{ByPolicy, Info, InfoTree, PolicyId, Reduction, default_policy};
use pronk_policy::{Distribution, Network, ObsLoader, OutputGrads, Outputs, Params, PolicyError};

use crate::{
    Algorithm, AlgorithmState, ClippedNorm, LearnError, Learned, Learner, LearnerState, Optimizer, OptimizerState,
    Schedule, TrainBatch, cloned,
};

use burn_in::BurnIn;
use minibatches::Minibatches;
use publications::Publications;
use sequence_input::SequenceInput;
use target::Target;

pub use burn_in::InitialState;

/// The parts of an [`ActorCriticLearner`].
pub struct ActorCriticParts {
    /// Computes outputs and turns their gradients into gradients of the weights.
    pub network: Box<dyn Network>,
    /// Initial weights.
    pub params: Params,
    /// The action distribution; its inputs are the network's logits.
    pub distribution: Box<dyn Distribution>,
    /// Computes the loss.
    pub algorithm: Box<dyn Algorithm>,
    /// Turns gradients into new weights.
    pub optimizer: Box<dyn Optimizer>,
}

/// Options of an [`ActorCriticLearner`].
#[derive(Clone, Debug)]
pub struct ActorCriticConfig {
    /// The policy it trains (`default_policy`).
    pub policy: PolicyId,
    /// Learning rate over env-steps trained on (0.0005).
    pub lr: Schedule,
    /// Longest gradient, in L2 norm over all parameters; `None` for no limit (40).
    pub grad_clip: Option<f64>,
    /// Agent-steps of a minibatch: whole columns, shuffled for every pass, with an update for each minibatch;
    /// `None` makes one update of the whole train batch (`None`).
    pub sgd_minibatch_size: Option<NonZeroUsize>,
    /// Seed of the shuffling (0).
    pub seed: u64,
    /// The recurrent state at the start of a fragment ([`InitialState::Stored`]).
    pub initial_state: InitialState,
    /// First steps of every fragment that only bring a recurrent network's state up to date with the current
    /// weights (0). They count as trained on.
    pub burn_in: usize,
}

impl Default for ActorCriticConfig {
    fn default() -> Self {
        Self {
            policy: default_policy(),
            lr: Schedule::Constant(0.0005),
            grad_clip: Some(40.0),
            sgd_minibatch_size: None,
            seed: 0,
            initial_state: InitialState::Stored,
            burn_in: 0,
        }
    }
}

impl ActorCriticConfig {
    fn check(&self) -> Result<(), LearnError> {
        let refuse = |reason| Err(LearnError::Config { reason });
        let (lowest, highest) = (self.lr.min_value(), self.lr.max_value());
        if lowest < 0.0 || !lowest.is_finite() {
            return refuse(format!("lr falls to {lowest}; below 0 the loss would be climbed"));
        }
        if !(highest as f32).is_finite() {
            return refuse(format!("lr rises to {highest}, which is infinite as f32; lower it"));
        }
        if highest as f32 == 0.0 {
            return refuse(format!("lr is at most {highest}, which is 0 as f32: nothing would be learned"));
        }
        match self.grad_clip {
            Some(clip) if clip <= 0.0 || !clip.is_finite() => {
                refuse(format!("grad_clip is {clip}; it must be above 0, or nothing is learned; none turns it off"))
            }
            _ => Ok(()),
        }
    }
}

/// Trains a policy and a value network with any [`Algorithm`].
///
/// A pass over a train batch is one update, or one for each minibatch: outputs for all `T+1` rows of
/// observations, values of the final observations of truncated episodes, the loss and its gradient with
/// respect to the outputs, the gradient with respect to the weights, clipping, a step of the optimiser. A
/// steady run allocates only the statistics.
///
/// The statistics are RLlib 2.2's: `learner_stats` with the algorithm's own and `cur_lr`, `grad_gnorm`
/// (before clipping), `grad_gnorm_clipped`, `var_gnorm`; `model`, `custom_metrics`,
/// `num_agent_steps_trained`, `num_grad_updates_lifetime`, `diff_num_grad_updates_vs_sampler_policy`.
///
/// ```
/// use pronk_learner::{
///     ActorCriticConfig, ActorCriticLearner, ActorCriticParts, Impala, ImpalaConfig, OptimizerConfig,
/// };
/// use pronk_policy::{CpuNetwork, NetworkSpec, Space, distribution_for};
///
/// let (observation, action) = (Space::boxed(vec![-1.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
/// let spec = NetworkSpec::for_spaces(&observation, &action)?;
/// let params = spec.init_params(0)?;
/// let learner = ActorCriticLearner::new(
///     ActorCriticParts {
///         optimizer: OptimizerConfig::default().build(params.values().len())?,
///         network: Box::new(CpuNetwork::new(&spec)?),
///         params,
///         distribution: distribution_for(&action)?,
///         algorithm: Box::new(Impala::new(ImpalaConfig::default())?),
///     },
///     ActorCriticConfig::default(),
/// )?;
/// assert_eq!(learner.global_step(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ActorCriticLearner {
    config: ActorCriticConfig,
    network: Box<dyn Network>,
    params: Params,
    distribution: Box<dyn Distribution>,
    algorithm: Box<dyn Algorithm>,
    optimizer: Box<dyn Optimizer>,
    updates: u64,
    global_step: u64,
    publications: Publications,
    minibatches: Minibatches,
    burn_in: BurnIn,
    target: Option<Target>,
    /// All `T+1` rows.
    outputs: Outputs,
    /// The final observations.
    final_outputs: Outputs,
    sequence_input: SequenceInput,
    output_grads: OutputGrads,
    grad: Vec<f32>,
}

impl ActorCriticLearner {
    /// A learner that has made no update.
    ///
    /// # Errors
    /// Parameters that are not the network's or not finite, a distribution that does not fit the network, or
    /// an invalid option.
    pub fn new(parts: ActorCriticParts, config: ActorCriticConfig) -> Result<Self, LearnError> {
        let ActorCriticParts { network, params, distribution, algorithm, optimizer } = parts;
        config.check()?;
        check_layout(&*network, &params)?;
        params.check_finite()?;
        let (given, needed) = (network.shape().dist_len, distribution.dist_len());
        if given != needed {
            let reason = format!("the network returns {given} logits, but the action distribution takes {needed}");
            return Err(LearnError::Config { reason });
        }
        if network.shape().state_len == 0 && (config.burn_in > 0 || config.initial_state != InitialState::Stored) {
            let reason = "burn_in and initial_state need a recurrent network: leave them at their defaults";
            return Err(LearnError::Config { reason: reason.to_owned() });
        }
        let grad = vec![0.0; params.values().len()];
        let target = algorithm.target_update_period().map(|period| Target::new(&params, period));
        Ok(Self {
            minibatches: Minibatches::new(config.sgd_minibatch_size, config.seed),
            burn_in: BurnIn::new(config.initial_state, config.burn_in),
            sequence_input: SequenceInput::default(),
            target,
            config,
            network,
            params,
            distribution,
            algorithm,
            optimizer,
            updates: 0,
            global_step: 0,
            publications: Publications::default(),
            outputs: Outputs::default(),
            final_outputs: Outputs::default(),
            output_grads: OutputGrads::default(),
            grad,
        })
    }

    /// The policy that it trains.
    pub fn policy(&self) -> &PolicyId {
        &self.config.policy
    }

    /// The current weights.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Updates made, including those of a loaded state.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Env-steps trained on, each counted once: the time of schedules.
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// All that its next update depends on.
    pub fn state(&self) -> LearnerState {
        self.save_into(None)
    }

    /// Its state, in the storage of an earlier one.
    pub(crate) fn save_into(&self, spare: Option<LearnerState>) -> LearnerState {
        let (params, optimizer, target) = match spare {
            Some(LearnerState { params, optimizer, algorithm, .. }) => (Some(params), optimizer, algorithm.target),
            None => (None, OptimizerState::empty(), None),
        };
        let mut state = LearnerState {
            params: cloned(params, &self.params),
            optimizer,
            updates: self.updates,
            global_step: self.global_step,
            algorithm: AlgorithmState {
                numbers: self.algorithm.save(),
                target: self.target.as_ref().map(|own| own.save(target)),
            },
            publications: self.publications.save(),
        };
        self.optimizer.save(&mut state.optimizer);
        state
    }

    /// Resumes from `state`.
    ///
    /// # Errors
    /// A state of another network, optimiser or algorithm, or with impossible numbers. The learner is then
    /// unchanged.
    pub fn load_state(&mut self, state: LearnerState) -> Result<(), LearnError> {
        let LearnerState { params, optimizer, updates, global_step, algorithm, publications } = state;
        check_layout(&*self.network, &params)?;
        params.check_finite()?;
        if let Some(target) = &algorithm.target {
            check_layout(&*self.network, &target.params)?;
            target.params.check_finite()?;
        }
        let numbers = self.algorithm.save();
        self.algorithm.load(&algorithm.numbers)?;
        if let Err(error) = self.optimizer.load_state(optimizer) {
            self.algorithm.load(&numbers)?;
            return Err(error);
        }
        if let Some(target) = &mut self.target {
            target.load(algorithm.target, &params);
        }
        self.params = params;
        self.updates = updates;
        self.global_step = global_step;
        self.publications = Publications::continuing(publications, updates);
        Ok(())
    }

    /// The samples to train on; an error if `batch` holds others, which would be lost.
    fn own_part<'a>(&self, batch: &'a MultiAgentBatch) -> Result<&'a SampleBatch, LearnError> {
        let mut policies = batch.policies();
        match (policies.next(), policies.next()) {
            (Some((policy, part)), None) if *policy == self.config.policy => Ok(part),
            _ => Err(LearnError::other_policies([&self.config.policy], batch)),
        }
    }

    fn info(&self, stats: Info, part: &SampleBatch, lr: f64, norm: ClippedNorm, weight_norm: f64) -> Info {
        let mut learner_stats = match stats {
            Info::Tree(children) => children,
            other => InfoTree::from_iter([(self.algorithm.name().to_owned(), other)]),
        };
        let mean = |value: f64| Info::leaf(value, Reduction::Mean);
        learner_stats.extend([
            ("cur_lr".to_owned(), mean(lr)),
            ("grad_gnorm".to_owned(), mean(norm.true_norm)),
            ("grad_gnorm_clipped".to_owned(), mean(norm.clipped_norm)),
            ("var_gnorm".to_owned(), mean(weight_norm)),
        ]);
        let behind = self.publications.mean_updates_behind(self.updates - 1, part.versions());
        Info::tree([
            ("learner_stats", Info::Tree(learner_stats)),
            ("model", Info::Tree(InfoTree::new())),
            ("custom_metrics", Info::Tree(InfoTree::new())),
            ("num_agent_steps_trained", mean(part.steps() as f64)),
            ("num_grad_updates_lifetime", Info::leaf(self.updates as f64, Reduction::Max)),
            ("diff_num_grad_updates_vs_sampler_policy", mean(behind)),
        ])
    }
}

impl Learner for ActorCriticLearner {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        let part = self.own_part(batch.samples)?;
        self.pass(part, batch.loaded.and_then(|loaded| loaded.get(&self.config.policy)))
    }

    fn weights(&self) -> ByPolicy<&Params> {
        ByPolicy::from([(self.config.policy.clone(), &self.params)])
    }

    fn save(&self, mut spare: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        let policy = &self.config.policy;
        ByPolicy::from([(policy.clone(), self.save_into(spare.remove(policy)))])
    }

    fn load(&mut self, mut state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        match (state.remove(&self.config.policy), state.is_empty()) {
            (Some(state), true) => self.load_state(state),
            _ => Err(LearnError::OtherPolicies {
                expected: vec![self.config.policy.clone()],
                got: state.into_keys().collect(),
            }),
        }
    }

    fn advance(&mut self, env_steps: u64) {
        self.global_step += env_steps;
    }

    fn published(&mut self, version: u64) {
        self.publications.add(version, self.updates);
    }

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        // Burn-in selects steps later, and minibatches select columns.
        let loader = if self.burn_in.is_empty() { self.network.obs_loader() } else { None };
        let cuts = self.config.sgd_minibatch_size.is_some();
        let loader = loader.filter(|loader| !cuts || loader.selects_columns());
        loader.into_iter().map(|loader| (self.config.policy.clone(), loader)).collect()
    }
}

fn check_layout(network: &dyn Network, params: &Params) -> Result<(), LearnError> {
    let (expected, got) = (network.layout(), params.layout());
    if expected == got {
        return Ok(());
    }
    let differs = expected.entries().iter().zip(got.entries()).find(|(expected, got)| expected != got);
    let reason = match differs {
        Some((expected, got)) => {
            format!("expected `{}` {:?}, got `{}` {:?}", expected.name, expected.shape, got.name, got.shape)
        }
        None => format!("expected {} tensors, got {}", expected.entries().len(), got.entries().len()),
    };
    Err(PolicyError::WrongParams { reason }.into())
}
