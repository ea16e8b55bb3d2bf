use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_policy::Rng;

use super::error::{EnvCheckError, EnvFault};
use super::instance::{Difference, Instance};
use super::play::{Action, check_space, end_difference, hash_obs, mask_difference, obs_difference, reward_difference};
use super::rules::{check_episodes, checked_spec};
use super::unwritten::Background;
use crate::env::{AgentState, EnvError, EnvFailureCause, MultiAgentEnv, MultiAgentSpec};
use crate::vector::{MultiAgentSlot, SavedAgentsEnv};

/// Plays a few episodes with random possible actions and reports the first rule that the environment breaks.
///
/// It checks for every agent what [`check_env`](crate::check_env) checks for one, and also that
/// - no agent is asked to act, shown an observation or rewarded after its end;
/// - some agent is asked to act in every step that does not end the episode;
/// - a truncated agent has been shown a final observation.
///
/// Each episode is played twice, so allow for its time.
///
/// # Errors
/// [`EnvCheckError`] names the rule, the agent, the episode seed and the step.
///
/// ```
/// use pronk_rollout::{Rendezvous, check_multi_agent_env};
///
/// check_multi_agent_env(Rendezvous::new(), 0)?;
/// # Ok::<(), pronk_rollout::EnvCheckError>(())
/// ```
pub fn check_multi_agent_env(env: impl MultiAgentEnv + 'static, seed: u64) -> Result<(), EnvCheckError> {
    check_episodes(&mut SeveralAgents::new(env)?, seed)
}

/// An environment with several agents.
pub(super) struct SeveralAgents {
    spec: MultiAgentSpec,
    slot: MultiAgentSlot,
    actions: Vec<Action>,
}

impl SeveralAgents {
    /// An environment with a valid spec.
    pub(super) fn new(env: impl MultiAgentEnv + 'static) -> Result<Self, EnvCheckError> {
        let spec = checked_spec(|| env.spec())?;
        let slot = MultiAgentSlot::new(Box::new(env), &spec);
        let actions = spec.agents.iter().map(|agent| Action::new(&agent.action)).collect();
        Ok(Self { spec, slot, actions })
    }

    /// Checks the observations of the last call, and gets the masks of the agents that act next.
    fn check_agents(&mut self) -> Result<(), EnvFault> {
        for (number, (agent, action)) in self.spec.agents.iter().zip(&mut self.actions).enumerate() {
            let state = &self.slot.agents().states()[number];
            if state.obs_written {
                let of_agent = |fault| EnvFault::OfAgent { agent: agent.name.clone(), fault: Box::new(fault) };
                check_space(state.obs.view(), &agent.observation).map_err(of_agent)?;
            }
            if state.acts_next {
                self.slot.mask(number, &self.spec, &mut action.mask)?;
            }
        }
        Ok(())
    }

    /// Gives random possible actions to the agents that act.
    fn act(&mut self, rng: &mut Rng) -> Result<(), EnvFault> {
        for (number, agent) in self.spec.agents.iter().enumerate() {
            if self.slot.agents().states()[number].acts_next {
                self.actions[number].draw(&agent.action, rng);
                let set = self.slot.agents_mut().set_action(number, self.actions[number].as_ref());
                set.map_err(|error| EnvFailureCause::Error(EnvError::new(error)))?;
            }
        }
        Ok(())
    }

    /// What the last call gave each agent, with the mask of one that acts next.
    fn agents(&self) -> impl Iterator<Item = (&AgentState, Option<&[bool]>)> {
        let agents = self.slot.agents().states().iter().zip(&self.actions);
        agents.map(|(agent, action)| (agent, agent.acts_next.then_some(&*action.mask)))
    }
}

impl Instance for SeveralAgents {
    type Spec = MultiAgentSpec;
    type Saved = SavedAgentsEnv;

    fn spec(&self) -> &MultiAgentSpec {
        &self.spec
    }

    fn spec_now(&self) -> MultiAgentSpec {
        self.slot.env().spec()
    }

    fn has_time_limit(&self) -> bool {
        self.spec.max_episode_steps.is_some()
    }

    fn reset(&mut self, seed: u64, background: Background) -> Result<(), EnvFault> {
        self.slot.agents_mut().rows_mut().for_each(|row| background.fill(row));
        self.slot.reset(seed)?;
        self.check_agents()
    }

    fn step(&mut self, rng: &mut Rng, background: Background) -> Result<bool, EnvFault> {
        self.act(rng)?;
        self.slot.agents_mut().rows_mut().for_each(|row| background.fill(row));
        let is_over = self.slot.step(self.spec.max_episode_steps)?;
        self.check_agents()?;
        Ok(is_over)
    }

    fn save(&mut self) -> Result<Option<SavedAgentsEnv>, EnvFault> {
        let saved = self.slot.save()?;
        Ok(saved.is_snapshot().then_some(saved))
    }

    fn load(&mut self, saved: &SavedAgentsEnv) -> Result<(), String> {
        self.slot.go_back(saved, self.spec.max_episode_steps)?;
        self.check_agents().map_err(|fault| fault.to_string())
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (agent, mask) in self.agents() {
            if agent.obs_written {
                hash_obs(agent.obs.view(), &mut hasher);
            }
            if let Some(mask) = mask {
                mask.hash(&mut hasher);
            }
            agent.reward.to_bits().hash(&mut hasher);
            (agent.end as u8, agent.acts_next).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn difference(&self, fresh: &Self) -> Option<Difference> {
        fresh.agents().zip(self.agents()).find_map(|((fresh, fresh_mask), (used, used_mask))| {
            let difference = Difference::of("`acts next`", fresh.acts_next, used.acts_next)
                .or_else(|| Difference::of("`is shown an observation`", fresh.obs_written, used.obs_written))
                .or_else(|| obs_difference(fresh.obs.view(), used.obs.view()).filter(|_| used.obs_written))
                .or_else(|| reward_difference(fresh.reward, used.reward))
                .or_else(|| end_difference(fresh.end, used.end))
                .or_else(|| mask_difference(fresh_mask.unwrap_or_default(), used_mask.unwrap_or_default()))?;
            Some(Difference { what: format!("{} of agent `{}`", difference.what, used.name), ..difference })
        })
    }
}

#[cfg(test)]
mod tests;
