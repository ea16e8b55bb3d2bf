use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use super::arithmetic::floats_between;
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step, snapshot};

/// A test task for recurrent policies: a cue is shown once and must be recalled later.
///
/// The first observation shows the cue, 0 or 1; `delay` blank ones follow; the last asks for the answer. The
/// action taken then earns 1 if it is the cue and −1 if not, and the episode terminates, after `delay + 2`
/// steps. Earlier actions have no effect. Without recurrent state the expected return of every policy is 0.
///
/// Observation: three flags: the cue is 0, the cue is 1, it is time to answer.
///
/// ```
/// use pronk_rollout::{ActionRef, Env, ObsMut, Recall};
///
/// let mut env = Recall::new(0);
/// let mut obs = [0.0; 3];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// let cue = u32::from(obs[1] == 1.0);
/// env.step(ActionRef::Discrete(&[0]), ObsMut::F32(&mut obs))?;
/// assert_eq!(obs, [0.0, 0.0, 1.0]);
/// assert_eq!(env.step(ActionRef::Discrete(&[cue]), ObsMut::F32(&mut obs))?.reward, 1.0);
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recall {
    delay: u32,
    cue: u32,
    /// Steps made in the episode.
    step: u32,
}

impl Recall {
    /// `delay` blank observations between cue and answer.
    pub fn new(delay: u32) -> Self {
        Self { delay, cue: 0, step: 0 }
    }

    fn time_to_answer(&self) -> bool {
        self.step > self.delay
    }
}

impl Env for Recall {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Recall".to_owned(),
            observation: floats_between([0.0; 3], [1.0; 3]),
            action: Space::Discrete { n: 2 },
            max_episode_steps: None,
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.cue = Rng::seed_from(seed).below(2) as u32;
        self.step = 0;
        let is_cue = |cue| if self.cue == cue { 1.0 } else { 0.0 };
        obs.write(&[is_cue(0), is_cue(1), 0.0])
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let action = action.discrete()?;
        if self.time_to_answer() {
            obs.write(&[0.0; 3])?;
            return Ok(Step { reward: if action == self.cue { 1.0 } else { -1.0 }, end: End::Terminated });
        }
        self.step += 1;
        obs.write(&[0.0, 0.0, if self.time_to_answer() { 1.0 } else { 0.0 }])?;
        Ok(Step { reward: 0.0, end: End::No })
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&(self.cue, self.step))
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        (self.cue, self.step) = snapshot::from_bytes(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
