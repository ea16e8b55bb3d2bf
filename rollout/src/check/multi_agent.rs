use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_policy::Rng;

use super::error::{EnvCheckError, EnvFault};
use super::play::{Action, PATIENCE_STEPS, Played, call, check_row, hash_obs};
use super::single_agent::{check_name, seeds};
use super::unwritten::Background;
use crate::env::{EnvError, MultiAgentEnv, MultiAgentSpec};
use crate::vector::Slot;

/// Plays a few episodes with random actions, of those that are possible, and reports the first rule that the environment breaks.
///
/// Checked is for every agent what [`check_env`](crate::check_env) checks for one. Besides: nobody is asked, shown something
/// or paid after its end; somebody is asked in every step unless the episode is over; who is cut off was shown what it would
/// have gone on from.
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
    let spec = ask_spec(&env)?;
    check_spec(&spec).map_err(|reason| EnvCheckError::of_spec(&spec.name, EnvFault::BadSpec { reason }))?;
    let mut slot = Slot::new(Box::new(env), &spec, seed);
    for seed in seeds(seed) {
        let first = play(&mut slot, &spec, seed, Background::First)?;
        let second = play(&mut slot, &spec, seed, Background::Second)?;
        if let Some(step) = first.differs_at(&second) {
            return Err(EnvCheckError::in_episode(&spec.name, seed, step, EnvFault::NotReproducible));
        }
    }
    let after = ask_spec(slot.env())?;
    if after == spec {
        Ok(())
    } else {
        Err(EnvCheckError::of_spec(&spec.name, EnvFault::SpecChanged { after: after.to_string() }))
    }
}

fn ask_spec(env: &dyn MultiAgentEnv) -> Result<MultiAgentSpec, EnvCheckError> {
    call(|| Ok(env.spec())).map_err(|fault| EnvCheckError { env: String::new(), place: None, fault })
}

fn check_spec(spec: &MultiAgentSpec) -> Result<(), String> {
    check_name(&spec.name)?;
    spec.check().map_err(|error| error.to_string())
}

/// Plays one episode with random actions that depend on nothing but the seed.
fn play(slot: &mut Slot, spec: &MultiAgentSpec, seed: u64, background: Background) -> Result<Played, EnvCheckError> {
    let fault_at = |step| move |fault| EnvCheckError::in_episode(&spec.name, seed, step, fault);
    let mut actions: Vec<_> = spec.agents.iter().map(|agent| Action::new(&agent.action)).collect();
    let mut rng = Rng::stream(seed, &[u64::from(u32::MAX)]);

    slot.agents_mut().rows_mut().for_each(|row| background.fill(row));
    slot.reset(seed).map_err(|cause| fault_at(0)(cause.into()))?;
    look(slot, spec, &mut actions).map_err(fault_at(0))?;
    let mut played = Played(vec![digest(slot, &actions)]);

    let limit = spec.max_episode_steps.unwrap_or(PATIENCE_STEPS);
    for step in 1..=limit {
        for (number, agent) in spec.agents.iter().enumerate() {
            if slot.agents().is_asked(number) {
                actions[number].draw(&agent.action, &mut rng);
                let set = slot.agents_mut().set_action(number, actions[number].as_ref());
                set.map_err(|error| fault_at(step)(EnvFault::Error(EnvError::new(error))))?;
            }
        }
        slot.agents_mut().rows_mut().for_each(|row| background.fill(row));
        let is_over = slot.step(spec.max_episode_steps).map_err(|cause| fault_at(step)(cause.into()))?;
        look(slot, spec, &mut actions).map_err(fault_at(step))?;
        played.0.push(digest(slot, &actions));
        if is_over {
            return Ok(played);
        }
    }
    Err(fault_at(limit)(EnvFault::NeverEnds { steps: limit }))
}

/// Looks at what the agents were shown, and asks what those who are asked can do.
fn look(slot: &Slot, spec: &MultiAgentSpec, actions: &mut [Action]) -> Result<(), EnvFault> {
    for (number, (agent, action)) in spec.agents.iter().zip(actions).enumerate() {
        if slot.agents().was_shown(number) {
            let of_agent = |fault| EnvFault::OfAgent { agent: agent.name.clone(), fault: Box::new(fault) };
            check_row(slot.agents().obs(number), &agent.observation).map_err(of_agent)?;
        }
        if slot.agents().is_asked(number) {
            slot.mask(number, spec, &mut action.mask)?;
        }
    }
    Ok(())
}

/// All that a step says of its agents.
fn digest(slot: &Slot, actions: &[Action]) -> u64 {
    let agents = slot.agents();
    let mut hasher = DefaultHasher::new();
    for (number, action) in actions.iter().enumerate() {
        if agents.was_shown(number) {
            hash_obs(agents.obs(number), &mut hasher);
        }
        if agents.is_asked(number) {
            action.mask.hash(&mut hasher);
        }
        agents.reward_of(number).to_bits().hash(&mut hasher);
        (agents.end_of(number) as u8, agents.is_asked(number)).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
