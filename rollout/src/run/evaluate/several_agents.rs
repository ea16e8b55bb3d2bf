use pronk_buffer::{ActionColumn, BatchError, ObsColumn, ObsView};
use pronk_metrics::{ByPolicy, PolicyId};
use pronk_policy::{ActionSelection, Policy, PolicyError, Space};

use super::evaluation::{AgentStat, EvaluateError};
use super::plan::EvaluationPlan;
use super::spectator::Spectator;
use super::stage::{Played, Stage};
use crate::act::{MappingError, PolicyMapping, convert};
use crate::env::{ActionRef, AgentState, CallMonitor, EnvFailure, MultiAgentSpec, VectorContext, act_kind, obs_kind};
use crate::pool::{MultiAgentFactory, make_envs};
use crate::vector::MultiAgentEnvs;

/// Environments with several agents. Each policy acts at once for all agents that play it and have to act.
///
/// Agents are numbered across the environments: seat `env * n_agents + agent`.
pub(super) struct SeveralAgents<'a, 'b> {
    mapping: &'a PolicyMapping,
    spectator: Spectator<'a, 'b>,
    envs: MultiAgentEnvs,
    spec: MultiAgentSpec,
    /// Ordered by name.
    actors: Vec<Actor<'a>>,
    /// `[seats]`.
    players: Vec<Player>,
    /// After how many steps an episode is ended.
    limit: u32,
}

/// A policy, with a row for each agent that it acts for now.
struct Actor<'a> {
    id: &'a PolicyId,
    policy: &'a mut Policy,
    /// Whether some of its agents may have action masks.
    masked: bool,
    /// `[rows]`.
    seats: Vec<usize>,
    /// `[rows, obs_len]`.
    obs: ObsColumn,
    /// `[rows, state_len]`: recurrent state.
    state: Vec<f32>,
    /// `[rows, dist_len]`, where there are masks.
    masks: Vec<bool>,
    /// `[rows, act_len]`.
    actions: ActionColumn,
}

/// An agent in its episode.
#[derive(Default)]
struct Player {
    /// The index of the policy that it plays.
    actor: usize,
    /// `[state_len]` of that policy: recurrent state.
    state: Vec<f32>,
    agent_return: f64,
    /// Until it ended.
    agent_len: u32,
    has_ended: bool,
}

impl<'a, 'b> SeveralAgents<'a, 'b> {
    pub(super) fn make(
        (policies, mapping): (&'a mut ByPolicy<Policy>, &'a PolicyMapping),
        factory: &dyn MultiAgentFactory,
        (context, n_envs): (VectorContext, usize),
        (plan, monitor): (EvaluationPlan, &CallMonitor),
        spectator: Spectator<'a, 'b>,
    ) -> Result<Self, EnvFailure> {
        let envs = make_envs(factory, context, n_envs, monitor)?;
        let spec = envs.spec().clone();
        let actors = policies.iter_mut().map(|(id, policy)| Actor::new(id, policy, &spec)).collect();
        let players = (0..n_envs * spec.agents.len()).map(|_| Player::default()).collect();
        let limit = plan.limit(spec.max_episode_steps);
        Ok(Self { mapping, spectator, envs, spec, actors, players, limit })
    }

    /// Begins the next episode of an environment, and maps its agents to policies.
    fn reset(&mut self, env: usize) -> Result<(), EvaluateError> {
        self.envs.reset(env)?;
        let seed = self.envs.episodes(env).seed();
        let n_agents = self.spec.agents.len();
        for agent in 0..n_agents {
            let actor = self.actor_of(agent, seed);
            let actor = actor.map_err(|source| {
                let (env, source) = (self.spec.name.clone(), Box::new(source));
                EvaluateError::Mapping { env, source }
            })?;
            let state = vec![0.0; self.actors[actor].policy.shape().state_len];
            self.players[env * n_agents + agent] = Player { actor, state, ..Player::default() };
        }
        Ok(())
    }

    /// The index of the policy that an agent plays in an episode.
    fn actor_of(&self, agent: usize, episode_seed: u64) -> Result<usize, MappingError> {
        let agent = &self.spec.agents[agent];
        let number = self.mapping.number_of(&agent.name, episode_seed, self.actors.iter().map(|actor| actor.id))?;
        let Actor { id, policy, .. } = &self.actors[number];
        let (observation, action) = (&policy.shape().obs, policy.action_space());
        let row = |space: &Space| (space.obs_len(), space.obs_dtype());
        let has_rows = row(observation) == row(&agent.observation) && observation.has_axes_of(&agent.observation);
        if has_rows && *action == agent.action {
            return Ok(number);
        }
        Err(MappingError::wrong_spaces(agent, (*id).clone(), episode_seed, (observation, action)))
    }

    /// Lets each policy act for its agents that have to, in environments with episodes `left`.
    fn act(&mut self, choice: &mut ActionSelection, left: &[usize]) -> Result<(), EvaluateError> {
        let n_agents = self.spec.agents.len();
        let Self { envs, actors, players, spec, .. } = self;
        let of_policy = |policy: &PolicyId, source| {
            let (env, policy) = (spec.name.clone(), policy.clone());
            EvaluateError::OfPolicy { env, policy, source: Box::new(source) }
        };
        actors.iter_mut().for_each(Actor::clear_rows);
        for (seat, player) in players.iter().enumerate().filter(|(seat, _)| left[seat / n_agents] > 0) {
            let (env, agent) = (seat / n_agents, seat % n_agents);
            let state = &envs.agents(env).states()[agent];
            if state.acts_next {
                let actor = &mut actors[player.actor];
                actor.add_row(seat, state.obs.view(), &player.state).map_err(|error| of_policy(actor.id, error))?;
                if let Some(mask) = actor.add_mask() {
                    envs.mask(env, agent, mask)?;
                }
            }
        }
        for actor in actors.iter_mut().filter(|actor| !actor.seats.is_empty()) {
            actor.act(choice).map_err(|error| of_policy(actor.id, error))?;
            for (row, &seat) in actor.seats.iter().enumerate() {
                let agents = envs.agents_mut(seat / n_agents);
                let set = agents.set_action(seat % n_agents, actor.action(row));
                set.map_err(|error| of_policy(actor.id, bad_row(error)))?;
                players[seat].state.copy_from_slice(actor.state(row));
            }
        }
        Ok(())
    }

    fn draw(&mut self, is_last: bool) -> Result<(), EnvFailure> {
        if self.spectator.looks() {
            let frame = self.envs.render(0)?;
            self.spectator.see(frame, is_last);
        }
        Ok(())
    }
}

impl Stage for SeveralAgents<'_, '_> {
    fn begin(&mut self) -> Result<(), EvaluateError> {
        (0..self.envs.len()).try_for_each(|env| self.reset(env))?;
        Ok(self.draw(false)?)
    }

    fn step(
        &mut self,
        choice: &mut ActionSelection,
        left: &[usize],
        ended: &mut Vec<Played>,
    ) -> Result<(), EvaluateError> {
        self.act(choice, left)?;
        let n_agents = self.spec.agents.len();
        for (env, left) in left.iter().enumerate().filter(|(_, left)| **left > 0) {
            let over = self.envs.step(env)?;
            let present = self.envs.episodes(env).stat();
            let is_cut_short = over.is_none() && present.episode_len >= self.limit;
            let over = over.or_else(|| is_cut_short.then_some(present));
            let states = self.envs.agents(env).states();
            let players = &mut self.players[env * n_agents..(env + 1) * n_agents];
            for (player, state) in players.iter_mut().zip(states) {
                player.agent_return += f64::from(state.reward);
                player.agent_len += u32::from(!player.has_ended);
                player.has_ended |= state.is_done();
            }
            let stats = over.map(|episode| {
                let acted = players.iter().zip(states).filter(|(_, state)| state.has_acted);
                let stat = |(player, state): (&Player, &AgentState)| AgentStat {
                    index: episode.index,
                    seed: episode.seed,
                    agent: state.name.clone(),
                    policy: self.actors[player.actor].id.clone(),
                    agent_return: player.agent_return,
                    agent_len: player.agent_len,
                };
                Played { episode, agents: acted.map(stat).collect(), is_cut_short }
            });
            if env == 0 {
                self.draw(stats.is_some())?;
            }
            if let Some(played) = stats {
                ended.push(played);
                if *left > 1 {
                    self.reset(env)?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> Actor<'a> {
    fn new(id: &'a PolicyId, policy: &'a mut Policy, spec: &MultiAgentSpec) -> Self {
        let action = policy.action_space();
        let masked = spec.agents.iter().any(|agent| agent.action_mask && agent.action == *action);
        let (obs, actions) = (obs_kind(&policy.shape().obs), act_kind(action));
        Self {
            id,
            policy,
            masked,
            seats: Vec::new(),
            obs: ObsColumn::zeros(obs, 0),
            state: Vec::new(),
            masks: Vec::new(),
            actions: ActionColumn::zeros(actions, 0),
        }
    }

    fn clear_rows(&mut self) {
        self.seats.clear();
        self.obs.resize(0);
        self.state.clear();
        self.masks.clear();
    }

    /// Adds the row of an agent that has to act on `obs`.
    fn add_row(&mut self, seat: usize, obs: ObsView<'_>, state: &[f32]) -> Result<(), PolicyError> {
        self.obs.append(obs).map_err(bad_row)?;
        self.seats.push(seat);
        self.state.extend_from_slice(state);
        Ok(())
    }

    /// Adds a mask, `[dist_len]`, for the row added last and returns it to be written; `None` without masks.
    fn add_mask(&mut self) -> Option<&mut [bool]> {
        if !self.masked {
            return None;
        }
        let len = self.masks.len();
        self.masks.resize(len + self.policy.action_space().dist_len(), true);
        Some(&mut self.masks[len..])
    }

    /// Selects an action for every row.
    fn act(&mut self, choice: &mut ActionSelection) -> Result<(), PolicyError> {
        let Self { policy, seats, obs, state, masks, actions, masked, .. } = self;
        actions.resize(seats.len() * policy.action_space().act_len());
        let obs = (convert::observations(obs.view()), seats.len());
        policy.act_from(state, obs, masked.then_some(masks), choice, convert::actions(actions.view_mut()))
    }

    /// The action of a row.
    fn action(&self, row: usize) -> ActionRef<'_> {
        self.actions.view().row(row, self.policy.action_space().act_len()).into()
    }

    /// The recurrent state of a row, after its action.
    fn state(&self, row: usize) -> &[f32] {
        let state_len = self.policy.shape().state_len;
        &self.state[row * state_len..(row + 1) * state_len]
    }
}

/// A row of another type or length than that of the policy's spaces.
#[cold]
fn bad_row(error: BatchError) -> PolicyError {
    PolicyError::BadSpec { reason: error.to_string() }
}
