use super::{Acrobot, LINK_LENGTH, after, height, seen, start};
use crate::env::{Env, EnvSpec};
use crate::vector::{Kernel, Outcome, sin_cos};

impl Kernel for Acrobot {
    /// Angle of the first link, angle of the second relative to it, and their velocities.
    type State = [f64; 4];
    type Action = u32;
    type Obs = [f32; 6];

    fn env_spec() -> EnvSpec {
        Acrobot::new().spec()
    }

    fn start(seed: u64) -> [f64; 4] {
        start(seed)
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 4], action: u32) -> Outcome {
        *state = after(*state, f64::from(action) - 1.0, sin_cos);
        let has_swung_up = height(state, sin_cos) > LINK_LENGTH;
        Outcome { reward: if has_swung_up { 0.0 } else { -1.0 }, terminated: has_swung_up }
    }

    #[inline(always)]
    fn observation(state: &[f64; 4]) -> [f32; 6] {
        seen(state, sin_cos)
    }
}
