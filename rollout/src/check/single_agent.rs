//! Holds an environment against the rules of [`Env`], before a run trusts it.

use pronk_metrics::catch;
use pronk_policy::derive_seed;

use super::error::{EnvCheckError, EnvFault};
use super::play::play;
use super::unwritten::Background;
use crate::env::{Env, EnvSpec};

/// Episodes that are played, each twice.
const N_EPISODES: u64 = 3;

/// The seeds of the episodes that a check plays.
pub(crate) fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    // The first episode has the seed 0, which other libraries take for "no seed".
    (0..N_EPISODES).map(move |episode| if episode == 0 { 0 } else { derive_seed(seed, &[episode]) })
}

/// Plays a few episodes with random actions, of those that are possible, and reports the first rule that the environment breaks.
///
/// Checked are: the spec makes sense and stays the same; reset and step neither fail nor panic; every element of the observation is written, finite and inside its space; rewards are finite; an action mask leaves something possible; episodes end, by
/// themselves or by [`EnvSpec::max_episode_steps`]; the same seed and actions give the same episode bit for bit, whatever
/// was played before; 0 is a seed like any other.
///
/// Each episode is played twice, so allow for its time.
///
/// # Errors
/// [`EnvCheckError`] names the rule, the episode seed and the step.
///
/// ```
/// use pronk_rollout::{CartPole, check_env};
///
/// check_env(CartPole::new(), 0)?;
/// # Ok::<(), pronk_rollout::EnvCheckError>(())
/// ```
pub fn check_env(mut env: impl Env, seed: u64) -> Result<(), EnvCheckError> {
    let spec = ask_spec(&env)?;
    check_spec(&spec).map_err(|reason| EnvCheckError::of_spec(&spec.name, EnvFault::BadSpec { reason }))?;
    for seed in seeds(seed) {
        let first = play(&mut env, &spec, seed, Background::First)?;
        let second = play(&mut env, &spec, seed, Background::Second)?;
        if let Some(step) = first.differs_at(&second) {
            return Err(EnvCheckError::in_episode(&spec.name, seed, step, EnvFault::NotReproducible));
        }
    }
    let after = ask_spec(&env)?;
    if after == spec {
        Ok(())
    } else {
        Err(EnvCheckError::of_spec(&spec.name, EnvFault::SpecChanged { after: after.to_string() }))
    }
}

fn ask_spec(env: &impl Env) -> Result<EnvSpec, EnvCheckError> {
    catch(|| env.spec()).map_err(|text| EnvCheckError { env: String::new(), place: None, fault: EnvFault::Panic(text) })
}

fn check_spec(spec: &EnvSpec) -> Result<(), String> {
    check_name(&spec.name)?;
    spec.check().map_err(|error| error.to_string())
}

pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() { Err("the name is empty: reports and errors need one".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
