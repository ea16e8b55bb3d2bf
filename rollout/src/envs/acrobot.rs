use std::f64::consts::{FRAC_PI_2, PI, TAU};

use pronk_buffer::End;
use pronk_policy::{Rng, Space};

use super::arithmetic::{SinCos, numbers_between, uniform};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, ObsMut, Step};

mod kernel;

const GRAVITY: f64 = 9.8;

/// Both links are alike: metres, kilograms, kilogram square metres, and metres from joint to centre of mass.
pub(super) const LINK_LENGTH: f64 = 1.0;

const LINK_MASS: f64 = 1.0;

const LINK_INERTIA: f64 = 1.0;

const LINK_CENTRE: f64 = 0.5;

const STEP_SECS: f64 = 0.2;

const MAX_VELOCITY: [f64; 2] = [4.0 * PI, 9.0 * PI];

/// Acrobot-v1: swing the tip of two hanging links above a bar by turning the joint between them.
///
/// Observation: cosine and sine of the first link's angle (0 hangs down), cosine and sine of the second link's angle
/// relative to the first, both angular velocities (rad/s). Actions: 0, 1 and 2 turn the joint with −1, 0 and 1 N·m. Every
/// step costs 1 but the last; an episode terminates when the tip is more than one link's length above the fixed joint, and
/// is truncated after 500 steps.
///
/// Source: Sutton 1996, as in Gymnasium 1.4 (`classic_control/acrobot.py`) with the dynamics of Sutton and Barto's book: one
/// Runge-Kutta step of 0.2 s in f64, then angles are wrapped to ±π and velocities clipped to ±4π and ±9π. A reset rounds its
/// state to f32.
///
/// ```
/// use pronk_rollout::{Acrobot, ActionRef, Env, ObsMut};
///
/// let mut env = Acrobot::new();
/// let mut obs = [0.0; 6];
/// env.reset(0, ObsMut::F32(&mut obs))?;
/// assert!(obs[0] > 0.99 && obs[2] > 0.99, "both links hang almost straight down");
/// let step = env.step(ActionRef::Discrete(&[2]), ObsMut::F32(&mut obs))?;
/// assert_eq!(step.reward, -1.0);
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Acrobot {
    /// Angle of the first link, angle of the second relative to it, and their velocities.
    state: [f64; 4],
}

impl Acrobot {
    /// Two links that hang down at rest; `reset` begins an episode.
    pub fn new() -> Self {
        Self::default()
    }

    /// An episode that goes on from a given state: the first link's angle, the second's relative to it, and their velocities.
    pub fn from_state(state: [f64; 4]) -> Self {
        Self { state }
    }

    /// The first link's angle, the second's relative to it, and their velocities.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }

    fn observe(&self, obs: ObsMut<'_>) -> Result<(), EnvError> {
        obs.write(&seen(&self.state, f64::sin_cos))
    }
}

impl Env for Acrobot {
    fn spec(&self) -> EnvSpec {
        let [max_velocity1, max_velocity2] = MAX_VELOCITY.map(|bound| bound as f32);
        let high = [1.0, 1.0, 1.0, 1.0, max_velocity1, max_velocity2];
        EnvSpec {
            name: "Acrobot-v1".to_owned(),
            observation: numbers_between(high.map(|bound| -bound), high),
            action: Space::Discrete { n: 3 },
            max_episode_steps: Some(500),
            action_mask: false,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.state = start(seed);
        self.observe(obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let torque = match action.discrete()? {
            0 => -1.0,
            1 => 0.0,
            2 => 1.0,
            other => return Err(EnvError::new(format!("Acrobot has the actions 0, 1 and 2, got {other}"))),
        };
        self.state = after(self.state, torque, f64::sin_cos);
        let has_swung_up = height(&self.state, f64::sin_cos) > LINK_LENGTH;
        self.observe(obs)?;
        Ok(if has_swung_up { Step { reward: 0.0, end: End::Terminated } } else { Step { reward: -1.0, end: End::No } })
    }
}

/// The state that the episode with this seed begins with.
pub(super) fn start(seed: u64) -> [f64; 4] {
    let mut rng = Rng::seed_from(seed);
    [(); 4].map(|()| f64::from(uniform(-0.1, 0.1, &mut rng) as f32))
}

/// What can be seen of a state.
#[inline(always)]
pub(super) fn seen(&[theta1, theta2, velocity1, velocity2]: &[f64; 4], sin_cos: impl SinCos) -> [f32; 6] {
    let ((sin1, cos1), (sin2, cos2)) = (sin_cos(theta1), sin_cos(theta2));
    [cos1, sin1, cos2, sin2, velocity1, velocity2].map(|value| value as f32)
}

/// How high the tip is above the fixed joint.
#[inline(always)]
pub(super) fn height(&[theta1, theta2, ..]: &[f64; 4], sin_cos: impl SinCos) -> f64 {
    -sin_cos(theta1).1 - sin_cos(theta2 + theta1).1
}

/// The state after a step with this torque.
#[inline(always)]
pub(super) fn after(state: [f64; 4], torque: f64, sin_cos: impl SinCos) -> [f64; 4] {
    let [theta1, theta2, velocity1, velocity2] = runge_kutta(state, torque, sin_cos);
    let [max1, max2] = MAX_VELOCITY;
    [wrap(theta1), wrap(theta2), velocity1.clamp(-max1, max1), velocity2.clamp(-max2, max2)]
}

/// One step of the classical Runge-Kutta method, of fourth order.
#[inline(always)]
fn runge_kutta(state: [f64; 4], torque: f64, sin_cos: impl SinCos) -> [f64; 4] {
    let k1 = slope(state, torque, sin_cos);
    let k2 = slope(along(state, STEP_SECS / 2.0, k1), torque, sin_cos);
    let k3 = slope(along(state, STEP_SECS / 2.0, k2), torque, sin_cos);
    let k4 = slope(along(state, STEP_SECS, k3), torque, sin_cos);
    let mean = |i: usize| k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i];
    along(state, STEP_SECS / 6.0, [mean(0), mean(1), mean(2), mean(3)])
}

/// Where a slope leads in so many seconds.
#[inline(always)]
fn along([a, b, c, d]: [f64; 4], secs: f64, slope: [f64; 4]) -> [f64; 4] {
    [a + secs * slope[0], b + secs * slope[1], c + secs * slope[2], d + secs * slope[3]]
}

/// The derivative of the state by time. The names are the book's.
#[inline(always)]
fn slope([theta1, theta2, velocity1, velocity2]: [f64; 4], torque: f64, sin_cos: impl SinCos) -> [f64; 4] {
    let (m, l, lc, inertia) = (LINK_MASS, LINK_LENGTH, LINK_CENTRE, LINK_INERTIA);
    let (sin2, cos2) = sin_cos(theta2);
    let d1 = m * lc * lc + m * (l * l + lc * lc + 2.0 * l * lc * cos2) + 2.0 * inertia;
    let d2 = m * (lc * lc + l * lc * cos2) + inertia;
    let phi2 = m * lc * GRAVITY * sin_cos(theta1 + theta2 - FRAC_PI_2).1;
    let phi1 = -m * l * lc * velocity2 * velocity2 * sin2 - 2.0 * m * l * lc * velocity2 * velocity1 * sin2
        + (m * lc + m * l) * GRAVITY * sin_cos(theta1 - FRAC_PI_2).1
        + phi2;
    let acceleration2 = (torque + d2 / d1 * phi1 - m * l * lc * velocity1 * velocity1 * sin2 - phi2)
        / (m * lc * lc + inertia - d2 * d2 / d1);
    let acceleration1 = -(d2 * acceleration2 + phi1) / d1;
    [velocity1, velocity2, acceleration1, acceleration2]
}

/// The same angle between −π and π. One that lies there already stays as it is, to the bit.
#[inline(always)]
fn wrap(angle: f64) -> f64 {
    let turns = ((angle.abs() - PI) / TAU).ceil().max(0.0);
    angle - (TAU * turns).copysign(angle)
}

#[cfg(test)]
mod tests;
