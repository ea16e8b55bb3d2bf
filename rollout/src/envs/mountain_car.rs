use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use super::arithmetic::{SinCos, numbers_between, uniform};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};

mod kernel;

pub(super) const MIN_POSITION: f64 = -1.2;

pub(super) const MAX_POSITION: f64 = 0.6;

pub(super) const MAX_SPEED: f64 = 0.07;

/// What the slope of the valley, `cos(3 · position)`, takes from the velocity in one step.
pub(super) const GRAVITY: f64 = 0.0025;

pub(super) const START: [f64; 2] = [-0.5, 0.0];

const FORCE: f64 = 0.001;

const GOAL_POSITION: f64 = 0.5;

/// MountainCar-v0: drive out of a valley with an engine that is too weak for it, by swinging.
///
/// Observation: position and velocity, per step. Actions: 0 drives left, 1 lets the car roll, 2 drives right. Every step
/// costs 1, the last one too; an episode terminates at position 0.5 and is truncated after 200 steps. The left end of the
/// valley is a wall that stops the car.
///
/// Source: Moore 1990, as in Gymnasium 1.4 (`classic_control/mountain_car.py`): state in f64, the velocity moves before the
/// position does.
///
/// ```
/// use pronk_rollout::{ActionRef, Env, MountainCar, ObsMut};
///
/// let mut env = MountainCar::new();
/// let mut obs = [0.0; 2];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// assert!((-0.6..-0.4).contains(&obs[0]) && obs[1] == 0.0, "the car stands in the valley");
/// let step = env.step(ActionRef::Discrete(&[2]), ObsMut::F32(&mut obs))?;
/// assert_eq!(step.reward, -1.0);
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MountainCar {
    position: f64,
    velocity: f64,
}

impl MountainCar {
    /// A car that stands in the valley; `reset` begins an episode.
    pub fn new() -> Self {
        Self::from_state(START)
    }

    /// An episode that goes on from a given state: position, velocity.
    pub fn from_state([position, velocity]: [f64; 2]) -> Self {
        Self { position, velocity }
    }

    /// Position, velocity.
    pub fn state(&self) -> [f64; 2] {
        [self.position, self.velocity]
    }

    fn observe(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&self.state().map(|value| value as f32))
    }
}

impl Default for MountainCar {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for MountainCar {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "MountainCar-v0".to_owned(),
            observation: observation(),
            action: Space::Discrete { n: 3 },
            max_episode_steps: Some(200),
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        *self = Self::from_state(start(seed));
        self.observe(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let direction = match action.discrete()? {
            0 => -1.0,
            1 => 0.0,
            2 => 1.0,
            other => return Err(EnvError::new(format!("MountainCar has the actions 0, 1 and 2, got {other}"))),
        };
        *self = Self::from_state(after(self.state(), direction, f64::sin_cos));
        let arrived = has_arrived(&self.state());
        self.observe(obs)?;
        Ok(Step { reward: -1.0, end: if arrived { End::Terminated } else { End::No } })
    }
}

/// Position and velocity in the valley.
pub(super) fn observation() -> Space {
    let (speed, left, right) = (MAX_SPEED as f32, MIN_POSITION as f32, MAX_POSITION as f32);
    numbers_between([left, -speed], [right, speed])
}

/// Where the episode with this seed begins: position, velocity.
pub(super) fn start(seed: u64) -> [f64; 2] {
    [uniform(-0.6, -0.4, &mut Rng::seed_from(seed)), 0.0]
}

/// Position and velocity after a step in which the engine drives left, −1, or right, 1.
#[inline(always)]
pub(super) fn after([position, velocity]: [f64; 2], direction: f64, sin_cos: impl SinCos) -> [f64; 2] {
    let pull = sin_cos(3.0 * position).1 * -GRAVITY;
    let velocity = (velocity + (direction * FORCE + pull)).clamp(-MAX_SPEED, MAX_SPEED);
    let position = (position + velocity).clamp(MIN_POSITION, MAX_POSITION);
    let hits_the_wall = (position == MIN_POSITION) & (velocity < 0.0);
    [position, if hits_the_wall { 0.0 } else { velocity }]
}

#[inline(always)]
pub(super) fn has_arrived(&[position, velocity]: &[f64; 2]) -> bool {
    (position >= GOAL_POSITION) & (velocity >= 0.0)
}

#[cfg(test)]
mod tests;
