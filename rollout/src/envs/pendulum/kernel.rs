use super::{MAX_TORQUE, Pendulum, after, cost, seen, start};
use crate::env::{Env, EnvSpec};
use crate::vector::{Kernel, Outcome, sin_cos};

impl Kernel for Pendulum {
    /// Angle, as far as it was turned, and angular velocity.
    type State = [f64; 2];
    type Action = f32;
    type Obs = [f32; 3];

    fn env_spec() -> EnvSpec {
        Pendulum::new().spec()
    }

    fn start(seed: u64) -> [f64; 2] {
        start(seed)
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 2], action: f32) -> Outcome {
        let torque = action.clamp(-MAX_TORQUE, MAX_TORQUE);
        let reward = -cost(state, torque) as f32;
        *state = after(*state, torque, sin_cos);
        Outcome { reward, terminated: false }
    }

    #[inline(always)]
    fn observation(state: &[f64; 2]) -> [f32; 3] {
        seen(state, sin_cos)
    }
}
