use super::{MountainCar, after, has_arrived, start};
use crate::env::{Env, EnvSpec};
use crate::vector::{Kernel, Outcome, sin_cos};

impl Kernel for MountainCar {
    /// Position, velocity.
    type State = [f64; 2];
    type Action = u32;
    type Obs = [f32; 2];

    fn env_spec() -> EnvSpec {
        MountainCar::new().spec()
    }

    fn start(seed: u64) -> [f64; 2] {
        start(seed)
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 2], action: u32) -> Outcome {
        *state = after(*state, f64::from(action) - 1.0, sin_cos);
        Outcome { reward: -1.0, terminated: has_arrived(state) }
    }

    #[inline(always)]
    fn observation(state: &[f64; 2]) -> [f32; 2] {
        state.map(|value| value as f32)
    }
}
