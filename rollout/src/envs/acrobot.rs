use std::f64::consts::{FRAC_PI_2, PI, TAU};

use pronk_policy::{Rng, Space};

use super::arithmetic::{floats_within, uniform};
use super::canvas::{BLACK, Canvas, YELLOW, rectangle, turned};
use super::dynamics::{Dynamics, SinCos, index_below, reset, step};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step, snapshot};
use crate::vector::Outcome;

const GRAVITY: f64 = 9.8;
// Of each link: metres, kilograms, kilogram square metres, and metres from the joint to the centre of mass.
const LINK_LENGTH: f64 = 1.0;
const LINK_MASS: f64 = 1.0;
const LINK_INERTIA: f64 = 1.0;
const LINK_CENTRE: f64 = 0.5;
const STEP_SECS: f64 = 0.2;
const MAX_VELOCITY: [f64; 2] = [4.0 * PI, 9.0 * PI];

/// Acrobot-v1: swing the tip of two hanging links above a bar by turning the joint between them.
///
/// Observation: cosine and sine of the first link's angle (0 hangs down), cosine and sine of the second
/// link's angle relative to the first, both angular velocities (rad/s). Actions: 0, 1 and 2 apply a torque of
/// −1, 0 and 1 N·m. Every step but the last costs 1; an episode terminates when the tip is more than one
/// link's length above the fixed joint, and is truncated after 500 steps.
///
/// Source: Sutton 1996, as in Gymnasium 1.4 (`classic_control/acrobot.py`) with the dynamics of Sutton and
/// Barto's book: one Runge-Kutta step of 0.2 s in f64, then angles are wrapped to ±π and velocities clipped
/// to ±4π and ±9π. A reset rounds its state to f32.
#[derive(Clone, Debug, Default)]
pub struct Acrobot {
    /// Angle of the first link, angle of the second relative to it, and their velocities.
    state: [f64; 4],
}

impl Acrobot {
    /// Both links hanging at rest; `reset` begins an episode.
    pub fn new() -> Self {
        Self::default()
    }

    /// An episode that continues from a [state](Self::state).
    pub fn from_state(state: [f64; 4]) -> Self {
        Self { state }
    }

    /// The angles of the first link and of the second relative to it, and their velocities.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }
}

impl Env for Acrobot {
    fn spec(&self) -> EnvSpec {
        <Self as Dynamics>::env_spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        reset::<Self>(&mut self.state, seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        step::<Self>(&mut self.state, index_below(3, "Acrobot", action)?, obs)
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

impl Dynamics for Acrobot {
    type State = [f64; 4];
    type Action = u32;
    type Obs = [f32; 6];

    fn env_spec() -> EnvSpec {
        let [max_velocity1, max_velocity2] = MAX_VELOCITY.map(|bound| bound as f32);
        EnvSpec {
            name: "Acrobot-v1".to_owned(),
            observation: floats_within([1.0, 1.0, 1.0, 1.0, max_velocity1, max_velocity2]),
            action: Space::Discrete { n: 3 },
            max_episode_steps: Some(500),
            action_mask: false,
        }
    }

    fn start(seed: u64) -> [f64; 4] {
        let mut rng = Rng::seed_from(seed);
        [(); 4].map(|()| f64::from(uniform(-0.1, 0.1, &mut rng) as f32))
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 4], action: u32, sin_cos: impl SinCos) -> Outcome {
        let torque = f64::from(action) - 1.0;
        let [theta1, theta2, velocity1, velocity2] = runge_kutta(*state, torque, sin_cos);
        let [max1, max2] = MAX_VELOCITY;
        *state = [wrap(theta1), wrap(theta2), velocity1.clamp(-max1, max1), velocity2.clamp(-max2, max2)];
        let has_swung_up = height(state, sin_cos) > LINK_LENGTH;
        Outcome { reward: if has_swung_up { 0.0 } else { -1.0 }, terminated: has_swung_up }
    }

    #[inline(always)]
    fn observation(&[theta1, theta2, velocity1, velocity2]: &[f64; 4], sin_cos: impl SinCos) -> [f32; 6] {
        let ((sin1, cos1), (sin2, cos2)) = (sin_cos(theta1), sin_cos(theta2));
        [cos1, sin1, cos2, sin2, velocity1, velocity2].map(|value| value as f32)
    }

    /// As in Gymnasium: the line is the height to swing above.
    fn draw(&[theta1, theta2, ..]: &[f64; 4]) -> Result<Frame, EnvError> {
        let mut canvas = Canvas::new(500, 500)?;
        // Both links and a little more.
        let pixels_per_metre = 250.0 / (2.0 * LINK_LENGTH + 0.2);
        let length = LINK_LENGTH * pixels_per_metre;
        let half_width = 0.1 * pixels_per_metre;
        let bar = (250.0 + length).floor() + 0.5;
        canvas.line(&[[0.0, bar], [500.0, bar]], 1.0, BLACK);
        // An angle of 0 hangs down.
        let turns = [theta1 - FRAC_PI_2, theta1 + theta2 - FRAC_PI_2];
        let mut joint = [250.0, 250.0];
        for turn in turns {
            canvas.polygon(&rectangle([0.0, length, -half_width, half_width], turn, joint), [0, 204, 204]);
            canvas.disc(joint, half_width, YELLOW);
            joint = turned([length, 0.0], turn, joint);
        }
        Ok(canvas.frame()?.with_fps(15))
    }
}

/// The height of the tip above the fixed joint.
#[inline(always)]
fn height(&[theta1, theta2, ..]: &[f64; 4], sin_cos: impl SinCos) -> f64 {
    -sin_cos(theta1).1 - sin_cos(theta2 + theta1).1
}

/// One step of the fourth-order Runge-Kutta method.
#[inline(always)]
fn runge_kutta(state: [f64; 4], torque: f64, sin_cos: impl SinCos) -> [f64; 4] {
    let k1 = slope(state, torque, sin_cos);
    let k2 = slope(along(state, STEP_SECS / 2.0, k1), torque, sin_cos);
    let k3 = slope(along(state, STEP_SECS / 2.0, k2), torque, sin_cos);
    let k4 = slope(along(state, STEP_SECS, k3), torque, sin_cos);
    let mean = |i: usize| k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i];
    along(state, STEP_SECS / 6.0, [mean(0), mean(1), mean(2), mean(3)])
}

/// The state `secs` along a slope.
#[inline(always)]
fn along([a, b, c, d]: [f64; 4], secs: f64, slope: [f64; 4]) -> [f64; 4] {
    [a + secs * slope[0], b + secs * slope[1], c + secs * slope[2], d + secs * slope[3]]
}

/// The time derivative of the state, in the notation of Sutton and Barto.
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

/// The same angle between −π and π. An angle already in that range keeps its bits.
#[inline(always)]
fn wrap(angle: f64) -> f64 {
    let turns = ((angle.abs() - PI) / TAU).ceil().max(0.0);
    angle - (TAU * turns).copysign(angle)
}

#[cfg(test)]
mod tests;
