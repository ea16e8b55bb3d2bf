use super::arithmetic::floats_within;
use super::dynamics::{Dynamics, SinCos, one_value, reset, step};
use super::mountain_car::{GRAVITY, MAX_POSITION, MAX_SPEED, MIN_POSITION, START, draw, observation_space, start};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step, snapshot};
use crate::vector::Outcome;

const MAX_FORCE: f32 = 1.0;
const POWER: f64 = 0.0015;
const GOAL_POSITION: f64 = 0.45;
const GOAL_REWARD: f64 = 100.0;

/// MountainCarContinuous-v0: drive out of a valley with a weak engine, and with little of it.
///
/// Observation: position and velocity, per step. Action: the force, clipped to ±1. A step costs a tenth of
/// the square of the action *as it was given*, not clipped; the one that reaches position 0.45 is worth 100
/// and terminates the episode, which is truncated after 999 steps.
///
/// Source: Gymnasium 1.4 (`classic_control/continuous_mountain_car.py`) on NumPy 2: the state of a reset is
/// f64, every later one and the arithmetic on it f32.
#[derive(Clone, Debug)]
pub struct MountainCarContinuous {
    /// Position, velocity and their precision: [`F64`] after a reset, [`F32`] after a step.
    state: [f64; 3],
}

const F64: f64 = 0.0;
const F32: f64 = 1.0;

impl MountainCarContinuous {
    /// A car that stands in the valley; `reset` begins an episode.
    pub fn new() -> Self {
        Self::from_state(START)
    }

    /// An episode that continues from a state: position, velocity.
    pub fn from_state([position, velocity]: [f64; 2]) -> Self {
        Self { state: [position, velocity, F64] }
    }

    /// Position, velocity.
    pub fn state(&self) -> [f64; 2] {
        [self.state[0], self.state[1]]
    }
}

impl Default for MountainCarContinuous {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for MountainCarContinuous {
    fn spec(&self) -> EnvSpec {
        <Self as Dynamics>::env_spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        reset::<Self>(&mut self.state, seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        step::<Self>(&mut self.state, one_value("MountainCarContinuous", action)?, obs)
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        Self::draw(&self.state).map(Some)
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&self.state)
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.state = snapshot::from_bytes(state)?;
        Ok(())
    }
}

impl Dynamics for MountainCarContinuous {
    type State = [f64; 3];
    type Action = f32;
    type Obs = [f32; 2];

    fn env_spec() -> EnvSpec {
        EnvSpec {
            name: "MountainCarContinuous-v0".to_owned(),
            observation: observation_space(),
            action: floats_within([MAX_FORCE]),
            max_episode_steps: Some(999),
            action_mask: false,
        }
    }

    fn start(seed: u64) -> [f64; 3] {
        let [position, velocity] = start(seed);
        [position, velocity, F64]
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 3], action: f32, sin_cos: impl SinCos) -> Outcome {
        let [position, velocity, precision] = *state;
        let is_f64 = precision == F64;
        let round = |value| if is_f64 { value } else { to_f32(value) };
        let pull = GRAVITY * sin_cos(round(3.0 * position)).1;
        let max_speed = round(MAX_SPEED);
        let velocity = round(velocity + round(acceleration(pull, action))).clamp(-max_speed, max_speed);
        let wall = round(MIN_POSITION);
        let position = round(position + velocity).clamp(wall, round(MAX_POSITION));
        let hits_the_wall = (position == wall) & (velocity < 0.0);
        let velocity = if hits_the_wall { 0.0 } else { velocity };
        let arrived = (position >= round(GOAL_POSITION)) & (velocity >= 0.0);
        *state = [to_f32(position), to_f32(velocity), F32];
        let cost = f64::from(action).powi(2) * 0.1;
        let reward = (if arrived { GOAL_REWARD - cost } else { -cost }) as f32;
        Outcome { reward, terminated: arrived }
    }

    #[inline(always)]
    fn observation(&[position, velocity, _]: &[f64; 3], _: impl SinCos) -> [f32; 2] {
        [position as f32, velocity as f32]
    }

    fn draw(&[position, ..]: &[f64; 3]) -> Result<Frame, EnvError> {
        draw(position, GOAL_POSITION)
    }
}

/// The change of velocity in one step.
#[inline(always)]
fn acceleration(pull: f64, action: f32) -> f64 {
    // NumPy 2 rounds what it multiplies with or adds to an f32 action to f32; a clipped action is a Python
    // float.
    let within = to_f32(to_f32(f64::from(action) * to_f32(POWER)) - to_f32(pull));
    let beyond = f64::from(action.clamp(-MAX_FORCE, MAX_FORCE)) * POWER - pull;
    if action.abs() <= MAX_FORCE { within } else { beyond }
}

#[inline(always)]
fn to_f32(value: f64) -> f64 {
    f64::from(value as f32)
}

#[cfg(test)]
mod tests;
