use pronk_buffer::End;

use super::arithmetic::{SinCos, numbers_between, one_number};
use super::mountain_car::{GRAVITY, MAX_POSITION, MAX_SPEED, MIN_POSITION, START, observation, start};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};

mod kernel;

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
pub(super) enum Precision {
    /// From the start of an episode.
    F64,
    /// From its first step on.
    F32,
}

impl Precision {
    #[inline(always)]
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
        let (state, arrived) = after(self.state(), self.precision, action, f64::sin_cos);
        *self = Self { precision: Precision::F32, ..Self::from_state(state) };
        self.observe(obs)?;
        Ok(Step { reward: reward(action, arrived), end: if arrived { End::Terminated } else { End::No } })
    }
}

/// The state after a step, which is f32, and whether the car has arrived.
#[inline(always)]
pub(super) fn after(
    [position, velocity]: [f64; 2],
    precision: Precision,
    action: f32,
    sin_cos: impl SinCos,
) -> ([f64; 2], bool) {
    let round = |value| precision.round(value);
    let max_speed = round(MAX_SPEED);
    let acceleration = acceleration(position, precision, action, sin_cos);
    let velocity = round(velocity + round(acceleration)).clamp(-max_speed, max_speed);
    let wall = round(MIN_POSITION);
    let position = round(position + velocity).clamp(wall, round(MAX_POSITION));
    let hits_the_wall = (position == wall) & (velocity < 0.0);
    let velocity = if hits_the_wall { 0.0 } else { velocity };
    let arrived = (position >= round(GOAL_POSITION)) & (velocity >= 0.0);
    ([to_f32(position), to_f32(velocity)], arrived)
}

/// How much the step changes the velocity.
#[inline(always)]
fn acceleration(position: f64, precision: Precision, action: f32, sin_cos: impl SinCos) -> f64 {
    let pull = GRAVITY * sin_cos(precision.round(3.0 * position)).1;
    // An f32 action makes f32 of what it is multiplied with and added to.
    let within = to_f32(to_f32(f64::from(action) * to_f32(POWER)) - to_f32(pull));
    let beyond = f64::from(action.clamp(-MAX_FORCE, MAX_FORCE)) * POWER - pull;
    if action.abs() <= MAX_FORCE { within } else { beyond }
}

#[inline(always)]
pub(super) fn reward(action: f32, arrived: bool) -> f32 {
    let cost = f64::from(action).powi(2) * 0.1;
    (if arrived { GOAL_REWARD - cost } else { -cost }) as f32
}

#[inline(always)]
fn to_f32(value: f64) -> f64 {
    f64::from(value as f32)
}

#[cfg(test)]
mod tests;
