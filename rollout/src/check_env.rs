//! Holds an environment against the rules of [`Env`], before a run trusts it.

mod error;
mod play;

use pronk_policy::derive_seed;

use crate::env::{Env, EnvSpec};
use crate::failure::catch;

pub use error::{EnvCheckError, EnvFault};

use play::{Background, play};

/// Episodes that are played, each twice.
const N_EPISODES: u64 = 3;

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
    check_spec(&spec).map_err(|reason| EnvCheckError::of_spec(&spec, EnvFault::BadSpec { reason }))?;
    for episode in 0..N_EPISODES {
        // The first episode has the seed 0, which other libraries take for "no seed".
        let seed = if episode == 0 { 0 } else { derive_seed(seed, &[episode]) };
        let first = play(&mut env, &spec, seed, Background::First)?;
        let second = play(&mut env, &spec, seed, Background::Second)?;
        if let Some(step) = first.differs_at(&second) {
            return Err(EnvCheckError::in_episode(&spec, seed, step, EnvFault::NotReproducible));
        }
    }
    let after = ask_spec(&env)?;
    if after == spec {
        Ok(())
    } else {
        Err(EnvCheckError::of_spec(&spec, EnvFault::SpecChanged { after: Box::new(after) }))
    }
}

fn ask_spec(env: &impl Env) -> Result<EnvSpec, EnvCheckError> {
    catch(|| env.spec()).map_err(|text| EnvCheckError { env: String::new(), place: None, fault: EnvFault::Panic(text) })
}

fn check_spec(spec: &EnvSpec) -> Result<(), String> {
    if spec.name.is_empty() {
        return Err("the name is empty: reports and errors need one".to_owned());
    }
    spec.check().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
