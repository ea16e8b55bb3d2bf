use pronk_metrics::catch;
use pronk_policy::derive_seed;

use super::error::{EnvCheckError, EnvFault};
use super::instance::{Episode, Instance};
use super::unwritten::Background;
use crate::env::{EnvFailureCause, Spec};

/// Episodes that are played, each twice.
pub(super) const N_EPISODES: u64 = 3;

/// The seed of an episode, counted from 0. The first one has the seed 0, which other libraries take for "no
/// seed".
pub(super) fn episode_seed(seed: u64, episode: u64) -> u64 {
    if episode == 0 { 0 } else { derive_seed(seed, &[episode]) }
}

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
pub(super) fn check_episodes(instance: &mut impl Instance, seed: u64) -> Result<(), EnvCheckError> {
    for episode in 0..N_EPISODES {
        let seed = episode_seed(seed, episode);
        let first = play(instance, seed, Background::First)?;
        let second = play(instance, seed, Background::Second)?;
        let steps = first.len().max(second.len());
        if let Some(step) = (0..steps).find(|&step| first.get(step) != second.get(step)) {
            let name = instance.spec().name();
            return Err(EnvCheckError::in_episode(name, seed, step as u32, EnvFault::NotReproducible));
        }
        check_save(instance, seed, &first)?;
    }
    let after = checked_spec(|| instance.spec_now())?;
    if after == *instance.spec() {
        return Ok(());
    }
    Err(EnvCheckError::of_spec(instance.spec().name(), EnvFault::SpecChanged { after: after.to_string() }))
}

/// Saves an episode that was played before in its middle, begins another one, loads the state and compares
/// the rest.
fn check_save(instance: &mut impl Instance, seed: u64, played: &[u64]) -> Result<(), EnvCheckError> {
    let steps = (played.len() / 2) as u32;
    let name = instance.spec().name().to_owned();
    let at = |step: u32| move |fault: EnvFault| (step, fault);
    let checked = (|| {
        let mut episode = Episode::new(seed, Background::First);
        for step in 0..=steps {
            episode.call(step, instance).map_err(at(step))?;
            if step == 0 && instance.save().map_err(at(step))?.is_none() {
                return Ok(());
            }
        }
        let Some(saved) = instance.save().map_err(at(steps))? else { return Ok(()) };
        instance.reset(derive_seed(seed, &[steps.into()]), Background::Second).map_err(at(0))?;
        instance.load(&saved).map_err(|why| (steps, EnvFault::NotLoaded { steps, why }))?;
        for (step, digest) in (0..).zip(played).skip(steps as usize + 1) {
            episode.call(step, instance).map_err(at(step))?;
            if instance.digest() != *digest {
                return Err((step, EnvFault::NotContinued { steps }));
            }
        }
        Ok(())
    })();
    checked.map_err(|(step, fault)| EnvCheckError::in_episode(&name, seed, step, fault))
}

/// Plays an episode and returns a digest of each call.
pub(super) fn play(instance: &mut impl Instance, seed: u64, background: Background) -> Result<Vec<u64>, EnvCheckError> {
    let (mut episode, mut digests) = (Episode::new(seed, background), Vec::new());
    for step in 0.. {
        let is_over = episode.call(step, instance);
        let is_over = is_over.map_err(|fault| EnvCheckError::in_episode(instance.spec().name(), seed, step, fault))?;
        digests.push(instance.digest());
        if is_over {
            break;
        }
    }
    Ok(digests)
}
