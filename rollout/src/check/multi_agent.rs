use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_policy::Rng;

use super::error::{EnvCheckError, EnvFault};
use super::play::{Action, check_space, hash_obs};
use super::rules::{MAX_STEPS, check_episodes, checked_spec};
use super::unwritten::Background;
use crate::env::{EnvError, EnvFailureCause, MultiAgentEnv, MultiAgentSpec};
use crate::vector::MultiAgentSlot;

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
    let spec = checked_spec(|| env.spec())?;
    let mut slot = MultiAgentSlot::new(Box::new(env), &spec);
    let play = |slot: &mut _, seed, background, step: &mut _| play(slot, &spec, seed, background, step);
    check_episodes(&mut slot, &spec, seed, play, |slot| slot.env().spec())
}

/// Plays one episode with random actions that depend on nothing but the seed.
fn play(
    slot: &mut MultiAgentSlot,
    spec: &MultiAgentSpec,
    seed: u64,
    background: Background,
    step: &mut u32,
) -> Result<Vec<u64>, EnvFault> {
    let mut actions: Vec<_> = spec.agents.iter().map(|agent| Action::new(&agent.action)).collect();
    let mut rng = Rng::stream(seed, &[u64::from(u32::MAX)]);
    let mut digests = Vec::new();
    loop {
        slot.agents_mut().rows_mut().for_each(|row| background.fill(row));
        let is_over = match *step {
            0 => slot.reset(seed).map(|()| false),
            _ => slot.step(spec.max_episode_steps),
        }?;
        check_agents(slot, spec, &mut actions)?;
        digests.push(digest(slot, &actions));
        if is_over {
            return Ok(digests);
        }
        if *step == MAX_STEPS && spec.max_episode_steps.is_none() {
            return Err(EnvFault::NeverEnds { steps: MAX_STEPS });
        }
        *step += 1;
        for (number, agent) in spec.agents.iter().enumerate() {
            if slot.agents().states()[number].acts_next {
                actions[number].draw(&agent.action, &mut rng);
                let set = slot.agents_mut().set_action(number, actions[number].as_ref());
                set.map_err(|error| EnvFailureCause::Error(EnvError::new(error)))?;
            }
        }
    }
}

/// Checks the observations of the last step, and the masks of the agents that act next.
fn check_agents(slot: &MultiAgentSlot, spec: &MultiAgentSpec, actions: &mut [Action]) -> Result<(), EnvFault> {
    for (number, (agent, action)) in spec.agents.iter().zip(actions).enumerate() {
        let state = &slot.agents().states()[number];
        if state.obs_written {
            let of_agent = |fault| EnvFault::OfAgent { agent: agent.name.clone(), fault: Box::new(fault) };
            check_space(state.obs.view(), &agent.observation).map_err(of_agent)?;
        }
        if state.acts_next {
            slot.mask(number, spec, &mut action.mask)?;
        }
    }
    Ok(())
}

/// Hashes everything that a step gave its agents.
fn digest(slot: &MultiAgentSlot, actions: &[Action]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (agent, action) in slot.agents().states().iter().zip(actions) {
        if agent.obs_written {
            hash_obs(agent.obs.view(), &mut hasher);
        }
        if agent.acts_next {
            action.mask.hash(&mut hasher);
        }
        agent.reward.to_bits().hash(&mut hasher);
        (agent.end as u8, agent.acts_next).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
