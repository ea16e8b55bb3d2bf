use pronk_buffer::{End, ObsView};

use super::slot::{Slot, call, make_all};
use crate::env::{
    AgentSpec, AgentState, Agents, CallGuard, CallMonitor, EnvContext, EnvError, EnvFailure, EnvFailureCause,
    EpisodeStat, Episodes, FailurePlace, MultiAgentEnv, MultiAgentSpec, VectorContext, check_finite, mask,
};

/// Makes one environment.
pub(crate) type MakeOne<'a> = &'a dyn Fn(&EnvContext, &CallMonitor) -> Result<Box<dyn MultiAgentEnv>, EnvError>;

/// The environments of one worker, stepped one at a time. Errors, panics, non-finite values and broken rules
/// become an [`EnvFailure`].
pub(crate) struct MultiAgentEnvs {
    context: VectorContext,
    spec: MultiAgentSpec,
    slots: Vec<MultiAgentSlot>,
    monitor: CallMonitor,
}

/// One environment, the episode it is in, and its agents.
pub(crate) struct MultiAgentSlot {
    slot: Slot<Box<dyn MultiAgentEnv>>,
    agents: Agents,
}

impl MultiAgentEnvs {
    /// Makes `n_envs` environments. Errors as [`SerialVectorEnv::new`](crate::SerialVectorEnv::new).
    pub(crate) fn make(
        make: MakeOne<'_>,
        context: VectorContext,
        n_envs: usize,
        monitor: &CallMonitor,
    ) -> Result<Self, EnvFailure> {
        let _inside = monitor.enter(context.incarnation);
        let (spec, slots) = make_all(&context, n_envs, monitor, |env| make(env, monitor), |env| env.spec())?;
        let slots = slots.into_iter().map(|slot| MultiAgentSlot { slot, agents: Agents::new(&spec) }).collect();
        Ok(Self { context, spec, slots, monitor: monitor.clone() })
    }

    pub(crate) fn spec(&self) -> &MultiAgentSpec {
        &self.spec
    }

    /// How many environments there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn agents(&self, env: usize) -> &Agents {
        &self.slots[env].agents
    }

    pub(crate) fn agents_mut(&mut self, env: usize) -> &mut Agents {
        &mut self.slots[env].agents
    }

    /// The episodes of an environment.
    pub(crate) fn episodes(&self, env: usize) -> &Episodes {
        &self.slots[env].slot.episodes
    }

    /// Begins the next episode of an environment.
    pub(crate) fn reset(&mut self, env: usize) -> Result<(), EnvFailure> {
        let slot = &mut self.slots[env];
        let seed = slot.slot.episodes.next_seed();
        let place = FailurePlace::Reset { episode_seed: seed };
        let inside = enter(&self.monitor, &self.context, env, place);
        let result = slot.reset(seed);
        drop(inside);
        result.map_err(|cause| self.failure(env, place, cause))
    }

    /// Takes one step of an environment and returns the episode if the step ended it.
    pub(crate) fn step(&mut self, env: usize) -> Result<Option<EpisodeStat>, EnvFailure> {
        let slot = &mut self.slots[env];
        let place = slot.slot.episodes.next_place();
        let inside = enter(&self.monitor, &self.context, env, place);
        let over = slot.step(self.spec.max_episode_steps);
        drop(inside);
        match over {
            Ok(is_over) => Ok(is_over.then(|| slot.slot.episodes.stat())),
            Err(cause) => Err(self.failure(env, place, cause)),
        }
    }

    /// Writes the action mask of an agent, `[dist_len]`.
    pub(crate) fn mask(&self, env: usize, agent: usize, mask: &mut [bool]) -> Result<(), EnvFailure> {
        let place = self.episodes(env).mask_place();
        let _inside = enter(&self.monitor, &self.context, env, place);
        self.slots[env].mask(agent, &self.spec, mask).map_err(|cause| self.failure(env, place, cause))
    }

    #[cold]
    fn failure(&self, env: usize, place: FailurePlace, cause: EnvFailureCause) -> EnvFailure {
        EnvFailure { env: self.spec.name.clone(), ..self.context.failure(None, env as u32, place, cause) }
    }
}

/// Reports a call to the monitor; it ends when the guard is dropped.
fn enter<'a>(monitor: &'a CallMonitor, context: &VectorContext, env: usize, place: FailurePlace) -> CallGuard<'a> {
    monitor.at(env as u32, place);
    monitor.enter(context.incarnation)
}

impl MultiAgentSlot {
    pub(crate) fn new(env: Box<dyn MultiAgentEnv>, spec: &MultiAgentSpec) -> Self {
        Self { slot: Slot { env, episodes: Episodes::new(EnvContext::default()) }, agents: Agents::new(spec) }
    }

    pub(crate) fn env(&self) -> &dyn MultiAgentEnv {
        self.slot.env.as_ref()
    }

    pub(crate) fn agents(&self) -> &Agents {
        &self.agents
    }

    pub(crate) fn agents_mut(&mut self) -> &mut Agents {
        &mut self.agents
    }

    /// Begins the episode of a seed.
    pub(crate) fn reset(&mut self, seed: u64) -> Result<(), EnvFailureCause> {
        self.slot.episodes.begin_with(seed);
        self.agents.begin_episode();
        call(|| self.slot.env.reset(seed, &mut self.agents))?;
        check_agents(&self.agents)?;
        self.check_going_on()
    }

    /// Takes one step and returns whether it ended the episode.
    pub(crate) fn step(&mut self, max_episode_steps: Option<u32>) -> Result<bool, EnvFailureCause> {
        self.agents.begin_step();
        call(|| self.slot.env.step(&mut self.agents))?;
        check_agents(&self.agents)?;
        let reward = self.agents.states().iter().map(|agent| f64::from(agent.reward)).sum();
        if self.slot.episodes.add(reward, max_episode_steps) {
            self.agents.truncate_remaining();
        }
        check_truncated(&self.agents)?;
        if self.agents.states().iter().all(AgentState::is_done) {
            return Ok(true);
        }
        self.check_going_on()?;
        Ok(false)
    }

    /// Writes the action mask of an agent that acts next.
    pub(crate) fn mask(&self, agent: usize, spec: &MultiAgentSpec, mask: &mut [bool]) -> Result<(), EnvFailureCause> {
        mask.fill(true);
        let AgentSpec { action, action_mask, .. } = &spec.agents[agent];
        if !action_mask {
            return Ok(());
        }
        call(|| self.slot.env.action_mask(agent, mask))
            .and_then(|()| mask::check(mask, action))
            .map_err(|cause| of_agent(&spec.agents[agent].name, cause))
    }

    /// An episode in which no agent acts next would never continue.
    fn check_going_on(&self) -> Result<(), EnvFailureCause> {
        let agents = self.agents.states();
        if agents.iter().any(|agent| agent.acts_next) {
            return Ok(());
        }
        let waiting: Vec<_> =
            agents.iter().filter(|agent| !agent.is_done()).map(|agent| format!("`{}`", agent.name)).collect();
        let text = format!(
            "no agent is asked to act, and {} did not end, so the episode would never continue: ask an agent in every \
             step, or end the episode for all",
            waiting.join(", ")
        );
        Err(EnvFailureCause::Error(EnvError::new(text)))
    }
}

#[cold]
fn of_agent(agent: &str, cause: EnvFailureCause) -> EnvFailureCause {
    EnvFailureCause::OfAgent { agent: agent.to_owned(), cause: Box::new(cause) }
}

/// Checks the observations and rewards of the last call.
fn check_agents(agents: &Agents) -> Result<(), EnvFailureCause> {
    for agent in agents.states() {
        if agent.obs_written
            && let ObsView::F32(row) = agent.obs.view()
            && let Err(cause) = check_finite(row)
        {
            return Err(of_agent(&agent.name, cause));
        }
        if !agent.reward.is_finite() {
            return Err(of_agent(&agent.name, EnvFailureCause::NonFiniteReward { value: agent.reward }));
        }
    }
    Ok(())
}

/// Checks that truncated agents have a final observation.
fn check_truncated(agents: &Agents) -> Result<(), EnvFailureCause> {
    let has_no_final_obs =
        |agent: &&AgentState| agent.end == End::Truncated && agent.has_acted && !agent.obs_is_current;
    match agents.states().iter().find(has_no_final_obs) {
        None => Ok(()),
        Some(agent) => {
            let text = "it is truncated, but was shown no observation since it last acted, so its value cannot be \
                        bootstrapped: in environments with a time limit, call `show` for agents that wait";
            Err(of_agent(&agent.name, EnvFailureCause::Error(EnvError::new(text))))
        }
    }
}
