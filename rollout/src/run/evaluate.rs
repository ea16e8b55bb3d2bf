//! Evaluates policies over whole episodes, without learning.

mod evaluation;
mod one_agent;
mod plan;
mod several_agents;
mod spectator;
mod stage;

use pronk_buffer::{ShutdownToken, shutdown};
use pronk_metrics::ByPolicy;
use pronk_policy::{ActionSelection, Policy, derive_seed};

use crate::act::PolicyMapping;
use crate::env::{CallMonitor, EnvPurpose, VectorContext, seed};
use crate::pool::{EnvFactory, MultiAgentFactory};

pub use evaluation::{AgentStat, EvaluateError, Evaluation};
use one_agent::OneAgent;
pub use plan::{Audience, EvaluationPlan, OnProgress, Progress};
use several_agents::SeveralAgents;
pub use spectator::OnFrame;
use spectator::Spectator;
use stage::Stage;

/// How many environments are stepped together.
const MAX_ENVS: usize = 32;

/// How many with several agents: each may have a process of its own, and these are started one after the
/// other.
const MAX_ENVS_OF_SEVERAL: usize = 8;

/// Plays `n_episodes` whole episodes of the environments that `factory` makes.
///
/// Each environment has a fixed share of the episodes, so that short ones are not over-represented. Equal
/// seeds give equal evaluations, whose episodes are never those of a run with that seed. An episode that does
/// not end is ended after [108,000 steps](EvaluationPlan::MAX_EPISODE_STEPS), or the environment's own limit
/// if that is higher; [`evaluate_beside`] takes another limit.
pub fn evaluate(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    n_episodes: usize,
    seed: u64,
) -> Result<Evaluation, EvaluateError> {
    let (_guard, token) = shutdown();
    let players = Players::One { policy, factory };
    let plan = EvaluationPlan::new(n_episodes, seed);
    evaluate_beside(players, choice, plan, (&CallMonitor::new(), &token), Audience::default())
}

/// As [`evaluate`], for environments with several agents: each plays the policy that `mapping` gives it for
/// the seed of the episode, as in training. [`Evaluation::policy_returns`] has the returns by policy.
///
/// Policies with equal names, weights and mapping give equal evaluations. [`ActionSelection::Sample`] draws
/// the actions of all policies from one stream.
///
/// # Errors
/// As [`evaluate`], and an agent without a policy that has its spaces.
///
/// ```
/// use pronk_metrics::ByPolicy;
/// use pronk_policy::{ActionSelection, NetworkSpec, Policy};
/// use pronk_rollout::{EnvContext, MultiAgentEnv, PolicyMapping, TicTacToe, evaluate_agents};
///
/// let game = TicTacToe::new().spec();
/// let (observation, action) = (&game.agents[0].observation, &game.agents[0].action);
/// let network = NetworkSpec::for_spaces(observation, action)?;
/// let player = |seed| Policy::new(network.clone(), network.init_params(seed)?, action);
/// // Or those of a run: `Checkpoint::policy` of each in `Run::checkpoints`.
/// let mut policies = ByPolicy::from([("crosses".into(), player(1)?), ("noughts".into(), player(2)?)]);
///
/// let mapping = PolicyMapping::fixed([("x", "crosses"), ("o", "noughts")]);
/// let factory = |_: &EnvContext| TicTacToe::new();
/// let played = evaluate_agents(&mut policies, &mapping, &mut ActionSelection::Mode, &factory, 10, 0)?;
/// let returns = played.policy_returns();
/// assert_eq!((returns["crosses"].n, played.episodes.len()), (10, 10));
/// // One wins what the other loses.
/// assert_eq!(returns["crosses"].mean(), -returns["noughts"].mean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate_agents(
    policies: &mut ByPolicy<Policy>,
    mapping: &PolicyMapping,
    choice: &mut ActionSelection,
    factory: &dyn MultiAgentFactory,
    n_episodes: usize,
    seed: u64,
) -> Result<Evaluation, EvaluateError> {
    let (_guard, token) = shutdown();
    let players = Players::Several { policies, mapping, factory };
    let plan = EvaluationPlan::new(n_episodes, seed);
    evaluate_beside(players, choice, plan, (&CallMonitor::new(), &token), Audience::default())
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
/// let (mut mode, mut n_frames) = (ActionSelection::Mode, 0);
/// let evaluation = evaluate_and_render(&mut policy, &mut mode, &factory, 1, 0, &mut |frame| {
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
    on_frame: &mut OnFrame<'_>,
) -> Result<Evaluation, EvaluateError> {
    let (_guard, token) = shutdown();
    let players = Players::One { policy, factory };
    let plan = EvaluationPlan::new(n_episodes, seed);
    let audience = Audience { on_frame: Some(on_frame), ..Audience::default() };
    evaluate_beside(players, choice, plan, (&CallMonitor::new(), &token), audience)
}

/// Who plays in an evaluation, and what.
pub enum Players<'a> {
    /// As in [`evaluate`].
    One {
        /// The policy.
        policy: &'a mut Policy,
        /// Makes the environments.
        factory: &'a dyn EnvFactory,
    },
    /// As in [`evaluate_agents`].
    Several {
        /// The policies, by name.
        policies: &'a mut ByPolicy<Policy>,
        /// Which agent plays which policy.
        mapping: &'a PolicyMapping,
        /// Makes the environments.
        factory: &'a dyn MultiAgentFactory,
    },
}

/// As [`evaluate`] or [`evaluate_agents`], and as [`evaluate_and_render`] if the audience has an `on_frame`,
/// beside a run: the monitor gives the environments its ledger and reaper, and the end of the run interrupts
/// the evaluation between two steps.
///
/// # Errors
/// As these, and [`EvaluateError::Interrupted`].
pub fn evaluate_beside(
    players: Players<'_>,
    choice: &mut ActionSelection,
    plan: EvaluationPlan,
    (monitor, token): (&CallMonitor, &ShutdownToken),
    Audience { on_frame, on_progress }: Audience<'_, '_>,
) -> Result<Evaluation, EvaluateError> {
    if plan.n_episodes == 0 {
        return Ok(Evaluation::default());
    }
    let most = match players {
        Players::One { .. } => MAX_ENVS,
        Players::Several { .. } => MAX_ENVS_OF_SEVERAL,
    };
    let n_envs = plan.n_episodes.min(most);
    let seed = derive_seed(plan.seed, &[seed::EVALUATION]);
    let context = VectorContext { seed, purpose: EnvPurpose::Evaluation, ..VectorContext::default() };
    let spectator = Spectator::new(on_frame);
    match players {
        Players::One { policy, factory } => {
            let mut stage = OneAgent::make(policy, factory, (&context, n_envs), (plan, monitor), spectator)?;
            play(&mut stage, choice, (plan.n_episodes, n_envs), token, on_progress)
        }
        Players::Several { policies, mapping, factory } => {
            let players = (policies, mapping);
            let mut stage = SeveralAgents::make(players, factory, (context, n_envs), (plan, monitor), spectator)?;
            play(&mut stage, choice, (plan.n_episodes, n_envs), token, on_progress)
        }
    }
}

/// The loop of every evaluation.
fn play(
    stage: &mut dyn Stage,
    choice: &mut ActionSelection,
    (n_episodes, n_envs): (usize, usize),
    token: &ShutdownToken,
    mut on_progress: Option<&mut OnProgress<'_>>,
) -> Result<Evaluation, EvaluateError> {
    let mut evaluation = Evaluation::default();
    // Environment i plays episodes i, i + n_envs, i + 2 n_envs, …
    let mut left: Vec<usize> = (0..n_envs).map(|env| (n_episodes - env).div_ceil(n_envs)).collect();
    let (mut ended, mut steps) = (Vec::new(), 0);
    stage.begin()?;
    while evaluation.episodes.len() < n_episodes {
        if token.is_shut_down() {
            return Err(EvaluateError::Interrupted);
        }
        stage.step(choice, &left, &mut ended)?;
        steps += 1;
        for played in ended.drain(..) {
            if let Some(left) = left.get_mut(played.episode.index as usize).filter(|left| **left > 0) {
                *left -= 1;
                evaluation.episodes.push(played.episode);
                evaluation.agents.extend(played.agents);
                evaluation.n_cut_short += usize::from(played.is_cut_short);
            }
        }
        if let Some(on_progress) = &mut on_progress {
            on_progress(Progress { episodes: evaluation.episodes.len(), steps });
        }
    }
    Ok(evaluation)
}

#[cfg(test)]
mod tests;
