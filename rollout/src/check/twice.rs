//! Does an episode depend on what was played before it?

use pronk_metrics::catch;
use pronk_policy::derive_seed;

use super::error::{EnvCheckError, EnvFault};
use super::instance::{Difference, Episode, Instance};
use super::multi_agent::SeveralAgents;
use super::rules::{N_EPISODES, episode_seed, play};
use super::single_agent::SingleAgent;
use super::unwritten::Background;
use crate::env::{EnvContext, EnvError, EnvFailureCause, EnvPurpose, IntoEnv, IntoMultiAgentEnv, Spec};

/// Plays a few episodes in two instances side by side, a fresh one and one that has played other episodes
/// before, and reports the first difference.
///
/// Where [`check_env`](crate::check_env) says that an environment is not reproducible, this says what differs
/// and by how much. It also finds what only a second instance shows: a setting drawn once per instance, or
/// state that instances share. Run `check_env` first: the other rules are checked here only in passing.
///
/// It compares observations, the final ones included, rewards, ends and action masks bit for bit, with equal
/// seeds and equal random possible actions. `make` is a factory as for a run; it is called four times, all
/// with [`EnvContext::index`] 0, and two instances are alive at a time. Environments in other processes pass
/// as well: a fresh instance is a fresh process.
///
/// # Errors
/// [`EnvFault::DiffersFromFresh`] with the episode's seed, the number of episodes before it, the step, what
/// differs and both values; or any other rule that the environment breaks.
///
/// ```
/// use pronk_rollout::{CartPole, EnvContext, check_env_twice};
///
/// check_env_twice(|_: &EnvContext| CartPole::new(), 0)?;
/// # Ok::<(), pronk_rollout::EnvCheckError>(())
/// ```
pub fn check_env_twice<M: IntoEnv>(make: impl Fn(&EnvContext) -> M, seed: u64) -> Result<(), EnvCheckError> {
    let context = EnvContext { seed, purpose: EnvPurpose::Probe, ..EnvContext::default() };
    check_twice(|| SingleAgent::new(made(|| make(&context).into_env())?), seed)
}

/// [`check_env_twice`] for an environment with several agents.
///
/// It also compares which agents are asked to act and which are shown an observation.
///
/// # Errors
/// As [`check_env_twice`], with the agent's name.
///
/// ```
/// use pronk_rollout::{EnvContext, Rendezvous, check_multi_agent_env_twice};
///
/// check_multi_agent_env_twice(|_: &EnvContext| Rendezvous::new(), 0)?;
/// # Ok::<(), pronk_rollout::EnvCheckError>(())
/// ```
pub fn check_multi_agent_env_twice<M>(make: impl Fn(&EnvContext) -> M, seed: u64) -> Result<(), EnvCheckError>
where
    M: IntoMultiAgentEnv,
    M::Env: 'static,
{
    let context = EnvContext { seed, purpose: EnvPurpose::Probe, ..EnvContext::default() };
    check_twice(|| SeveralAgents::new(made(|| make(&context).into_env())?), seed)
}

/// Makes an environment.
fn made<E>(make: impl FnOnce() -> Result<E, EnvError>) -> Result<E, EnvCheckError> {
    let made = catch(make).map_err(EnvFailureCause::Panic).and_then(|made| made.map_err(EnvFailureCause::Error));
    made.map_err(|cause| EnvCheckError::of_spec("", EnvFault::Failure(cause)))
}

fn check_twice<I: Instance>(make: impl Fn() -> Result<I, EnvCheckError>, seed: u64) -> Result<(), EnvCheckError> {
    let mut used = make()?;
    for episode in 0..N_EPISODES {
        // Always another one in between: the state of an equal episode could be mistaken for none.
        play(&mut used, derive_seed(seed, &[N_EPISODES + episode]), Background::First)?;
        let mut fresh = make()?;
        let differs = |difference| differs(difference, 2 * episode + 1);
        let (name, specs) = (fresh.spec().name(), (fresh.spec().to_string(), used.spec().to_string()));
        if let Some(difference) = Difference::of("the spec", specs.0, specs.1) {
            return Err(EnvCheckError::of_spec(name, differs(difference)));
        }
        side_by_side(&mut fresh, &mut used, episode_seed(seed, episode), differs)?;
    }
    Ok(())
}

/// Plays an episode in both instances, call by call, so that none has to be remembered.
fn side_by_side<I: Instance>(
    fresh: &mut I,
    used: &mut I,
    seed: u64,
    differs: impl Fn(Difference) -> EnvFault,
) -> Result<(), EnvCheckError> {
    let (mut in_fresh, mut in_used) = (Episode::new(seed, Background::First), Episode::new(seed, Background::First));
    for step in 0.. {
        let over_in_fresh = in_fresh.call(step, fresh);
        let in_episode = |fault| EnvCheckError::in_episode(fresh.spec().name(), seed, step, fault);
        let over_in_fresh = over_in_fresh.map_err(in_episode)?;
        let failed = |fault: EnvFault| Difference {
            what: "the outcome".to_owned(),
            fresh: "no failure".to_owned(),
            used: format!("a failure ({fault})"),
        };
        in_used.call(step, used).map_err(|fault| in_episode(differs(failed(fault))))?;
        if let Some(difference) = used.difference(fresh) {
            return Err(in_episode(differs(difference)));
        }
        if over_in_fresh {
            break;
        }
    }
    Ok(())
}

fn differs(Difference { what, fresh, used }: Difference, episodes_before: u64) -> EnvFault {
    let difference = format!("{what} is {fresh} in a fresh instance and {used}");
    EnvFault::DiffersFromFresh { difference, episodes_before }
}

#[cfg(test)]
mod tests;
