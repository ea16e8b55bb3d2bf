use super::{CartPole, FORCE_NEWTON, after, has_failed, start};
use crate::env::{Env, EnvSpec};
use crate::vector::{Kernel, Outcome, sin_cos};

impl Kernel for CartPole {
    /// Position, velocity, angle, angular velocity.
    type State = [f64; 4];
    type Action = u32;
    type Obs = [f32; 4];

    fn env_spec() -> EnvSpec {
        CartPole::new().spec()
    }

    fn start(seed: u64) -> [f64; 4] {
        start(seed)
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 4], action: u32) -> Outcome {
        let force = if action == 0 { -FORCE_NEWTON } else { FORCE_NEWTON };
        *state = after(*state, force, sin_cos);
        Outcome { reward: 1.0, terminated: has_failed(state) }
    }

    #[inline(always)]
    fn observation(state: &[f64; 4]) -> [f32; 4] {
        state.map(|value| value as f32)
    }
}
