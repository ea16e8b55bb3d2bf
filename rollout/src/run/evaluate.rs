//! Evaluates a policy over whole episodes, without learning.

use std::ops::ControlFlow;

use pronk_buffer::{ActionColumn, End, FinalObs, ObsColumn, ShutdownToken, shutdown};
use pronk_policy::{ActionSelection, Policy, PolicyError, derive_seed};

use crate::act::convert;
use crate::env::{CallMonitor, EnvFailure, EpisodeStat, Frame, VectorContext, act_kind, obs_kind, seed};
use crate::pool::EnvFactory;
use crate::vector::{VectorEnv, VectorStep};

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
    beside: (&CallMonitor, &ShutdownToken),
) -> Result<Evaluation, EvaluateError> {
    play(policy, choice, factory, (n_episodes, seed), beside, Spectator { on_frame: None })
}

/// As [`evaluate`], and calls `on_frame` with the frames of the first episode of environment 0: one after its
/// reset and one after each of its steps. After `Break` no more are drawn, but the evaluation continues. It
/// is not called where the environments [draw none](crate::Env::render).
///
/// ```
/// use std::ops::ControlFlow;
///
/// use pronk_policy::{ActionSelection, NetworkSpec, Policy};
/// use pronk_rollout::{CartPole, Env, EnvContext, evaluate_and_render};
///
/// let env = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&env.observation, &env.action)?;
/// let mut policy = Policy::new(network.clone(), network.init_params(0)?, &env.action)?;
/// let factory = |_: &EnvContext| CartPole::new();
/// let mut n_frames = 0;
/// let evaluation = evaluate_and_render(&mut policy, &mut ActionSelection::Mode, &factory, 1, 0, &mut |frame| {
///     assert_eq!((frame.width(), frame.height()), (600, 400));
///     n_frames += 1;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(n_frames, evaluation.episodes[0].episode_len + 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate_and_render(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    n_episodes: usize,
    seed: u64,
    on_frame: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<Evaluation, EvaluateError> {
    let (_guard, token) = shutdown();
    let spectator = Spectator { on_frame: Some(on_frame) };
    play(policy, choice, factory, (n_episodes, seed), (&CallMonitor::new(), &token), spectator)
}

/// Looks at the first episode of environment 0.
struct Spectator<'a> {
    /// `None` without one, and once it has seen enough.
    on_frame: Option<&'a mut dyn FnMut(Frame) -> ControlFlow<()>>,
}

impl Spectator<'_> {
    /// The environments, made so that it can look at them.
    fn make(
        &self,
        factory: &dyn EnvFactory,
        context: &VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Box<dyn VectorEnv>, EnvFailure> {
        if self.on_frame.is_none() {
            return factory.make_vector(context, n_envs, monitor);
        }
        let mut envs = factory.make_vector_to_render(context, n_envs, monitor)?;
        envs.keep_last_frames(0);
        Ok(envs)
    }

    /// Looks at what a reset, or a step with this end, led to.
    fn look(&mut self, envs: &mut dyn VectorEnv, end: End) -> Result<(), EnvFailure> {
        let Some(on_frame) = &mut self.on_frame else { return Ok(()) };
        // After an end, the environment shows the next episode.
        let frame = if end == End::No { envs.render(0)? } else { envs.take_last_frame() };
        let sees_enough = frame.is_none_or(|frame| on_frame(frame).is_break());
        if sees_enough || end != End::No {
            self.on_frame = None;
        }
        Ok(())
    }
}

/// The loop of every evaluation.
fn play(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    (n_episodes, seed): (usize, u64),
    (monitor, token): (&CallMonitor, &ShutdownToken),
    mut spectator: Spectator<'_>,
) -> Result<Evaluation, EvaluateError> {
    let mut evaluation = Evaluation { episodes: Vec::new() };
    if n_episodes == 0 {
        return Ok(evaluation);
    }
    let n_envs = n_episodes.min(MAX_ENVS);
    let seed = derive_seed(seed, &[seed::EVALUATION]);
    let context = VectorContext { worker: 0, incarnation: 0, first_env: 0, seed };
    let mut envs = spectator.make(factory, &context, n_envs, monitor)?;
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
    spectator.look(&mut *envs, End::No)?;
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
        spectator.look(&mut *envs, ends[0])?;
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
