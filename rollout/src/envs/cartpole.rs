use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use super::arithmetic::{SinCos, numbers_between, uniform};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};

mod kernel;

const GRAVITY: f64 = 9.8;

const CART_MASS: f64 = 1.0;

const POLE_MASS: f64 = 0.1;

/// One by the mass of both: a multiplication takes a fraction of a division's time.
const PER_MASS: f64 = 1.0 / (CART_MASS + POLE_MASS);

/// Half the pole's length, in metres.
const POLE_HALF_LENGTH: f64 = 0.5;

pub(super) const FORCE_NEWTON: f64 = 10.0;

const STEP_SECS: f64 = 0.02;

const MAX_POSITION: f64 = 2.4;

const MAX_ANGLE: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;

/// CartPole-v1: push a cart left or right so that the pole on it stays up.
///
/// Observation: cart position (m), cart velocity (m/s), pole angle (rad), pole angular velocity (rad/s). Actions: 0 pushes
/// left, 1 right. Every step is worth 1, the failing one too; an episode terminates when the cart leaves ±2.4 m or the
/// pole ±12°, and is truncated after 500 steps.
///
/// Source: Barto, Sutton and Anderson 1983, as in Gymnasium 1.4 (`classic_control/cartpole.py`): state in f64, explicit
/// Euler steps of 0.02 s in which positions move by the velocities *before* the step.
///
/// ```
/// use pronk_rollout::{ActionRef, CartPole, Env, ObsMut};
///
/// let mut env = CartPole::new();
/// let mut obs = [0.0; 4];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// let step = env.step(ActionRef::Discrete(&[1]), ObsMut::F32(&mut obs))?;
/// assert_eq!(step.reward, 1.0);
/// assert!(obs[1] > 0.1, "a push to the right moves the cart to the right");
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CartPole {
    /// Position, velocity, angle, angular velocity.
    state: [f64; 4],
    /// Whether the pole has fallen in this episode.
    fallen: bool,
}

impl CartPole {
    /// A cart at rest in the middle; `reset` begins an episode.
    pub fn new() -> Self {
        Self::default()
    }

    /// An episode that goes on from a given state: position, velocity, angle, angular velocity.
    pub fn from_state(state: [f64; 4]) -> Self {
        Self { state, fallen: false }
    }

    /// Position, velocity, angle, angular velocity.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }

    fn observe(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&self.state.map(|value| value as f32))
    }
}

impl Env for CartPole {
    fn spec(&self) -> EnvSpec {
        let high = [(2.0 * MAX_POSITION) as f32, f32::INFINITY, (2.0 * MAX_ANGLE) as f32, f32::INFINITY];
        EnvSpec {
            name: "CartPole-v1".to_owned(),
            observation: numbers_between(high.map(|bound| -bound), high),
            action: Space::Discrete { n: 2 },
            max_episode_steps: Some(500),
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        *self = Self::from_state(start(seed));
        self.observe(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let force = match action.discrete()? {
            0 => -FORCE_NEWTON,
            1 => FORCE_NEWTON,
            other => return Err(EnvError::new(format!("CartPole has the actions 0 and 1, got {other}"))),
        };
        self.state = after(self.state, force, f64::sin_cos);

        let terminated = has_failed(&self.state);
        // The step on which the pole falls is worth 1; whoever steps on after that earns nothing while it lies.
        let reward = if terminated && self.fallen { 0.0 } else { 1.0 };
        self.fallen |= terminated;
        self.observe(obs)?;
        Ok(Step { reward, end: if terminated { End::Terminated } else { End::No } })
    }
}

/// The state that the episode with this seed begins with.
pub(super) fn start(seed: u64) -> [f64; 4] {
    let mut rng = Rng::seed_from(seed);
    [(); 4].map(|()| uniform(-0.05, 0.05, &mut rng))
}

/// The state after a step with this force, in newton.
#[inline(always)]
pub(super) fn after([x, x_dot, theta, theta_dot]: [f64; 4], force: f64, sin_cos: impl SinCos) -> [f64; 4] {
    let (sin, cos) = sin_cos(theta);
    let pole_mass_length = POLE_MASS * POLE_HALF_LENGTH;
    let push = (force + pole_mass_length * theta_dot * theta_dot * sin) * PER_MASS;
    let theta_acc = (GRAVITY * sin - cos * push) / (POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * PER_MASS * cos * cos));
    let x_acc = push - pole_mass_length * PER_MASS * theta_acc * cos;
    [x + STEP_SECS * x_dot, x_dot + STEP_SECS * x_acc, theta + STEP_SECS * theta_dot, theta_dot + STEP_SECS * theta_acc]
}

/// Whether the cart has left its track or the pole has fallen.
#[inline(always)]
pub(super) fn has_failed(&[x, _, theta, _]: &[f64; 4]) -> bool {
    (x.abs() > MAX_POSITION) | (theta.abs() > MAX_ANGLE)
}

#[cfg(test)]
mod tests;
