//! What a run evaluates, and what it keeps of the best weights.

use pronk_buffer::{ShutdownToken, Versioned};
use pronk_metrics::{ByPolicy, PolicyId};
use pronk_policy::{ActionSelection, Params, Policy, PolicyError, Rng};
use pronk_rollout::{
    Audience, CallMonitor, EvaluateError, Evaluation, EvaluationPlan, OnFrame, Players, evaluate_beside, obs_normalizer,
};

use super::{Agents, PolicySpec, RunSpec, Training};
use crate::checkpoint::{Checkpoint, Score};
use crate::config::{Selection, TrainerConfig};
use crate::error::TrainError;
use crate::trainer::remains::Counters;

impl RunSpec {
    /// Plays the episodes of an evaluation with published weights, in environments of its own.
    pub(in crate::trainer) fn evaluate(
        &self,
        config: &TrainerConfig,
        published: &Versioned<ByPolicy<Params>>,
        beside: (&CallMonitor, &ShutdownToken),
        on_frame: Option<&mut OnFrame<'_>>,
    ) -> Result<Evaluation, Box<EvaluateError>> {
        let mut policies = ByPolicy::new();
        for (id, spec) in &self.policies {
            let policy = spec.policy(id, published).map_err(|source| {
                let (env, policy) = (self.env.clone(), id.clone());
                Box::new(match self.agents {
                    Agents::One(_) => EvaluateError::Policy { env, source },
                    Agents::Several(..) => EvaluateError::OfPolicy { env, policy, source: Box::new(source) },
                })
            })?;
            policies.insert(id.clone(), policy);
        }
        let mut only;
        let players = match &self.agents {
            Agents::Several(env, mapping) => {
                Players::Several { policies: &mut policies, mapping, factory: env.as_ref() }
            }
            Agents::One(env) => {
                only = policies.pop_first().map(|(_, only)| only);
                let Some(policy) = &mut only else {
                    let source = PolicyError::BadSpec { reason: "the run has no policy".to_owned() };
                    return Err(Box::new(EvaluateError::Policy { env: self.env.clone(), source }));
                };
                Players::One { policy, factory: env.as_ref() }
            }
        };
        let mut choice = match config.evaluation.selection {
            Selection::Mode => ActionSelection::Mode,
            Selection::Sample => ActionSelection::Sample(Rng::seed_from(config.seed)),
        };
        let plan = EvaluationPlan {
            n_episodes: config.evaluation.episodes,
            seed: config.seed,
            max_episode_steps: config.evaluation.max_episode_steps,
        };
        let audience = Audience { on_frame, ..Audience::default() };
        evaluate_beside(players, &mut choice, plan, beside, audience).map_err(Box::new)
    }

    /// What an evaluation says of the policies that learn: the mean over its episodes of what their agents
    /// got together. With one agent that is the mean return.
    pub(in crate::trainer) fn score_of(&self, evaluation: &Evaluation) -> Option<f64> {
        let mean = evaluation.return_mean()?;
        if matches!(self.agents, Agents::One(_)) {
            return Some(mean);
        }
        let learns = |policy| self.policies.get(policy).is_some_and(|spec| spec.frozen().is_none());
        let of_learning = evaluation.agents.iter().filter(|stat| learns(&stat.policy));
        Some(of_learning.map(|stat| stat.agent_return).sum::<f64>() / evaluation.episodes.len() as f64)
    }

    /// The checkpoints of evaluated weights, whose learners have come to these counters since; also those of
    /// frozen policies, which the score is of, too.
    pub(in crate::trainer) fn scored(
        &self,
        config: &TrainerConfig,
        published: &Versioned<ByPolicy<Params>>,
        counters: &ByPolicy<Counters>,
        score: Score,
    ) -> Result<ByPolicy<Checkpoint>, TrainError> {
        let mut states = ByPolicy::new();
        for (id, spec) in &self.policies {
            if let Some(params) = spec.weights(id, published) {
                let counters = counters.get(id).copied().unwrap_or_default();
                states.insert(id.clone(), self.state_with(config, id, params.clone(), counters)?);
            }
        }
        let mut checkpoints = self.checkpoints(config, states, &published.moments);
        for (id, checkpoint) in &mut checkpoints {
            checkpoint.score = Some(score);
            if let Some(spec) = self.policies.get(id) {
                // A frozen policy acts with the distribution that it was trained with.
                (checkpoint.config.model.gaussian, checkpoint.config.model.log_std_range) =
                    (spec.gaussian.gaussian, spec.gaussian.log_std_range);
            }
        }
        Ok(checkpoints)
    }
}

impl PolicySpec {
    /// Its fixed weights; `None` if it learns.
    fn frozen(&self) -> Option<&Params> {
        match &self.training {
            Training::Frozen(params) => Some(params),
            Training::Learns(_) => None,
        }
    }

    /// The weights that it acts with.
    fn weights<'a>(&'a self, id: &PolicyId, published: &'a Versioned<ByPolicy<Params>>) -> Option<&'a Params> {
        self.frozen().or_else(|| published.weights.get(id))
    }

    /// The policy with published weights, as [`Checkpoint::policy`] would make it.
    fn policy(&self, id: &PolicyId, published: &Versioned<ByPolicy<Params>>) -> Result<Policy, PolicyError> {
        let Some(params) = self.weights(id, published) else {
            let reason = "the learner has published no weights of it".to_owned();
            return Err(PolicyError::BadSpec { reason });
        };
        let network = self.networks.acting(&self.spec)?;
        let policy = Policy::with_network(network, params.clone(), &self.spec.action)?.with_gaussian(self.gaussian)?;
        match obs_normalizer(&published.moments) {
            Some(normalizer) => policy.with_normalizer(normalizer),
            None => Ok(policy),
        }
    }
}
