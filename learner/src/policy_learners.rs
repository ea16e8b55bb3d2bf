//! Learners of several policies.

use std::sync::Arc;

use pronk_metrics::{ByPolicy, LearnerInfo};
use pronk_policy::{ObsLoader, Params};

use crate::{ActorCriticLearner, LearnError, Learned, Learner, LearnerState, TrainBatch};

#[cfg(test)]
mod tests;

/// One learner for each policy that a multi-agent run trains.
///
/// Each policy learns from its own samples in a train batch, if there are any. If an update is not finite,
/// those of the policies before it, in the order of names, remain.
///
/// ```
/// use pronk_learner::{
///     ActorCriticConfig, ActorCriticLearner, ActorCriticParts, Impala, ImpalaConfig, LearnError, Learner, OptimizerConfig,
///     PolicyLearners,
/// };
/// use pronk_policy::{CpuNetwork, NetworkSpec, Space, distribution_for};
///
/// fn learner(policy: &str) -> Result<ActorCriticLearner, LearnError> {
///     let (observation, action) = (Space::boxed(vec![0.0; 4], vec![1.0; 4], vec![4])?, Space::discrete(2)?);
///     let spec = NetworkSpec::for_spaces(&observation, &action)?;
///     let params = spec.init_params(0)?;
///     let parts = ActorCriticParts {
///         optimizer: OptimizerConfig::default().build(params.values().len())?,
///         network: Box::new(CpuNetwork::new(&spec)?),
///         params,
///         distribution: distribution_for(&action)?,
///         algorithm: Box::new(Impala::new(ImpalaConfig::default())?),
///     };
///     ActorCriticLearner::new(parts, ActorCriticConfig { policy: policy.into(), ..ActorCriticConfig::default() })
/// }
///
/// let learners = PolicyLearners::new([learner("cat")?, learner("mouse")?])?;
/// assert_eq!(learners.weights().len(), 2);
/// # Ok::<(), LearnError>(())
/// ```
pub struct PolicyLearners(ByPolicy<ActorCriticLearner>);

impl PolicyLearners {
    /// Combines learners.
    ///
    /// # Errors
    /// No learner, or two for the same policy.
    pub fn new(learners: impl IntoIterator<Item = ActorCriticLearner>) -> Result<Self, LearnError> {
        let mut by_policy = ByPolicy::new();
        for learner in learners {
            let policy = learner.policy().clone();
            if by_policy.insert(policy.clone(), learner).is_some() {
                return Err(LearnError::Config { reason: format!("two learners train the policy '{policy}'") });
            }
        }
        if by_policy.is_empty() {
            return Err(LearnError::Config { reason: "there is no policy to train".to_owned() });
        }
        Ok(Self(by_policy))
    }
}

impl Learner for PolicyLearners {
    fn learn(&mut self, batch: TrainBatch<'_>) -> Result<Learned, LearnError> {
        let is_known = |policy| self.0.contains_key(policy);
        if !batch.samples.policies().all(|(policy, _)| is_known(policy)) || batch.samples.policies().next().is_none() {
            return Err(LearnError::other_policies(self.0.keys(), batch.samples));
        }
        let (mut info, mut updates) = (LearnerInfo::default(), 0);
        for (policy, part) in batch.samples.policies() {
            let Some(learner) = self.0.get_mut(policy) else { continue };
            let pass = learner.pass(part, batch.loaded.and_then(|loaded| loaded.get(policy)));
            let learned = pass.map_err(|source| {
                let of_others = if source.updates() < updates { updates } else { 0 };
                LearnError::OfPolicy { policy: policy.clone(), source: Box::new(source.after(of_others)) }
            })?;
            info.extend(learned.info);
            updates = updates.max(learned.updates);
        }
        Ok(Learned { info, updates })
    }

    fn weights(&self) -> ByPolicy<&Params> {
        self.0.iter().map(|(policy, learner)| (policy.clone(), learner.params())).collect()
    }

    fn save(&self, mut spare: ByPolicy<LearnerState>) -> ByPolicy<LearnerState> {
        self.0.iter().map(|(policy, learner)| (policy.clone(), learner.save_into(spare.remove(policy)))).collect()
    }

    /// A policy without a state stays unchanged.
    fn load(&mut self, state: ByPolicy<LearnerState>) -> Result<(), LearnError> {
        if !state.keys().all(|policy| self.0.contains_key(policy)) {
            return Err(LearnError::OtherPolicies {
                expected: self.0.keys().cloned().collect(),
                got: state.into_keys().collect(),
            });
        }
        for (policy, state) in state {
            if let Some(learner) = self.0.get_mut(&policy) {
                let loaded = learner.load_state(state);
                loaded.map_err(|source| LearnError::OfPolicy { policy, source: Box::new(source) })?;
            }
        }
        Ok(())
    }

    fn advance(&mut self, env_steps: u64) {
        self.0.values_mut().for_each(|learner| learner.advance(env_steps));
    }

    fn published(&mut self, version: u64) {
        self.0.values_mut().for_each(|learner| learner.published(version));
    }

    fn obs_loaders(&self) -> ByPolicy<Arc<dyn ObsLoader>> {
        self.0.values().flat_map(|learner| learner.obs_loaders()).collect()
    }
}
