use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use super::arithmetic::floats_between;
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step, snapshot};

/// A test task for action masks: the lowest possible action earns 1.
///
/// Every step draws which of the actions are possible, each with probability ½ and at least one of them. Only
/// the mask shows it, not the observation. The optimal return is the episode's length; an impossible action
/// is an error.
#[derive(Clone, Debug)]
pub struct Masked {
    episode_len: u32,
    possible: Vec<bool>,
    step: u32,
    rng: Rng,
}

impl Masked {
    /// Actions `0..n_actions`, in episodes of `episode_len` steps.
    pub fn new(n_actions: usize, episode_len: u32) -> Self {
        Self { episode_len, possible: vec![true; n_actions], step: 0, rng: Rng::seed_from(0) }
    }

    fn draw(&mut self) {
        for possible in &mut self.possible {
            *possible = self.rng.below(2) == 0;
        }
        let one = self.rng.below(self.possible.len().max(1) as u64);
        if let Some(possible) = self.possible.get_mut(one as usize) {
            *possible = true;
        }
    }
}

impl Env for Masked {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Masked".to_owned(),
            observation: floats_between([0.0], [1.0]),
            action: Space::Discrete { n: self.possible.len() },
            max_episode_steps: None,
            action_mask: true,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.rng = Rng::seed_from(seed);
        self.step = 0;
        self.draw();
        obs.write(&[1.0])
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let action = action.discrete()? as usize;
        if !self.possible.get(action).is_some_and(|possible| *possible) {
            return Err(EnvError::new(format!("action {action} is impossible: the mask is {:?}", self.possible)));
        }
        let lowest = self.possible.iter().position(|possible| *possible);
        self.step += 1;
        self.draw();
        obs.write(&[1.0])?;
        Ok(Step {
            reward: if lowest == Some(action) { 1.0 } else { 0.0 },
            end: if self.step >= self.episode_len { End::Terminated } else { End::No },
        })
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        if mask.len() != self.possible.len() {
            let (got, n) = (mask.len(), self.possible.len());
            return Err(EnvError::new(format!("Masked has {n} actions, the mask is for {got}")));
        }
        mask.copy_from_slice(&self.possible);
        Ok(())
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&(&self.possible, self.step, &self.rng))
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        let (possible, step, rng) = snapshot::from_bytes::<(Vec<bool>, _, _)>(state)?;
        if possible.len() != self.possible.len() {
            let (saved, own) = (possible.len(), self.possible.len());
            return Err(EnvError::new(format!("the saved state has {saved} actions and Masked {own}")));
        }
        (self.possible, self.step, self.rng) = (possible, step, rng);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
