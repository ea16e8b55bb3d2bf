use pronk_buffer::End;

use super::mountain_car::{GRAVITY, MAX_POSITION, MAX_SPEED, MIN_POSITION, START, observation, start};
use super::{numbers_between, one_number};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};

const MAX_FORCE: f32 = 1.0;
const POWER: f64 = 0.0015;
const GOAL_POSITION: f64 = 0.45;
const GOAL_REWARD: f64 = 100.0;

/// MountainCarContinuous-v0: drive out of a valley with a weak engine, and with little of it.
///
/// Observation: position and velocity, per step. Action: the force, clipped to ±1. A step costs a tenth of the square of
/// the action *as it was given*, not clipped; the one that reaches position 0.45 is worth 100 and terminates the episode,
/// which is truncated after 999 steps.
///
/// Source: Gymnasium 1.4 (`classic_control/continuous_mountain_car.py`) on NumPy 2: the state of a reset is f64, every later
/// one and the arithmetic on it f32.
///
/// ```
/// use pronk_rollout::{ActionRef, Env, MountainCarContinuous, ObsMut};
///
/// let mut env = MountainCarContinuous::new();
/// let mut obs = [0.0; 2];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// let step = env.step(ActionRef::Continuous(&[1.0]), ObsMut::F32(&mut obs))?;
/// assert_eq!(step.reward, -0.1);
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MountainCarContinuous {
    position: f64,
    velocity: f64,
    precision: Precision,
}

/// The precision that the state has and the next step is computed in.
#[derive(Clone, Copy, Debug)]
enum Precision {
    /// From the start of an episode.
    F64,
    /// From its first step on.
    F32,
}

impl Precision {
    fn round(self, value: f64) -> f64 {
        match self {
            Precision::F64 => value,
            Precision::F32 => to_f32(value),
        }
    }
}

impl MountainCarContinuous {
    /// A car that stands in the valley; `reset` begins an episode.
    pub fn new() -> Self {
        Self::from_state(START)
    }

    /// An episode that goes on from a given state: position, velocity.
    pub fn from_state([position, velocity]: [f64; 2]) -> Self {
        Self { position, velocity, precision: Precision::F64 }
    }

    /// Position, velocity.
    pub fn state(&self) -> [f64; 2] {
        [self.position, self.velocity]
    }

    fn observe(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&self.state().map(|value| value as f32))
    }

    /// How much the step changes the velocity.
    fn acceleration(&self, action: f32) -> f64 {
        let pull = GRAVITY * self.precision.round(3.0 * self.position).cos();
        if (-MAX_FORCE..=MAX_FORCE).contains(&action) {
            // An f32 action makes f32 of what it is multiplied with and added to.
            to_f32(to_f32(f64::from(action) * to_f32(POWER)) - to_f32(pull))
        } else {
            f64::from(action.clamp(-MAX_FORCE, MAX_FORCE)) * POWER - pull
        }
    }
}

impl Default for MountainCarContinuous {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for MountainCarContinuous {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "MountainCarContinuous-v0".to_owned(),
            observation: observation(),
            action: numbers_between([-MAX_FORCE], [MAX_FORCE]),
            max_episode_steps: Some(999),
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        *self = Self::from_state(start(seed));
        self.observe(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let action = one_number("MountainCarContinuous", action)?;
        let round = |value| self.precision.round(value);
        let max_speed = round(MAX_SPEED);
        let mut velocity = round(self.velocity + round(self.acceleration(action))).clamp(-max_speed, max_speed);
        let wall = round(MIN_POSITION);
        let position = round(self.position + velocity).clamp(wall, round(MAX_POSITION));
        if position == wall && velocity < 0.0 {
            velocity = 0.0;
        }

        let arrived = position >= round(GOAL_POSITION) && velocity >= 0.0;
        let cost = f64::from(action).powi(2) * 0.1;
        *self = Self { position: to_f32(position), velocity: to_f32(velocity), precision: Precision::F32 };
        self.observe(obs)?;
        Ok(if arrived {
            Step { reward: (GOAL_REWARD - cost) as f32, end: End::Terminated }
        } else {
            Step { reward: -cost as f32, end: End::No }
        })
    }
}

fn to_f32(value: f64) -> f64 {
    f64::from(value as f32)
}

#[cfg(test)]
mod tests;
