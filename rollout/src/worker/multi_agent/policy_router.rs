use pronk_buffer::{BatchError, End, Fold, MultiAgentBatch, Pool, Tag, Versioned};
use pronk_metrics::{ByPolicy, PolicyId, StateClock, Steps};
use pronk_policy::{Params, Space};

use crate::act::{ActionSampler, MappingError, PolicyActor, PolicyMapping, SavedColumn, WorkerPolicy};
use crate::env::{AgentSpec, MultiAgentSpec, ReturnStat};
use crate::vector::MultiAgentEnvs;
use crate::worker::account::{Account, RESUME};
use crate::worker::seat_state::SavedPlayer;
use crate::worker::{BuildError, SampleError, WorkerState};

/// Routes each agent to the policy that it plays, and its steps, rewards and ends to that policy's columns.
///
/// Agents are numbered across the environments: seat `env * n_agents + agent`.
pub(super) struct PolicyRouter {
    mapping: PolicyMapping,
    spec: MultiAgentSpec,
    /// Ordered by name.
    actors: Vec<PolicyActor>,
    /// `[seats]`.
    players: Vec<Player>,
}

/// An agent of an environment, in its episode.
#[derive(Default)]
struct Player {
    /// The index of the policy that it plays.
    actor: usize,
    /// `[state_len]` of that policy: recurrent state.
    state: Vec<f32>,
    /// Undiscounted.
    episode_return: f64,
}

impl PolicyRouter {
    /// Checks the policies against the agents of the environments; columns have `length` steps.
    pub(super) fn new(
        policies: ByPolicy<WorkerPolicy>,
        mapping: PolicyMapping,
        envs: &MultiAgentEnvs,
        length: usize,
        (account, seed): (&Account, u64),
    ) -> Result<Self, BuildError> {
        let spec = envs.spec().clone();
        let masked = |action: &Space| spec.agents.iter().any(|agent| agent.action_mask && agent.action == *action);
        let n_seats = envs.len() * spec.agents.len();
        let mut actors = Vec::with_capacity(policies.len());
        for (number, (id, policy)) in policies.into_iter().enumerate() {
            let masked = masked(&policy.action);
            actors.push(PolicyActor::new(
                id,
                policy,
                masked,
                (length, n_seats),
                account.acting_stream(seed, number as u64),
            )?);
        }
        if !actors.iter().any(PolicyActor::is_trained) {
            return Err(BuildError::NothingTrained { frozen: actors.len() });
        }
        let router = Self { mapping, spec, actors, players: (0..n_seats).map(|_| Player::default()).collect() };
        for env in 0..envs.len() {
            for agent in 0..router.spec.agents.len() {
                router.actor_of(agent, envs.episodes(env).next_seed())?;
            }
        }
        Ok(router)
    }

    /// Begins the random streams of a fragment.
    pub(super) fn begin(&mut self, account: &Account, seed: u64) {
        for (number, actor) in (0..).zip(&mut self.actors) {
            actor.draw_from(account.acting_stream(seed, number));
        }
    }

    /// Begins the next episode of an environment, and maps its agents to policies.
    pub(super) fn reset(&mut self, env: usize, envs: &mut MultiAgentEnvs) -> Result<(), SampleError> {
        envs.reset(env)?;
        self.map_agents(env, envs).map_err(|error| SampleError::Policy(error.into()))
    }

    /// Maps the agents of an episode that has just begun.
    fn map_agents(&mut self, env: usize, envs: &MultiAgentEnvs) -> Result<(), MappingError> {
        let n_agents = self.spec.agents.len();
        for agent in 0..n_agents {
            let actor = self.actor_of(agent, envs.episodes(env).seed())?;
            let state_len = self.actors[actor].acting().state_len();
            let player = &mut self.players[env * n_agents + agent];
            player.actor = actor;
            player.state.clear();
            player.state.resize(state_len, 0.0);
            player.episode_return = 0.0;
        }
        Ok(())
    }

    /// The agents in their episodes, and the columns of each policy, for a checkpoint.
    pub(super) fn save(&mut self) -> (Vec<SavedPlayer>, Vec<Vec<SavedColumn>>) {
        let player = |player: &Player| SavedPlayer {
            actor: player.actor,
            state: player.state.clone(),
            episode_return: player.episode_return,
        };
        let columns = self.actors.iter_mut().map(|actor| actor.columns().map(|it| it.save()).unwrap_or_default());
        let columns = columns.collect();
        (self.players.iter().map(player).collect(), columns)
    }

    /// Continues with saved ones. An error says how they do not fit: a damaged or forged file may hold any.
    pub(super) fn load(
        &mut self,
        account: &Account,
        players: &[SavedPlayer],
        columns: &[Vec<SavedColumn>],
    ) -> Result<(), String> {
        if players.len() != self.players.len() || columns.len() != self.actors.len() {
            return Err(format!("it has {} agents and {} policies", players.len(), columns.len()));
        }
        for (agent, player) in self.spec.agents.iter().cycle().zip(players) {
            let Some(acting) = self.actors.get(player.actor).map(PolicyActor::acting) else {
                return Err(format!("agent `{}` plays policy {}, and there is none", agent.name, player.actor));
            };
            if !has_spaces(acting, agent) || player.state.len() != acting.state_len() {
                return Err(format!("agent `{}` plays a policy with other spaces or state", agent.name));
            }
        }
        let agent = columns.iter().flatten().map(SavedColumn::begun).sum();
        account.check_columns(Steps { env: 0, agent })?;
        for (own, saved) in self.players.iter_mut().zip(players) {
            let SavedPlayer { actor, state, episode_return } = saved.clone();
            *own = Player { actor, state, episode_return };
        }
        for (actor, saved) in self.actors.iter_mut().zip(columns) {
            if let Some(columns) = actor.columns() {
                columns.load(saved)?;
            }
        }
        Ok(())
    }

    /// Begins an episode of an environment that could not get back into the saved one: what its agents had in
    /// incomplete columns is lost.
    pub(super) fn begin_anew(
        &mut self,
        env: usize,
        envs: &MultiAgentEnvs,
        account: &mut Account,
    ) -> Result<(), BuildError> {
        let n_agents = self.spec.agents.len();
        let mut lost = 0;
        for seat in env * n_agents..(env + 1) * n_agents {
            for columns in self.actors.iter_mut().filter_map(PolicyActor::columns) {
                lost += columns.begun(seat) as u64;
                columns.forget(seat);
            }
        }
        account.lose(Steps { env: 0, agent: lost }, RESUME);
        Ok(self.map_agents(env, envs)?)
    }

    /// Runs one inference per policy for all agents that have to act, and sets their actions.
    pub(super) fn act(
        &mut self,
        envs: &mut MultiAgentEnvs,
        weights: &Versioned<ByPolicy<Params>>,
        clock: &mut StateClock<WorkerState>,
    ) -> Result<(), SampleError> {
        clock.enter(WorkerState::Stepping);
        let n_agents = self.spec.agents.len();
        let Self { actors, players, .. } = self;
        actors.iter_mut().for_each(PolicyActor::clear_rows);
        for (seat, player) in players.iter().enumerate() {
            let (env, agent) = (seat / n_agents, seat % n_agents);
            let state = &envs.agents(env).states()[agent];
            if state.acts_next {
                let actor = &mut actors[player.actor];
                actor.add_row(seat, state.obs.view(), &player.state)?;
                if let Some(mask) = actor.add_mask() {
                    envs.mask(env, agent, mask)?;
                }
            }
        }
        clock.enter(WorkerState::Inferring);
        for actor in actors {
            actor.infer(weights, n_agents)?;
            actor.complete()?;
            actor.choose()?;
            actor.actions(|seat, action| envs.agents_mut(seat / n_agents).set_action(seat % n_agents, action))?;
            actor.states(|seat, state| players[seat].state.copy_from_slice(state));
        }
        Ok(())
    }

    /// Takes one step of an environment, and begins its next episode if this one is over.
    pub(super) fn step(
        &mut self,
        env: usize,
        envs: &mut MultiAgentEnvs,
        account: &mut Account,
    ) -> Result<(), SampleError> {
        let over = envs.step(env)?;
        let agents = envs.agents(env);
        let mut made = Steps { env: 1, agent: 0 };
        let n_agents = agents.states().len();
        let players = &mut self.players[env * n_agents..(env + 1) * n_agents];
        for (agent, (player, state)) in players.iter_mut().zip(agents.states()).enumerate() {
            let seat = env * n_agents + agent;
            let actor = &mut self.actors[player.actor];
            if agents.acts(agent) {
                match actor.is_trained() {
                    true => made.agent += 1,
                    false => account.add_untrained(1),
                }
            }
            let (reward, end) = (state.reward, state.end);
            player.episode_return += f64::from(reward);
            if let Some(columns) = actor.columns() {
                columns.pay(seat, reward);
            }
            if end == End::No {
                continue;
            }
            if let Some(columns) = actor.columns() {
                columns.end(seat, end, state.obs.view())?;
            }
            player.state.fill(0.0);
            if state.has_acted {
                let one = ReturnStat::of(player.episode_return);
                account
                    .collected
                    .policy_returns
                    .entry(actor.id().clone())
                    .and_modify(|all| all.fold(one))
                    .or_insert(one);
            }
        }
        account.add(made);
        if let Some(episode) = over {
            account.collected.episodes.push(episode);
            self.reset(env, envs)?;
        }
        Ok(())
    }

    /// Names of the trained policies.
    pub(super) fn trained(&self) -> impl Iterator<Item = &PolicyId> {
        self.actors.iter().filter(|actor| actor.is_trained()).map(PolicyActor::id)
    }

    /// Whether a trained policy has a full column, or one that lacks only its last row.
    pub(super) fn has_full_column(&mut self, envs: &MultiAgentEnvs) -> bool {
        self.actors.iter_mut().filter_map(PolicyActor::columns).any(|columns| columns.n_full() > 0)
            || (0..self.players.len()).any(|seat| self.lacks_the_last_row(seat, envs))
    }

    /// Adds the last row, with its value, to the columns that lack nothing else.
    pub(super) fn close(
        &mut self,
        envs: &MultiAgentEnvs,
        weights: &Versioned<ByPolicy<Params>>,
    ) -> Result<(), SampleError> {
        let n_agents = self.spec.agents.len();
        self.actors.iter_mut().for_each(PolicyActor::clear_rows);
        for seat in 0..self.players.len() {
            if self.lacks_the_last_row(seat, envs) {
                let player = &self.players[seat];
                let obs = envs.agents(seat / n_agents).states()[seat % n_agents].obs.view();
                self.actors[player.actor].add_row(seat, obs, &player.state)?;
            }
        }
        for actor in &mut self.actors {
            actor.infer(weights, n_agents)?;
            actor.complete()?;
        }
        Ok(())
    }

    /// Moves all full columns into a batch.
    pub(super) fn take_batch(&mut self, pool: &Pool, tag: Tag, env_steps: u64) -> Result<MultiAgentBatch, BatchError> {
        let mut batches = ByPolicy::new();
        for actor in &mut self.actors {
            if let Some(batch) = actor.take_batch(usize::MAX, pool, tag)? {
                batches.insert(actor.id().clone(), batch);
            }
        }
        MultiAgentBatch::new(batches, env_steps)
    }

    /// Discards all columns.
    pub(super) fn forget(&mut self) {
        self.actors.iter_mut().filter_map(PolicyActor::columns).for_each(|columns| columns.clear());
    }

    /// Whether the agent's column lacks only the observation that the agent has to act on next.
    fn lacks_the_last_row(&mut self, seat: usize, envs: &MultiAgentEnvs) -> bool {
        let n_agents = self.spec.agents.len();
        let actor = &mut self.actors[self.players[seat].actor];
        envs.agents(seat / n_agents).states()[seat % n_agents].acts_next
            && actor.columns().is_some_and(|columns| columns.lacks_the_last_row(seat))
    }

    /// The index of the policy that an agent plays in an episode.
    fn actor_of(&self, agent: usize, episode_seed: u64) -> Result<usize, MappingError> {
        let agent = &self.spec.agents[agent];
        let number = self.mapping.number_of(&agent.name, episode_seed, self.actors.iter().map(PolicyActor::id))?;
        let acting = self.actors[number].acting();
        if has_spaces(acting, agent) {
            return Ok(number);
        }
        let (policy, spaces) = (self.actors[number].id().clone(), (acting.observation(), acting.action()));
        Err(MappingError::wrong_spaces(agent, policy, episode_seed, spaces))
    }
}

/// Whether a policy can act for an agent.
fn has_spaces(acting: &ActionSampler, agent: &AgentSpec) -> bool {
    acting.observation().has_elements_of(&agent.observation) && *acting.action() == agent.action
}
