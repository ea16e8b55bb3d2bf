use pronk_buffer::{ActionColumn, BatchError, End, ObsColumn};
use serde::{Deserialize, Serialize};

use super::error::EnvError;
use super::multi_agent_spec::{AgentSpec, MultiAgentSpec};
use super::views::{ActionRef, ObsMut, act_kind, obs_kind};

/// The agents of an environment, numbered as in [`MultiAgentSpec::agents`]: a step reads their actions here
/// and writes their observations, rewards and ends. An agent that it does not mention earns 0, continues, and
/// does not act next.
///
/// ```
/// use pronk_rollout::{Agents, EnvError};
///
/// /// A step of a game of tag: both run; when the runner is caught, the episode ends for both.
/// fn step(positions: &mut [f32; 2], agents: &mut Agents) -> Result<(), EnvError> {
///     for agent in 0..2 {
///         positions[agent] += agents.action(agent)?.continuous()?[0];
///         agents.reward(agent, -0.01)?;
///     }
///     for agent in 0..2 {
///         agents.ask(agent)?.write(&[positions[agent], positions[1 - agent]])?;
///     }
///     if (positions[0] - positions[1]).abs() < 0.1 {
///         agents.reward(0, 1.0)?;
///         agents.terminate_all()?;
///     }
///     Ok(())
/// }
/// # let _ = step;
/// ```
#[derive(Debug)]
pub struct Agents {
    agents: Vec<AgentState>,
    /// Whether the environment is in `reset`, where no agent can earn or end.
    in_reset: bool,
}

/// One agent, as the library sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentState {
    pub(crate) name: String,
    pub(crate) obs: ObsColumn,
    action: ActionColumn,
    acts_now: bool,
    pub(crate) acts_next: bool,
    /// Whether this step wrote `obs`.
    pub(crate) obs_written: bool,
    /// Whether `obs` was written since the agent last acted.
    pub(crate) obs_is_current: bool,
    /// Whether it has acted in this episode.
    pub(crate) has_acted: bool,
    /// The reward of this step.
    pub(crate) reward: f32,
    /// How this step ends the agent's episode.
    pub(crate) end: End,
    /// Whether an earlier step ended it.
    has_ended: bool,
}

impl Agents {
    pub(crate) fn new(spec: &MultiAgentSpec) -> Self {
        Self { agents: spec.agents.iter().map(AgentState::new).collect(), in_reset: false }
    }

    /// Whether the agent acts in this step.
    pub fn acts(&self, agent: usize) -> bool {
        self.agents.get(agent).is_some_and(|state| state.acts_now)
    }

    /// Whether the agent's episode has ended, in this step or before.
    pub fn has_ended(&self, agent: usize) -> bool {
        self.agents.get(agent).is_some_and(AgentState::is_done)
    }

    /// The action of the agent in this step, `[act_len]`. An error if it does not act in this step.
    #[inline]
    pub fn action(&self, agent: usize) -> Result<ActionRef<'_>, EnvError> {
        match self.agents.get(agent) {
            Some(state) if state.acts_now => Ok(state.action.view().into()),
            Some(state) => Err(state.error("does not act in this step, since the step before did not ask it to")),
            None => Err(self.no_agent(agent)),
        }
    }

    /// Asks the agent to act in the next step: write its observation, `[obs_len]`, into the returned row. An
    /// error if the agent has ended.
    #[inline]
    pub fn ask(&mut self, agent: usize) -> Result<ObsMut<'_>, EnvError> {
        let state = self.state(agent)?;
        if state.is_done() {
            return Err(state.error("is asked to act after its end"));
        }
        state.acts_next = true;
        Ok(state.write())
    }

    /// Shows the agent an observation without asking it to act: write the whole returned row. An error if the
    /// agent ended in an earlier step.
    ///
    /// A truncated agent needs an observation since it last acted, from this or [`ask`](Self::ask), to
    /// bootstrap from.
    #[inline]
    pub fn show(&mut self, agent: usize) -> Result<ObsMut<'_>, EnvError> {
        Ok(self.active(agent, "is shown an observation after its end")?.write())
    }

    /// Adds to the agent's reward of this step, which belongs to its last action; before the first one it
    /// counts in the episode's return only. An error in a reset, and if the agent ended in an earlier step.
    #[inline]
    pub fn reward(&mut self, agent: usize, reward: f32) -> Result<(), EnvError> {
        if self.in_reset {
            return Err(EnvError::new(format!("agent {agent} is rewarded in a reset, before any agent acted")));
        }
        self.active(agent, "is rewarded after its end")?.reward += reward;
        Ok(())
    }

    /// Terminates the agent's episode, even if it was asked to act. An error in a reset, and if the agent
    /// ended in an earlier step.
    pub fn terminate(&mut self, agent: usize) -> Result<(), EnvError> {
        self.end(agent, End::Terminated)
    }

    /// Truncates the agent's episode at its last observation. Errors as [`terminate`](Self::terminate).
    pub fn truncate(&mut self, agent: usize) -> Result<(), EnvError> {
        self.end(agent, End::Truncated)
    }

    /// [Terminates](Self::terminate) all agents that have not ended. An error in a reset.
    pub fn terminate_all(&mut self) -> Result<(), EnvError> {
        self.end_all(End::Terminated)
    }

    /// [Truncates](Self::truncate) all agents that have not ended. An error in a reset.
    pub fn truncate_all(&mut self) -> Result<(), EnvError> {
        self.end_all(End::Truncated)
    }

    fn end_all(&mut self, end: End) -> Result<(), EnvError> {
        for agent in 0..self.agents.len() {
            if !self.has_ended(agent) {
                self.end(agent, end)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, agent: usize, end: End) -> Result<(), EnvError> {
        let in_reset = self.in_reset;
        let state = self.active(agent, "ends a second time")?;
        if in_reset {
            return Err(state.error("ends in the reset, before it could take a step"));
        }
        state.end = end;
        state.acts_next = false;
        Ok(())
    }

    fn state(&mut self, agent: usize) -> Result<&mut AgentState, EnvError> {
        if agent >= self.agents.len() {
            return Err(self.no_agent(agent));
        }
        Ok(&mut self.agents[agent])
    }

    fn active(&mut self, agent: usize, what: &str) -> Result<&mut AgentState, EnvError> {
        let state = self.state(agent)?;
        if state.has_ended { Err(state.error(what)) } else { Ok(state) }
    }

    #[cold]
    fn no_agent(&self, agent: usize) -> EnvError {
        EnvError::new(format!(
            "there is no agent {agent}: they are numbered from 0, and there are {}",
            self.agents.len()
        ))
    }
}

/// The library's side.
impl Agents {
    pub(crate) fn begin_episode(&mut self) {
        self.in_reset = true;
        for state in &mut self.agents {
            (state.acts_now, state.acts_next, state.obs_is_current) = (false, false, false);
            (state.has_acted, state.has_ended) = (false, false);
            state.clear_step();
        }
    }

    /// Begins a step, in which the agents act that the step before asked to.
    pub(crate) fn begin_step(&mut self) {
        self.in_reset = false;
        for state in &mut self.agents {
            state.has_ended |= state.end != End::No;
            state.acts_now = std::mem::take(&mut state.acts_next);
            state.obs_is_current &= !state.acts_now;
            state.has_acted |= state.acts_now;
            state.clear_step();
        }
    }

    pub(crate) fn states(&self) -> &[AgentState] {
        &self.agents
    }

    /// Replaces what is known of the agents, between two steps of an episode. An error for other agents: a
    /// file may hold any.
    pub(crate) fn restore(&mut self, agents: &[AgentState]) -> Result<(), String> {
        let shape = |state: &AgentState| {
            let (obs, action) = (state.obs.view(), state.action.view());
            (state.name.clone(), obs.kind(), obs.len(), action.kind(), action.len())
        };
        if !self.agents.iter().map(shape).eq(agents.iter().map(shape)) {
            return Err("what is saved is of other agents".to_owned());
        }
        (self.agents, self.in_reset) = (agents.to_vec(), false);
        Ok(())
    }

    /// The action of an agent, whether it acts or not.
    pub(crate) fn last_action(&self, agent: usize) -> ActionRef<'_> {
        self.agents[agent].action.view().into()
    }

    /// Sets its action in the next step; an error for another element type or length than that of its space.
    pub(crate) fn set_action(&mut self, agent: usize, action: ActionRef<'_>) -> Result<(), BatchError> {
        self.agents[agent].action.view_mut().copy_from(action.view())
    }

    /// The observation rows of all agents.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = ObsMut<'_>> {
        self.agents.iter_mut().map(|state| state.obs.view_mut().into())
    }

    /// Truncates all agents that have not ended.
    pub(crate) fn truncate_remaining(&mut self) {
        for state in self.agents.iter_mut().filter(|state| !state.is_done()) {
            state.end = End::Truncated;
            state.acts_next = false;
        }
    }
}

impl AgentState {
    /// Whether both will go on alike. Rows of earlier episodes stay until they are written again, but nobody
    /// looks at them.
    pub(crate) fn is_where(&self, other: &Self) -> bool {
        let flags = |state: &Self| {
            (state.acts_next, state.obs_is_current, state.has_acted, state.end, state.has_ended, state.reward.to_bits())
        };
        flags(self) == flags(other) && (!self.obs_is_current || self.obs == other.obs)
    }

    fn new(spec: &AgentSpec) -> Self {
        Self {
            name: spec.name.clone(),
            obs: ObsColumn::zeros(obs_kind(&spec.observation), spec.observation.obs_len()),
            action: ActionColumn::zeros(act_kind(&spec.action), spec.action.act_len()),
            acts_now: false,
            acts_next: false,
            obs_written: false,
            obs_is_current: false,
            has_acted: false,
            reward: 0.0,
            end: End::No,
            has_ended: false,
        }
    }

    /// Whether its episode has ended, in the last step or before.
    pub(crate) fn is_done(&self) -> bool {
        self.has_ended || self.end != End::No
    }

    fn write(&mut self) -> ObsMut<'_> {
        (self.obs_written, self.obs_is_current) = (true, true);
        self.obs.view_mut().into()
    }

    fn clear_step(&mut self) {
        (self.obs_written, self.reward, self.end) = (false, 0.0, End::No);
    }

    #[cold]
    fn error(&self, what: &str) -> EnvError {
        EnvError::new(format!("agent `{}` {what}", self.name))
    }
}
