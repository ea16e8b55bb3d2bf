use super::{MountainCarContinuous, Precision, after, reward};
use crate::env::{Env, EnvSpec};
use crate::envs::mountain_car;
use crate::vector::{Kernel, Outcome, sin_cos};

impl Kernel for MountainCarContinuous {
    /// Position, velocity, and whether both are f32, 1, or those of a reset, 0.
    type State = [f64; 3];
    type Action = f32;
    type Obs = [f32; 2];

    fn env_spec() -> EnvSpec {
        MountainCarContinuous::new().spec()
    }

    fn start(seed: u64) -> [f64; 3] {
        let [position, velocity] = mountain_car::start(seed);
        [position, velocity, 0.0]
    }

    #[inline(always)]
    fn advance(state: &mut [f64; 3], action: f32) -> Outcome {
        let [position, velocity, is_f32] = *state;
        let precision = if is_f32 == 0.0 { Precision::F64 } else { Precision::F32 };
        let ([position, velocity], arrived) = after([position, velocity], precision, action, sin_cos);
        *state = [position, velocity, 1.0];
        Outcome { reward: reward(action, arrived), terminated: arrived }
    }

    #[inline(always)]
    fn observation(&[position, velocity, _]: &[f64; 3]) -> [f32; 2] {
        [position as f32, velocity as f32]
    }
}
