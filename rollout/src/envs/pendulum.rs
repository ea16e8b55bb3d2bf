use std::f64::consts::{PI, TAU};

use pronk_buffer::End;
use pronk_policy::Rng;

use super::arithmetic::{SinCos, numbers_between, one_number, uniform};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};

mod kernel;

const GRAVITY: f64 = 10.0;

/// Metres and kilograms.
const LENGTH: f64 = 1.0;

const MASS: f64 = 1.0;

pub(super) const MAX_TORQUE: f32 = 2.0;

const MAX_SPEED: f64 = 8.0;

const STEP_SECS: f64 = 0.05;

/// Pendulum-v1: swing a pendulum up with a weak motor and hold it there.
///
/// Observation: cosine and sine of the angle (0 is upright), angular velocity (rad/s). Action: the torque in N·m, clipped to
/// ±2. A step costs `angle² + 0.1 velocity² + 0.001 torque²`, with angle (between ±π) and velocity as they were *before* it.
/// Episodes never terminate; they are truncated after 200 steps.
///
/// Source: Gymnasium 1.4 (`classic_control/pendulum.py`): state in f64, steps of 0.05 s in which the angle moves by the
/// velocity *after* the step. The angle of the state is not wrapped.
///
/// ```
/// use pronk_rollout::{ActionRef, Env, ObsMut, Pendulum};
///
/// let mut env = Pendulum::new();
/// let mut obs = [0.0; 3];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// let step = env.step(ActionRef::Continuous(&[0.5]), ObsMut::F32(&mut obs))?;
/// assert!(step.reward < 0.0, "everything but standing still upright costs something");
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pendulum {
    angle: f64,
    velocity: f64,
}

impl Pendulum {
    /// A pendulum that hangs down at rest; `reset` begins an episode.
    pub fn new() -> Self {
        Self::from_state([PI, 0.0])
    }

    /// An episode that goes on from a given state: angle, angular velocity.
    pub fn from_state([angle, velocity]: [f64; 2]) -> Self {
        Self { angle, velocity }
    }

    /// Angle, as far as it was turned, and angular velocity.
    pub fn state(&self) -> [f64; 2] {
        [self.angle, self.velocity]
    }

    fn observe(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&seen(&self.state(), f64::sin_cos))
    }
}

impl Default for Pendulum {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for Pendulum {
    fn spec(&self) -> EnvSpec {
        let high = [1.0, 1.0, MAX_SPEED as f32];
        EnvSpec {
            name: "Pendulum-v1".to_owned(),
            observation: numbers_between(high.map(|bound| -bound), high),
            action: numbers_between([-MAX_TORQUE], [MAX_TORQUE]),
            max_episode_steps: Some(200),
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        *self = Self::from_state(start(seed));
        self.observe(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let torque = one_number("Pendulum", action)?.clamp(-MAX_TORQUE, MAX_TORQUE);
        let cost = cost(&self.state(), torque);
        *self = Self::from_state(after(self.state(), torque, f64::sin_cos));
        self.observe(obs)?;
        Ok(Step { reward: -cost as f32, end: End::No })
    }
}

/// The state that the episode with this seed begins with: angle, angular velocity.
pub(super) fn start(seed: u64) -> [f64; 2] {
    let mut rng = Rng::seed_from(seed);
    [uniform(-PI, PI, &mut rng), uniform(-1.0, 1.0, &mut rng)]
}

/// What can be seen of a state.
#[inline(always)]
pub(super) fn seen(&[angle, velocity]: &[f64; 2], sin_cos: impl SinCos) -> [f32; 3] {
    let (sin, cos) = sin_cos(angle);
    [cos, sin, velocity].map(|value| value as f32)
}

/// What a step costs that begins in a state.
#[inline(always)]
pub(super) fn cost(&[angle, velocity]: &[f64; 2], torque: f32) -> f64 {
    let off_upright = angle - TAU * ((angle + PI) / TAU).floor();
    // The torque is an f32, and so is what comes of it alone.
    let effort = f64::from(0.001 * (torque * torque));
    off_upright * off_upright + 0.1 * velocity * velocity + effort
}

/// The state after a step with a torque within bounds.
#[inline(always)]
pub(super) fn after([angle, velocity]: [f64; 2], torque: f32, sin_cos: impl SinCos) -> [f64; 2] {
    let gravity = 3.0 * GRAVITY / (2.0 * LENGTH) * sin_cos(angle).0;
    let motor = f64::from((3.0 / (MASS * LENGTH * LENGTH)) as f32 * torque);
    let velocity = (velocity + (gravity + motor) * STEP_SECS).clamp(-MAX_SPEED, MAX_SPEED);
    [angle + velocity * STEP_SECS, velocity]
}

#[cfg(test)]
mod tests;
