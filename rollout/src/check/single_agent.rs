use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_buffer::{End, ObsColumn};
use pronk_policy::Rng;

use super::error::{EnvCheckError, EnvFault};
use super::play::{Action, check_space, hash_obs};
use super::rules::{MAX_STEPS, check_episodes, checked_spec};
use super::unwritten::Background;
use crate::env::{Env, EnvContext, EnvSpec, Episodes, Step, obs_kind};
use crate::vector::Slot;

/// Plays a few episodes with random possible actions and reports the first rule that the environment breaks.
///
/// It checks that
/// - the spec is valid and does not change;
/// - reset and step neither fail nor panic;
/// - every element of an observation is written, finite and inside its space, and rewards are finite;
/// - an action mask leaves an action possible;
/// - episodes end, by themselves or by [`EnvSpec::max_episode_steps`];
/// - the same seed, 0 included, and actions give the same episode bit for bit, whatever was played before.
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
pub fn check_env(env: impl Env, seed: u64) -> Result<(), EnvCheckError> {
    let spec = checked_spec(|| env.spec())?;
    let mut slot = Slot { env, episodes: Episodes::new(EnvContext::default()) };
    let play = |slot: &mut _, seed, background, step: &mut _| play(slot, &spec, seed, background, step);
    check_episodes(&mut slot, &spec, seed, play, |slot| slot.env.spec())
}

/// Plays one episode with random actions that depend on nothing but the seed.
fn play<E: Env>(
    slot: &mut Slot<E>,
    spec: &EnvSpec,
    seed: u64,
    background: Background,
    step: &mut u32,
) -> Result<Vec<u64>, EnvFault> {
    let mut row = ObsColumn::zeros(obs_kind(&spec.observation), spec.observation.obs_len());
    let mut action = Action::new(&spec.action);
    let mut rng = Rng::stream(seed, &[u64::from(u32::MAX)]);
    let mut digests = Vec::new();
    loop {
        background.fill(row.view_mut().into());
        let made = match *step {
            0 => slot.reset(seed, row.view_mut().into()).map(|()| Step { reward: 0.0, end: End::No }),
            _ => slot.step(action.as_ref(), row.view_mut().into(), spec.max_episode_steps),
        }?;
        check_space(row.view(), &spec.observation)?;
        if spec.action_mask && made.end == End::No {
            slot.mask(&mut action.mask, &spec.action)?;
        }
        let mut hasher = DefaultHasher::new();
        hash_obs(row.view(), &mut hasher);
        (made.reward.to_bits(), made.end as u8, &action.mask).hash(&mut hasher);
        digests.push(hasher.finish());
        if made.end != End::No {
            return Ok(digests);
        }
        if *step == MAX_STEPS && spec.max_episode_steps.is_none() {
            return Err(EnvFault::NeverEnds { steps: MAX_STEPS });
        }
        *step += 1;
        action.draw(&spec.action, &mut rng);
    }
}

#[cfg(test)]
mod tests;
