use pronk_metrics::catch;
use pronk_policy::derive_seed;

use super::error::{EnvCheckError, EnvFault};
use super::unwritten::Background;
use crate::env::{EnvFailureCause, Spec};

/// An episode without a time limit counts as endless after this many steps.
pub(super) const MAX_STEPS: u32 = 10_000;

/// Episodes that are played, each twice.
const N_EPISODES: u64 = 3;

/// The spec of an environment, if a run can use it.
pub(super) fn checked_spec<S: Spec>(spec_of: impl FnOnce() -> S) -> Result<S, EnvCheckError> {
    let panicked = |text| EnvCheckError::of_spec("", EnvFault::Failure(EnvFailureCause::Panic(text)));
    let spec = catch(spec_of).map_err(panicked)?;
    let bad = |reason| Err(EnvCheckError::of_spec(spec.name(), EnvFault::BadSpec { reason }));
    if spec.name().is_empty() {
        return bad("the name is empty: reports and errors need one".to_owned());
    }
    match spec.check() {
        Ok(()) => Ok(spec),
        Err(error) => bad(error.to_string()),
    }
}

/// Plays a few episodes, each twice, and compares the two.
///
/// `play` plays the episode of a seed, sets its last argument to the current step and returns step digests.
pub(super) fn check_episodes<E, S: Spec>(
    env: &mut E,
    spec: &S,
    seed: u64,
    play: impl Fn(&mut E, u64, Background, &mut u32) -> Result<Vec<u64>, EnvFault>,
    spec_of: impl Fn(&E) -> S,
) -> Result<(), EnvCheckError> {
    for episode in 0..N_EPISODES {
        // The first episode has the seed 0, which other libraries take for "no seed".
        let seed = if episode == 0 { 0 } else { derive_seed(seed, &[episode]) };
        let in_episode = |step, fault| EnvCheckError::in_episode(spec.name(), seed, step, fault);
        let mut digests = |background| {
            let mut step = 0;
            play(env, seed, background, &mut step).map_err(|fault| in_episode(step, fault))
        };
        let (first, second) = (digests(Background::First)?, digests(Background::Second)?);
        let steps = first.len().max(second.len());
        if let Some(step) = (0..steps).find(|&step| first.get(step) != second.get(step)) {
            return Err(in_episode(step as u32, EnvFault::NotReproducible));
        }
    }
    let after = checked_spec(|| spec_of(env))?;
    if after == *spec {
        return Ok(());
    }
    Err(EnvCheckError::of_spec(spec.name(), EnvFault::SpecChanged { after: after.to_string() }))
}
