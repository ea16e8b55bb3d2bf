use pronk_buffer::{ActionColumn, End, ObsView};
use pronk_metrics::catch;
use serde::{Deserialize, Serialize};

use super::keeps::Keeps;
use super::slot::{Slot, call, make_all};
use crate::env::{
    AgentSpec, AgentState, Agents, CallGuard, CallMonitor, EnvContext, EnvError, EnvFailure, EnvFailureCause,
    EpisodeStat, Episodes, FailurePlace, Frame, MultiAgentEnv, MultiAgentSpec, Restarted, SavedEpisodes, VectorContext,
    check_finite, mask,
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
    /// For checkpoints: of each agent, the actions of the running episode.
    keeps: Keeps<Vec<ActionColumn>>,
}

/// Where the environments of a worker with several agents are, for a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedAgentsEnvs(Vec<SavedAgentsEnv>);

/// Where one of them is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedAgentsEnv {
    episodes: SavedEpisodes,
    way: AgentsWay,
    /// What the library knows of its agents.
    agents: Vec<AgentState>,
}

impl SavedAgentsEnv {
    /// Whether the environment saved its own state.
    pub(crate) fn is_snapshot(&self) -> bool {
        matches!(self.way, AgentsWay::Snapshot(_))
    }
}

/// How it gets back there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum AgentsWay {
    Snapshot(Vec<u8>),
    /// By the actions of each agent.
    Rerun(Vec<ActionColumn>),
    Unknown,
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
        let slot = |slot| MultiAgentSlot { slot, agents: Agents::new(&spec), keeps: Keeps::Nothing };
        let slots = slots.into_iter().map(slot).collect();
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

    /// Keeps from now on what [`save`](Self::save) needs.
    pub(crate) fn keep_for_save(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.keeps = Keeps::Undecided);
    }

    /// Where all of them are, between two steps.
    pub(crate) fn save(&mut self) -> Result<SavedAgentsEnvs, EnvFailure> {
        let mut saved = Vec::with_capacity(self.slots.len());
        for (env, slot) in self.slots.iter_mut().enumerate() {
            let place = slot.slot.episodes.place();
            let inside = enter(&self.monitor, &self.context, env, place);
            let position = slot.save();
            drop(inside);
            match position {
                Ok(position) => saved.push(position),
                Err(cause) => return Err(self.failure(env, place, cause)),
            }
        }
        Ok(SavedAgentsEnvs(saved))
    }

    /// Brings environments that were just made to where saved ones were; returns those that began a new
    /// episode instead.
    pub(crate) fn load(&mut self, SavedAgentsEnvs(saved): &SavedAgentsEnvs) -> Result<Vec<Restarted>, EnvFailure> {
        if saved.len() != self.slots.len() {
            let text = format!("{} positions are saved for {} environments", saved.len(), self.slots.len());
            return Err(self.failure(0, FailurePlace::Make, EnvFailureCause::Error(EnvError::new(text))));
        }
        let mut restarted = Vec::new();
        for (env, saved) in saved.iter().enumerate() {
            let slot = &mut self.slots[env];
            let place = FailurePlace::Reset { episode_seed: saved.episodes.seed };
            let inside = enter(&self.monitor, &self.context, env, place);
            let back = slot.go_back(saved, self.spec.max_episode_steps);
            drop(inside);
            if let Err(why) = back {
                slot.slot.episodes.load(saved.episodes);
                self.reset(env)?;
                restarted.push(Restarted { index: self.context.first_env + env as u32, why });
            }
        }
        Ok(restarted)
    }

    /// Writes the action mask of an agent, `[dist_len]`.
    pub(crate) fn mask(&self, env: usize, agent: usize, mask: &mut [bool]) -> Result<(), EnvFailure> {
        let place = self.episodes(env).mask_place();
        let _inside = enter(&self.monitor, &self.context, env, place);
        self.slots[env].mask(agent, &self.spec, mask).map_err(|cause| self.failure(env, place, cause))
    }

    /// Draws the present state of an environment; `None` if it draws nothing.
    pub(crate) fn render(&mut self, env: usize) -> Result<Option<Frame>, EnvFailure> {
        let place = self.episodes(env).render_place();
        let inside = enter(&self.monitor, &self.context, env, place);
        let drawn = call(|| self.slots[env].slot.env.render());
        drop(inside);
        drawn.map_err(|cause| self.failure(env, place, cause))
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
        Self { slot: Slot::new(env, EnvContext::default()), agents: Agents::new(spec), keeps: Keeps::Nothing }
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
        let Self { slot, agents, keeps } = self;
        let nothing = || vec![ActionColumn::U32(Vec::new()); agents.states().len()];
        keeps.begin(|| catch(|| slot.env.save()).is_ok_and(|state| state.is_some()), nothing);
        check_agents(&self.agents)?;
        self.check_going_on()
    }

    /// Takes one step and returns whether it ended the episode.
    pub(crate) fn step(&mut self, max_episode_steps: Option<u32>) -> Result<bool, EnvFailureCause> {
        self.agents.begin_step();
        if let Some(played) = self.keeps.actions(self.slot.episodes.save().len) {
            for (agent, played) in played.iter_mut().enumerate().filter(|(agent, _)| self.agents.acts(*agent)) {
                let appended = played.append(self.agents.last_action(agent).view());
                appended.map_err(|error| EnvFailureCause::Error(EnvError::new(error)))?;
            }
        }
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

    /// Where it is, between two steps.
    pub(crate) fn save(&mut self) -> Result<SavedAgentsEnv, EnvFailureCause> {
        let snapshot = catch(|| self.slot.env.save()).map_err(EnvFailureCause::Panic)?;
        let episodes = self.slot.episodes.save();
        let way = match (snapshot, self.keeps.all_actions(episodes.len)) {
            (Some(state), _) => AgentsWay::Snapshot(state),
            (None, Some(actions)) => AgentsWay::Rerun(actions.clone()),
            (None, None) => AgentsWay::Unknown,
        };
        Ok(SavedAgentsEnv { episodes, way, agents: self.agents.states().to_vec() })
    }

    /// Gets back to where a saved one was; says why, if it cannot.
    pub(crate) fn go_back(&mut self, saved: &SavedAgentsEnv, max_episode_steps: Option<u32>) -> Result<(), String> {
        match &saved.way {
            AgentsWay::Unknown => return Err(saved.episodes.why_unknown()),
            AgentsWay::Snapshot(state) => {
                call(|| self.slot.env.load(state)).map_err(|cause| cause.to_string())?;
                self.keeps.begin(|| true, Vec::new);
                self.agents.restore(&saved.agents)?;
                self.check_going_on().map_err(|cause| cause.to_string())?;
            }
            AgentsWay::Rerun(actions) => {
                self.play_again(saved.episodes, actions, max_episode_steps)?;
                let is_there = |(agent, saved): (&AgentState, &AgentState)| agent.is_where(saved);
                if !self.agents.states().iter().zip(&saved.agents).all(is_there) {
                    let len = saved.episodes.len;
                    return Err(format!("played again, its episode led to other observations after {len} steps"));
                }
                let (sum, before) = (self.slot.episodes.save().sum, saved.episodes.sum);
                if sum.to_bits() != before.to_bits() {
                    return Err(format!("played again, its episode led to a return of {sum} instead of {before}"));
                }
            }
        }
        self.slot.episodes.load(saved.episodes);
        Ok(())
    }

    fn play_again(
        &mut self,
        episodes: SavedEpisodes,
        actions: &[ActionColumn],
        max_episode_steps: Option<u32>,
    ) -> Result<(), String> {
        if actions.len() != self.agents.states().len() {
            return Err(format!("it has the actions of {} agents", actions.len()));
        }
        self.reset(episodes.seed).map_err(|cause| cause.to_string())?;
        let mut played = vec![0; actions.len()];
        for step in 1..=episodes.len {
            for (agent, (actions, played)) in actions.iter().zip(&mut played).enumerate() {
                if !self.agents.states()[agent].acts_next {
                    continue;
                }
                let act_len = self.agents.last_action(agent).view().len();
                if (*played + 1) * act_len > actions.view().len() {
                    return Err(format!("played again, an agent was asked once more than before in step {step}"));
                }
                let action = actions.view().row(*played, act_len);
                *played += 1;
                self.agents.set_action(agent, action.into()).map_err(|error| error.to_string())?;
            }
            if self.step(max_episode_steps).map_err(|cause| format!("step {step}: {cause}"))? {
                return Err(format!("played again, its episode ended with step {step}"));
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pronk_buffer::ObsColumn;

    use super::*;
    use crate::envs::TicTacToe;

    #[test]
    fn a_way_back_to_where_no_agents_can_be_is_refused() {
        let spec = TicTacToe::new().spec();
        let slot = || MultiAgentSlot::new(Box::new(TicTacToe::new()), &spec);
        let mut played = slot();
        played.reset(7).unwrap();
        let saved = played.save().unwrap();
        slot().go_back(&saved, None).unwrap();
        let forged: [fn(&mut SavedAgentsEnv); 5] = [
            |saved| drop(saved.agents.pop()),
            |saved| saved.agents[0].name.clear(),
            |saved| saved.agents[0].obs = ObsColumn::F32(Vec::new()),
            |saved| saved.agents.iter_mut().for_each(|agent| agent.acts_next = false),
            |saved| saved.way = AgentsWay::Rerun(Vec::new()),
        ];
        for (n, forge) in forged.into_iter().enumerate() {
            let mut forged = saved.clone();
            forge(&mut forged);
            assert!(slot().go_back(&forged, None).is_err(), "{n}");
        }
    }
}
