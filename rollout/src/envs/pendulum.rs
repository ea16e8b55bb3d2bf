use std::f64::consts::{FRAC_PI_2, PI, TAU};

use pronk_policy::Rng;

use super::arithmetic::{floats_within, uniform};
use super::canvas::{BLACK, Canvas, rectangle, turned};
use super::dynamics::{Dynamics, SinCos, one_value, reset, step};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step, snapshot};
use crate::vector::Outcome;

const GRAVITY: f64 = 10.0;
/// In metres.
const LENGTH: f64 = 1.0;
/// In kilograms.
const MASS: f64 = 1.0;
const MAX_TORQUE: f32 = 2.0;
const MAX_SPEED: f64 = 8.0;
const STEP_SECS: f64 = 0.05;

/// Pendulum-v1: swing a pendulum up with a weak motor and hold it there.
///
/// Observation: cosine and sine of the angle (0 is upright), angular velocity (rad/s). Action: the torque in
/// N·m, clipped to ±2. A step costs `angle² + 0.1 velocity² + 0.001 torque²`, with angle (between ±π) and
/// velocity as they were *before* it. Episodes never terminate; they are truncated after 200 steps.
///
/// Source: Gymnasium 1.4 (`classic_control/pendulum.py`): state in f64, steps of 0.05 s in which the angle
/// moves by the velocity *after* the step. The angle of the state is not wrapped.
#[derive(Clone, Debug)]
pub struct Pendulum {
    /// Angle, angular velocity.
    state: [f64; 2],
}

impl Pendulum {
    /// A pendulum that hangs down at rest; `reset` begins an episode.
    pub fn new() -> Self {
        Self::from_state([PI, 0.0])
    }

    /// An episode that continues from a state: angle, angular velocity.
    pub fn from_state(state: [f64; 2]) -> Self {
        Self { state }
    }

    /// The angle, not wrapped, and the angular velocity.
    pub fn state(&self) -> [f64; 2] {
        self.state
    }
}

impl Default for Pendulum {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for Pendulum {
    fn spec(&self) -> EnvSpec {
        <Self as Dynamics>::env_spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        reset::<Self>(&mut self.state, seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        step::<Self>(&mut self.state, one_value("Pendulum", action)?, obs)
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

impl Dynamics for Pendulum {
    type State = [f64; 2];
    type Action = f32;
    type Obs = [f32; 3];

    fn env_spec() -> EnvSpec {
        EnvSpec {
            name: "Pendulum-v1".to_owned(),
            observation: floats_within([1.0, 1.0, MAX_SPEED as f32]),
            action: floats_within([MAX_TORQUE]),
            max_episode_steps: Some(200),
            action_mask: false,
        }
    }

    fn start(seed: u64) -> [f64; 2] {
        let mut rng = Rng::seed_from(seed);
        [uniform(-PI, PI, &mut rng), uniform(-1.0, 1.0, &mut rng)]
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 2], action: f32, sin_cos: impl SinCos) -> Outcome {
        let [angle, velocity] = *state;
        let torque = action.clamp(-MAX_TORQUE, MAX_TORQUE);
        let off_upright = angle - TAU * ((angle + PI) / TAU).floor();
        // The torque is an f32, so NumPy computes this term in f32.
        let effort = f64::from(0.001 * (torque * torque));
        let cost = off_upright * off_upright + 0.1 * velocity * velocity + effort;

        let gravity = 3.0 * GRAVITY / (2.0 * LENGTH) * sin_cos(angle).0;
        let motor = f64::from((3.0 / (MASS * LENGTH * LENGTH)) as f32 * torque);
        let velocity = (velocity + (gravity + motor) * STEP_SECS).clamp(-MAX_SPEED, MAX_SPEED);
        *state = [angle + velocity * STEP_SECS, velocity];
        Outcome { reward: -cost as f32, terminated: false }
    }

    #[inline(always)]
    fn observation(&[angle, velocity]: &[f64; 2], sin_cos: impl SinCos) -> [f32; 3] {
        let (sin, cos) = sin_cos(angle);
        [cos, sin, velocity].map(|value| value as f32)
    }

    /// As in Gymnasium, without the arrow of the torque, which is no part of the state.
    fn draw(&[angle, _]: &[f64; 2]) -> Result<Frame, EnvError> {
        let mut canvas = Canvas::new(500, 500)?;
        let pixels_per_metre = 250.0 / (2.0 * LENGTH + 0.2);
        let (length, half_width) = (LENGTH * pixels_per_metre, 0.1 * pixels_per_metre);
        let (centre, rod) = ([250.0, 250.0], [204, 77, 77]);
        // An angle of 0 is upright.
        let turn = angle + FRAC_PI_2;
        canvas.polygon(&rectangle([0.0, length, -half_width, half_width], turn, centre), rod);
        canvas.disc(centre, half_width, rod);
        canvas.disc(turned([length, 0.0], turn, centre), half_width, rod);
        canvas.disc(centre, 0.05 * pixels_per_metre, BLACK);
        canvas.frame()
    }
}

#[cfg(test)]
mod tests;
