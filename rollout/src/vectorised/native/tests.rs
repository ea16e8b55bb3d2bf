#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{FinalObs, ObsKind};
use pronk_policy::{Rng, Space};

use super::*;
use crate::envs::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};

const CONTEXT: VectorContext = VectorContext { worker: 3, incarnation: 1, first_env: 0, seed: 5 };

/// A block and a part of one.
const N_ENVS: usize = BLOCK + 11;

/// Everything that `n_steps` random steps give, as bits.
fn bits_of_a_run<K: Kernel>(arch: Arch, n_steps: usize) -> Vec<u64> {
    let mut envs = NativeVectorEnv::<K>::with_time_limit(&CONTEXT, N_ENVS, Some(60)).unwrap();
    envs.arch = arch;
    let mut rng = Rng::seed_from(1);
    let (mut obs, mut rewards, mut ends) =
        (vec![0.0; N_ENVS * obs_len::<K>()], vec![0.0; N_ENVS], vec![End::No; N_ENVS]);
    let mut final_obs = FinalObs::new(ObsKind::F32, obs_len::<K>());
    envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
    let mut bits = Vec::new();
    for t in 0..n_steps {
        let choices: Vec<u32> = (0..N_ENVS).map(|_| rng.below(2) as u32).collect();
        let numbers: Vec<f32> = choices.iter().map(|choice| *choice as f32 * 3.0 - 1.5).collect();
        let actions = match K::env_spec().action {
            Space::Box { .. } => ActionRef::Continuous(&numbers),
            _ => ActionRef::Discrete(&choices),
        };
        let out = VectorStep {
            t,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut rewards,
            ends: &mut ends,
            final_obs: &mut final_obs,
        };
        envs.step(actions, out).unwrap();
        bits.extend(obs.iter().chain(&rewards).map(|number| u64::from(number.to_bits())));
        bits.extend(ends.iter().map(|end| *end as u64));
    }
    bits.extend(envs.states.columns.iter().flatten().map(|number| number.to_bits()));
    bits
}

#[test]
fn every_set_of_instructions_gives_the_same_bits() {
    fn check<K: Kernel>() {
        let [widest, plain] = [Arch::new(), Arch::Scalar].map(|arch| bits_of_a_run::<K>(arch, 200));
        assert!(widest == plain, "{}", K::env_spec().name);
    }
    check::<Acrobot>();
    check::<CartPole>();
    check::<MountainCar>();
    check::<MountainCarContinuous>();
    check::<Pendulum>();
}

#[test]
fn a_kernel_that_does_not_fit_its_spaces_is_refused() {
    struct TooLong;
    impl Kernel for TooLong {
        type State = [f64; 1];
        type Action = u32;
        type Obs = [f32; 2];

        fn env_spec() -> EnvSpec {
            let observation = Space::boxed(vec![0.0], vec![1.0], vec![1]).unwrap();
            EnvSpec { name: "TooLong".into(), observation, ..CartPole::env_spec() }
        }
        fn start(_: u64) -> [f64; 1] {
            [0.0]
        }
        fn advance(_: &mut [f64; 1], _: u32) -> super::super::Outcome {
            unreachable!("it is never made")
        }
        fn observation(_: &[f64; 1]) -> [f32; 2] {
            [0.0; 2]
        }
    }
    let error = NativeVectorEnv::<TooLong>::new(&CONTEXT, 1).map(drop).expect_err("refused").to_string();
    assert!(error.contains("the kernel writes 2 floats"), "{error}");
    let error = NativeVectorEnv::<CartPole>::new(&CONTEXT, 0).map(drop).expect_err("refused").to_string();
    assert!(error.contains("at least one environment, got 0"), "{error}");
    let no_step = NativeVectorEnv::<CartPole>::with_time_limit(&CONTEXT, 1, Some(0)).map(drop);
    assert!(no_step.expect_err("refused").to_string().contains("max_episode_steps is 0"));
}
