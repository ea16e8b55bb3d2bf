use pronk_policy::{Rng, Space};

use super::arithmetic::{floats_between, uniform};
use super::canvas::{BLACK, Canvas, GREY, Point, YELLOW, rectangle, turned};
use super::dynamics::{Dynamics, SinCos, index_below, reset, step};
use crate::env::{ActionRef, Env, EnvError, EnvSpec, Frame, ObsMut, Step, snapshot};
use crate::vector::Outcome;

pub(super) const MIN_POSITION: f64 = -1.2;
pub(super) const MAX_POSITION: f64 = 0.6;
pub(super) const MAX_SPEED: f64 = 0.07;
/// The factor of `cos(3 · position)` that gravity subtracts from the velocity in one step.
pub(super) const GRAVITY: f64 = 0.0025;
pub(super) const START: [f64; 2] = [-0.5, 0.0];
const FORCE: f64 = 0.001;
const GOAL_POSITION: f64 = 0.5;

/// MountainCar-v0: drive out of a valley with an engine that is too weak for it, by swinging.
///
/// Observation: position and velocity, per step. Actions: 0 drives left, 1 lets the car roll, 2 drives right.
/// Every step costs 1, the last one too; an episode terminates at position 0.5 and is truncated after 200
/// steps. The left end of the valley is a wall that stops the car.
///
/// Source: Moore 1990, as in Gymnasium 1.4 (`classic_control/mountain_car.py`): state in f64, the velocity
/// moves before the position does.
#[derive(Clone, Debug)]
pub struct MountainCar {
    /// Position, velocity.
    state: [f64; 2],
}

impl MountainCar {
    /// A car that stands in the valley; `reset` begins an episode.
    pub fn new() -> Self {
        Self::from_state(START)
    }

    /// An episode that continues from a state: position, velocity.
    pub fn from_state(state: [f64; 2]) -> Self {
        Self { state }
    }

    /// Position, velocity.
    pub fn state(&self) -> [f64; 2] {
        self.state
    }
}

impl Default for MountainCar {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for MountainCar {
    fn spec(&self) -> EnvSpec {
        <Self as Dynamics>::env_spec()
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        reset::<Self>(&mut self.state, seed, obs)
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        step::<Self>(&mut self.state, index_below(3, "MountainCar", action)?, obs)
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

impl Dynamics for MountainCar {
    type State = [f64; 2];
    type Action = u32;
    type Obs = [f32; 2];

    fn env_spec() -> EnvSpec {
        EnvSpec {
            name: "MountainCar-v0".to_owned(),
            observation: observation_space(),
            action: Space::Discrete { n: 3 },
            max_episode_steps: Some(200),
            action_mask: false,
        }
    }

    fn start(seed: u64) -> [f64; 2] {
        start(seed)
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 2], action: u32, sin_cos: impl SinCos) -> Outcome {
        let [position, velocity] = *state;
        let direction = f64::from(action) - 1.0;
        let pull = sin_cos(3.0 * position).1 * -GRAVITY;
        let velocity = (velocity + (direction * FORCE + pull)).clamp(-MAX_SPEED, MAX_SPEED);
        let position = (position + velocity).clamp(MIN_POSITION, MAX_POSITION);
        let hits_the_wall = (position == MIN_POSITION) & (velocity < 0.0);
        let velocity = if hits_the_wall { 0.0 } else { velocity };
        *state = [position, velocity];
        Outcome { reward: -1.0, terminated: (position >= GOAL_POSITION) & (velocity >= 0.0) }
    }

    #[inline(always)]
    fn observation(state: &[f64; 2], _: impl SinCos) -> [f32; 2] {
        state.map(|value| value as f32)
    }

    fn draw(&[position, _]: &[f64; 2]) -> Result<Frame, EnvError> {
        draw(position, GOAL_POSITION)
    }
}

/// The car on its hill and the flag at the goal: as in Gymnasium, but with its wheels on the ground.
pub(super) fn draw(position: f64, goal_position: f64) -> Result<Frame, EnvError> {
    let mut canvas = Canvas::new(600, 400)?;
    let pixels = 600.0 / (MAX_POSITION - MIN_POSITION);
    let on_hill = |position: f64| {
        let height = 0.45 * (3.0 * position).sin() + 0.55;
        [(position - MIN_POSITION) * pixels, height * pixels]
    };
    let hill: [Point; 101] =
        std::array::from_fn(|i| on_hill(MIN_POSITION + (MAX_POSITION - MIN_POSITION) * i as f64 / 100.0));
    canvas.line(&hill, 1.5, BLACK);

    let [x, foot] = on_hill(goal_position).map(f64::floor);
    let top = foot + 50.0;
    canvas.line(&[[x + 0.5, foot], [x + 0.5, top]], 1.0, BLACK);
    canvas.polygon(&[[x, top], [x, top - 10.0], [x + 25.0, top - 5.0]], YELLOW);

    // Along the slope, with the wheels on the ground.
    let slope = (0.45 * 3.0 * (3.0 * position).cos()).atan();
    let wheel_radius = 8.0;
    let axles = turned([0.0, wheel_radius], slope, on_hill(position));
    canvas.polygon(&rectangle([-20.0, 20.0, 0.0, 20.0], slope, axles), BLACK);
    for x in [-10.0, 10.0] {
        canvas.disc(turned([x, 0.0], slope, axles), wheel_radius, GREY);
    }
    canvas.frame()
}

/// The space of position and velocity.
pub(super) fn observation_space() -> Space {
    let (speed, left, right) = (MAX_SPEED as f32, MIN_POSITION as f32, MAX_POSITION as f32);
    floats_between([left, -speed], [right, speed])
}

/// The position and velocity that the episode with this seed begins with.
pub(super) fn start(seed: u64) -> [f64; 2] {
    [uniform(-0.6, -0.4, &mut Rng::seed_from(seed)), 0.0]
}

#[cfg(test)]
mod tests;
