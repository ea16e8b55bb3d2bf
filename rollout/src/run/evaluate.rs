//! Evaluates a policy over whole episodes, without learning.

use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn, ShutdownToken, shutdown};
use pronk_policy::{ActionSelection, Policy, PolicyError, derive_seed};

use crate::act::convert;
use crate::env::{CallMonitor, EnvFailure, EpisodeStat, VectorContext, act_kind, obs_kind, seed};
use crate::pool::EnvFactory;
use crate::vector::VectorStep;

/// How many environments are stepped together.
const MAX_ENVS: usize = 32;

/// The episodes of an evaluation; its figures are `None` without episodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// In the order in which they ended.
    pub episodes: Vec<EpisodeStat>,
}

impl Evaluation {
    /// Mean return.
    pub fn return_mean(&self) -> Option<f64> {
        self.mean(|episode| episode.episode_return)
    }

    /// Standard deviation of the return (population form).
    pub fn return_std(&self) -> Option<f64> {
        let mean = self.return_mean()?;
        self.mean(|episode| (episode.episode_return - mean).powi(2)).map(f64::sqrt)
    }

    /// Mean length in steps.
    pub fn len_mean(&self) -> Option<f64> {
        self.mean(|episode| f64::from(episode.episode_len))
    }

    fn mean(&self, figure: impl Fn(&EpisodeStat) -> f64) -> Option<f64> {
        let n = self.episodes.len();
        (n > 0).then(|| self.episodes.iter().map(figure).sum::<f64>() / n as f64)
    }
}

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// An environment failed.
    #[error(transparent)]
    Env(#[from] EnvFailure),
    /// The policy cannot act in this environment.
    #[error("the policy cannot act in {env}: {source}")]
    Policy {
        /// Name of the environment.
        env: String,
        /// Why.
        source: PolicyError,
    },
    /// The run that it was beside has ended.
    #[error("the run ended before the evaluation")]
    Interrupted,
}

/// Plays `n_episodes` whole episodes of the environments that `factory` makes.
///
/// Each environment has a fixed share of the episodes, so that short ones are not over-represented. Equal
/// seeds give equal evaluations, whose episodes are never those of a run with that seed.
pub fn evaluate(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    n_episodes: usize,
    seed: u64,
) -> Result<Evaluation, EvaluateError> {
    let (_guard, token) = shutdown();
    evaluate_beside(policy, choice, factory, (n_episodes, seed), (&CallMonitor::new(), &token))
}

/// As [`evaluate`], beside a run: `monitor` gives the environments its ledger and reaper, and the end of the
/// run interrupts the evaluation between two steps.
///
/// # Errors
/// As [`evaluate`], and [`EvaluateError::Interrupted`].
pub fn evaluate_beside(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    (n_episodes, seed): (usize, u64),
    (monitor, token): (&CallMonitor, &ShutdownToken),
) -> Result<Evaluation, EvaluateError> {
    let mut evaluation = Evaluation { episodes: Vec::new() };
    if n_episodes == 0 {
        return Ok(evaluation);
    }
    let n_envs = n_episodes.min(MAX_ENVS);
    let seed = derive_seed(seed, &[seed::EVALUATION]);
    let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed };
    let mut envs = factory.make_vector(&context, n_envs, monitor)?;
    let spec = envs.spec().clone();
    let unfit = |source| EvaluateError::Policy { env: spec.name.clone(), source };

    let (obs_kind, act_kind) = (obs_kind(&spec.observation), act_kind(&spec.action));
    let mut obs = ObsColumn::zeros(obs_kind, n_envs * spec.observation.obs_len());
    let mut actions = ActionColumn::zeros(act_kind, n_envs * spec.action.act_len());
    let (mut rewards, mut ends) = (vec![0.0; n_envs], vec![End::No; n_envs]);
    let mut masks = spec.masks_for(n_envs);
    // Environment i plays episodes i, i + n_envs, i + 2 n_envs, …
    let mut left: Vec<usize> = (0..n_envs).map(|env| (n_episodes - env).div_ceil(n_envs)).collect();

    envs.reset_all(obs.view_mut().into())?;
    policy.forget_all();
    let mut ended = Vec::new();
    while evaluation.episodes.len() < n_episodes {
        if token.is_shut_down() {
            return Err(EvaluateError::Interrupted);
        }
        let (obs_now, chosen) = (convert::observations(obs.view()), convert::actions(actions.view_mut()));
        match &mut masks {
            None => policy.act(obs_now, n_envs, choice, chosen),
            Some(masks) => {
                envs.action_masks(masks)?;
                policy.act_masked(obs_now, n_envs, masks, choice, chosen)
            }
        }
        .map_err(unfit)?;
        envs.step(
            actions.view().into(),
            VectorStep {
                t: 0,
                obs: obs.view_mut().into(),
                rewards: &mut rewards,
                ends: &mut ends,
                final_obs: &mut FinalObs::new(obs_kind, spec.observation.obs_len()),
            },
        )?;
        for (env, _) in ends.iter().enumerate().filter(|(_, end)| **end != End::No) {
            policy.forget(env);
        }
        envs.drain_episodes(&mut ended);
        for episode in ended.drain(..) {
            if let Some(left) = left.get_mut(episode.index as usize).filter(|left| **left > 0) {
                *left -= 1;
                evaluation.episodes.push(episode);
            }
        }
    }
    Ok(evaluation)
}

#[cfg(test)]
mod tests;
