#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{FinalObs, ObsKind};
use pronk_policy::{Rng, Space};

use super::*;
use crate::envs::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use crate::vector::Outcome;

const CONTEXT: VectorContext =
    VectorContext { worker: 3, incarnation: 1, first_env: 0, seed: 5, purpose: crate::env::EnvPurpose::Training };

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
fn an_episode_without_a_limit_goes_on_after_more_steps_than_can_be_counted() {
    let mut envs = NativeVectorEnv::<Pendulum>::with_time_limit(&CONTEXT, 1, None).unwrap();
    let (mut obs, mut rewards, mut ends) = (vec![0.0; obs_len::<Pendulum>()], [0.0], [End::No]);
    let mut final_obs = FinalObs::new(ObsKind::F32, obs_len::<Pendulum>());
    envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
    envs.episodes.lens[0] = u32::MAX - 1;
    for t in 0..2 {
        let out = VectorStep {
            t,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut rewards,
            ends: &mut ends,
            final_obs: &mut final_obs,
        };
        envs.step(ActionRef::Continuous(&[0.0]), out).unwrap();
        assert_eq!((ends[0], envs.episodes.lens[0]), (End::No, u32::MAX));
    }
}

/// CartPole that says something else about itself.
struct Other<const WHAT: usize>;

const TOO_SHORT: usize = 0;

const OTHER_ACTIONS: usize = 1;

const WITH_MASKS: usize = 2;

impl<const WHAT: usize> Kernel for Other<WHAT> {
    type State = [f64; 4];
    type Action = u32;
    type Obs = [f32; 4];

    fn env_spec() -> EnvSpec {
        let spec = CartPole::env_spec();
        let one = Space::boxed(vec![0.0], vec![1.0], vec![1]).unwrap();
        match WHAT {
            TOO_SHORT => EnvSpec { observation: one, ..spec },
            OTHER_ACTIONS => EnvSpec { action: one, ..spec },
            _ => EnvSpec { action_mask: true, ..spec },
        }
    }
    fn start(seed: u64) -> [f64; 4] {
        CartPole::start(seed)
    }
    fn advance(state: &mut [f64; 4], action: u32) -> Outcome {
        CartPole::advance(state, action)
    }
    fn observation(state: &[f64; 4]) -> [f32; 4] {
        CartPole::observation(state)
    }
}

#[test]
fn a_kernel_that_does_not_fit_its_spec_is_refused() {
    fn refused<K: Kernel>(n_envs: usize, limit: Option<u32>, words: &str) {
        let made = NativeVectorEnv::<K>::with_time_limit(&CONTEXT, n_envs, limit);
        let error = made.map(drop).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    refused::<Other<TOO_SHORT>>(1, None, "the kernel writes 4 floats, unlike CartPole-v1");
    refused::<Other<OTHER_ACTIONS>>(1, None, "the kernel takes a u32 as its action, unlike CartPole-v1");
    refused::<Other<WITH_MASKS>>(1, None, "a kernel has no masks");
    refused::<CartPole>(0, None, "at least one environment, got 0");
    refused::<CartPole>(1, Some(0), "max_episode_steps is 0");
}
