use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use super::arithmetic::{floats_within, uniform};
use super::canvas::{BLACK, Canvas, rectangle};
use super::dynamics::{Dynamics, SinCos, index_below, reset, step};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step, snapshot};
use crate::vector::Outcome;

const GRAVITY: f64 = 9.8;
const CART_MASS: f64 = 1.0;
const POLE_MASS: f64 = 0.1;
/// The inverse of the total mass: a multiplication is several times faster than a division.
const PER_MASS: f64 = 1.0 / (CART_MASS + POLE_MASS);
/// Half the pole's length, in metres.
const POLE_HALF_LENGTH: f64 = 0.5;
const FORCE_NEWTON: f64 = 10.0;
const STEP_SECS: f64 = 0.02;
const MAX_POSITION: f64 = 2.4;
const MAX_ANGLE: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;

/// CartPole-v1: push a cart left or right so that the pole on it stays up.
///
/// Observation: cart position (m), cart velocity (m/s), pole angle (rad), pole angular velocity (rad/s).
/// Actions: 0 pushes left, 1 right. Every step is worth 1, the failing one too; an episode terminates when
/// the cart leaves ±2.4 m or the pole ±12°, and is truncated after 500 steps.
///
/// Source: Barto, Sutton and Anderson 1983, as in Gymnasium 1.4 (`classic_control/cartpole.py`): state in
/// f64, explicit Euler steps of 0.02 s in which positions move by the velocities *before* the step.
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

    /// An episode that continues from a state: position, velocity, angle, angular velocity.
    pub fn from_state(state: [f64; 4]) -> Self {
        Self { state, fallen: false }
    }

    /// Position, velocity, angle, angular velocity.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }
}

impl Env for CartPole {
    fn spec(&self) -> EnvSpec {
        <Self as Dynamics>::env_spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.fallen = false;
        reset::<Self>(&mut self.state, seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let step = step::<Self>(&mut self.state, index_below(2, "CartPole", action)?, obs)?;
        let terminated = step.end == End::Terminated;
        // As in Gymnasium, a step past the end of an episode is worth 0.
        let reward = if terminated && self.fallen { 0.0 } else { step.reward };
        self.fallen |= terminated;
        Ok(Step { reward, ..step })
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        Self::draw(&self.state).map(Some)
    }

    fn save(&self) -> Option<Vec<u8>> {
        snapshot::to_bytes(&(self.state, self.fallen))
    }

    fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        (self.state, self.fallen) = snapshot::from_bytes(state)?;
        Ok(())
    }
}

impl Dynamics for CartPole {
    type State = [f64; 4];
    type Action = u32;
    type Obs = [f32; 4];

    fn env_spec() -> EnvSpec {
        let high = [(2.0 * MAX_POSITION) as f32, f32::INFINITY, (2.0 * MAX_ANGLE) as f32, f32::INFINITY];
        EnvSpec {
            name: "CartPole-v1".to_owned(),
            observation: floats_within(high),
            action: Space::Discrete { n: 2 },
            max_episode_steps: Some(500),
            action_mask: false,
        }
    }

    #[inline]
    fn start(seed: u64) -> [f64; 4] {
        let mut rng = Rng::seed_from(seed);
        [(); 4].map(|()| uniform(-0.05, 0.05, &mut rng))
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 4], action: u32, sin_cos: impl SinCos) -> Outcome {
        let [x, x_dot, theta, theta_dot] = *state;
        let force = if action == 0 { -FORCE_NEWTON } else { FORCE_NEWTON };
        let (sin, cos) = sin_cos(theta);
        let pole_mass_length = POLE_MASS * POLE_HALF_LENGTH;
        let push = (force + pole_mass_length * theta_dot * theta_dot * sin) * PER_MASS;
        let theta_acc =
            (GRAVITY * sin - cos * push) / (POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * PER_MASS * cos * cos));
        let x_acc = push - pole_mass_length * PER_MASS * theta_acc * cos;
        let (x, theta) = (x + STEP_SECS * x_dot, theta + STEP_SECS * theta_dot);
        *state = [x, x_dot + STEP_SECS * x_acc, theta, theta_dot + STEP_SECS * theta_acc];
        Outcome { reward: 1.0, terminated: (x.abs() > MAX_POSITION) | (theta.abs() > MAX_ANGLE) }
    }

    #[inline(always)]
    fn observation(state: &[f64; 4], _: impl SinCos) -> [f32; 4] {
        state.map(|value| value as f32)
    }

    /// As in Gymnasium: the track is as wide as the cart may go.
    fn draw(&[x, _, theta, _]: &[f64; 4]) -> Result<Frame, EnvError> {
        let mut canvas = Canvas::new(600, 400)?;
        let pixels_per_metre = 600.0 / (2.0 * MAX_POSITION);
        let cart = [300.0 + x * pixels_per_metre, 100.0];
        let axle = [cart[0], cart[1] + 7.5];
        let pole_end = 2.0 * POLE_HALF_LENGTH * pixels_per_metre - 5.0;
        canvas.line(&[[0.0, 100.5], [600.0, 100.5]], 1.0, BLACK);
        canvas.polygon(&rectangle([-25.0, 25.0, -15.0, 15.0], 0.0, cart), BLACK);
        canvas.polygon(&rectangle([-5.0, 5.0, -5.0, pole_end], -theta, axle), [202, 152, 101]);
        canvas.disc(axle, 5.0, [129, 132, 203]);
        Ok(canvas.frame()?.with_fps(50))
    }
}

#[cfg(test)]
mod tests;
