//! What a run evaluates, and what it keeps of the best weights.

use pronk_buffer::{ShutdownToken, Versioned};
use pronk_metrics::ByPolicy;
use pronk_policy::{ActionSelection, Params, Policy, PolicyError, Rng};
use pronk_rollout::{CallMonitor, EvaluateError, Evaluation, evaluate_beside, obs_normalizer};

use super::{Agents, RunSpec};
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
    ) -> Result<Evaluation, Box<EvaluateError>> {
        let unfit = |source| Box::new(EvaluateError::Policy { env: self.env.clone(), source });
        // Refused when a run with several agents is built.
        let Agents::One(env) = &self.agents else {
            let reason = "a run with several agents is not evaluated".to_owned();
            return Err(unfit(PolicyError::BadSpec { reason }));
        };
        let mut policy = self.policy(published).map_err(unfit)?;
        let mut choice = match config.evaluation.selection {
            Selection::Mode => ActionSelection::Mode,
            Selection::Sample => ActionSelection::Sample(Rng::seed_from(config.seed)),
        };
        let episodes = (config.evaluation.episodes, config.seed);
        evaluate_beside(&mut policy, &mut choice, env.as_ref(), episodes, beside).map_err(Box::new)
    }

    /// The only policy with published weights, as [`Checkpoint::policy`] would make it.
    fn policy(&self, published: &Versioned<ByPolicy<Params>>) -> Result<Policy, PolicyError> {
        let only = self.policies.iter().next().and_then(|(id, only)| Some((only, published.weights.get(id)?)));
        let Some((only, params)) = only else {
            let reason = "the learner has published no weights of the run's policy".to_owned();
            return Err(PolicyError::BadSpec { reason });
        };
        let network = only.networks.acting(&only.spec)?;
        let policy = Policy::with_network(network, params.clone(), &only.spec.action)?.with_gaussian(only.gaussian)?;
        match obs_normalizer(&published.moments) {
            Some(normalizer) => policy.with_normalizer(normalizer),
            None => Ok(policy),
        }
    }

    /// The checkpoint of evaluated weights, whose learner has come to these counters since.
    pub(in crate::trainer) fn scored(
        &self,
        config: &TrainerConfig,
        published: &Versioned<ByPolicy<Params>>,
        counters: Counters,
        score: Score,
    ) -> Result<Option<Checkpoint>, TrainError> {
        let Some((policy, params)) = published.weights.first_key_value() else { return Ok(None) };
        let state = self.state_with(config, policy, params.clone(), counters)?;
        let states = ByPolicy::from([(policy.clone(), state)]);
        let checkpoint = self.checkpoints(config, states, &published.moments).into_values().next();
        Ok(checkpoint.map(|checkpoint| Checkpoint { score: Some(score), ..checkpoint }))
    }
}
