use std::hash::{DefaultHasher, Hash, Hasher};

use pronk_buffer::{End, ObsColumn};
use pronk_policy::Rng;

use super::error::{EnvCheckError, EnvFault};
use super::instance::{Difference, Instance};
use super::play::{Action, check_space, end_difference, hash_obs, mask_difference, obs_difference, reward_difference};
use super::rules::{check_episodes, checked_spec};
use super::unwritten::Background;
use crate::env::{Env, EnvContext, EnvSpec, SavedEnv, Step, Way, obs_kind};
use crate::vector::Slot;

/// Plays a few episodes with random possible actions and reports the first rule that the environment breaks.
///
/// It checks that
/// - the spec is valid and does not change;
/// - reset and step neither fail nor panic;
/// - every element of an observation is written, finite and inside its space, and rewards are finite;
/// - an action mask leaves an action possible;
/// - episodes end, by themselves or by [`EnvSpec::max_episode_steps`];
/// - the same seed, 0 included, and actions give the same episode bit for bit, whatever was played before;
/// - an episode whose state is [saved](Env::save) and [loaded](Env::load) goes on as without.
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
    check_episodes(&mut SingleAgent::new(env)?, seed)
}

/// An environment with one agent.
pub(super) struct SingleAgent<E> {
    spec: EnvSpec,
    slot: Slot<E>,
    row: ObsColumn,
    action: Action,
    last: Step,
}

impl<E: Env> SingleAgent<E> {
    /// An environment with a valid spec.
    pub(super) fn new(env: E) -> Result<Self, EnvCheckError> {
        let spec = checked_spec(|| env.spec())?;
        Ok(Self {
            slot: Slot::new(env, EnvContext::default()),
            row: ObsColumn::zeros(obs_kind(&spec.observation), spec.observation.obs_len()),
            action: Action::new(&spec.action),
            last: FIRST,
            spec,
        })
    }

    /// Checks what a call gave, and keeps it.
    fn came_to(&mut self, step: Step) -> Result<(), EnvFault> {
        self.last = step;
        check_space(self.row.view(), &self.spec.observation)?;
        if self.spec.action_mask && step.end == End::No {
            self.slot.mask(&mut self.action.mask, &self.spec.action)?;
        }
        Ok(())
    }
}

/// What a reset gives besides the observation.
const FIRST: Step = Step { reward: 0.0, end: End::No };

impl<E: Env> Instance for SingleAgent<E> {
    type Spec = EnvSpec;
    type Saved = SavedEnv;

    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn spec_now(&self) -> EnvSpec {
        self.slot.env.spec()
    }

    fn has_time_limit(&self) -> bool {
        self.spec.max_episode_steps.is_some()
    }

    fn reset(&mut self, seed: u64, background: Background) -> Result<(), EnvFault> {
        background.fill(self.row.view_mut().into());
        self.slot.reset(seed, self.row.view_mut().into())?;
        self.came_to(FIRST)
    }

    fn step(&mut self, rng: &mut Rng, background: Background) -> Result<bool, EnvFault> {
        self.action.draw(&self.spec.action, rng);
        background.fill(self.row.view_mut().into());
        let (action, limit) = (self.action.as_ref(), self.spec.max_episode_steps);
        let step = self.slot.step(action, self.row.view_mut().into(), limit)?;
        self.came_to(step)?;
        Ok(step.end != End::No)
    }

    fn save(&mut self) -> Result<Option<SavedEnv>, EnvFault> {
        let saved = self.slot.save(self.row.view())?;
        Ok(matches!(saved.way, Way::Snapshot(_)).then_some(saved))
    }

    fn load(&mut self, saved: &SavedEnv) -> Result<(), String> {
        self.slot.go_back(saved, self.row.view_mut().into(), self.spec.max_episode_steps)?;
        let Self { slot, action, spec, .. } = self;
        let masked = if spec.action_mask { slot.mask(&mut action.mask, &spec.action) } else { Ok(()) };
        masked.map_err(|cause| cause.to_string())
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hash_obs(self.row.view(), &mut hasher);
        (self.last.reward.to_bits(), self.last.end as u8, &self.action.mask).hash(&mut hasher);
        hasher.finish()
    }

    fn difference(&self, fresh: &Self) -> Option<Difference> {
        obs_difference(fresh.row.view(), self.row.view())
            .or_else(|| reward_difference(fresh.last.reward, self.last.reward))
            .or_else(|| end_difference(fresh.last.end, self.last.end))
            .or_else(|| mask_difference(&fresh.action.mask, &self.action.mask))
    }
}

#[cfg(test)]
mod tests;
