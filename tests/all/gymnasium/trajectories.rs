//! Gymnasium's classic control, in a process, and pronk's own make the same episodes from the same states.

use pronk::Rng;
use pronk::buffer::{FinalObs, ObsKind};
use pronk::env_process::{Gymnasium, Wrapper};
use pronk::envs::{CartPole, Pendulum};
use pronk::prelude::*;
use pronk::rollout::{NativeVectorEnv, VectorContext, VectorEnv, VectorStep};

use super::{Stepped, python, quiet};

const N_ENVS: usize = 4;

/// CartPole whose state is at the beginning what is seen of it.
fn cartpole() -> Stepped {
    let wrappers = vec![Wrapper::new("pronk_test_envs:RoundedStart")];
    Stepped::reset(&quiet(Gymnasium { python: python(), wrappers, ..Gymnasium::new("CartPole-v1") }), N_ENVS).unwrap()
}

#[test]
fn cartpole_of_gymnasium_and_of_pronk_make_the_same_trajectories() {
    let mut theirs = cartpole();
    let context = VectorContext { worker: 1, seed: 3, ..VectorContext::default() };
    let mut ours = NativeVectorEnv::<CartPole>::new(&context, N_ENVS).unwrap();
    let (mut obs, mut rewards, mut ends) = ([0.0; 4 * N_ENVS], [0.0; N_ENVS], [End::No; N_ENVS]);
    ours.reset_all(ObsMut::F32(&mut obs)).unwrap();
    let mut final_obs = FinalObs::new(ObsKind::F32, 4);
    let start = |ours: &mut NativeVectorEnv<CartPole>, env: usize, seen: &[f32]| {
        let state: [f64; 4] = std::array::from_fn(|i| f64::from(seen[4 * env + i]));
        ours.set_state(env, state);
    };
    (0..N_ENVS).for_each(|env| start(&mut ours, env, theirs.floats()));

    let mut rng = Rng::seed_from(1);
    let (mut n_ends, mut compared) = (0, 0);
    for t in 0..2_000 {
        let actions: [u32; N_ENVS] = std::array::from_fn(|_| rng.below(2) as u32);
        theirs.step(ActionRef::Discrete(&actions)).unwrap();
        let step = VectorStep {
            t,
            obs: ObsMut::F32(&mut obs),
            rewards: &mut rewards,
            ends: &mut ends,
            final_obs: &mut final_obs,
        };
        ours.step(ActionRef::Discrete(&actions), step).unwrap();
        assert_eq!((&theirs.rewards[..], &theirs.ends[..]), (&rewards[..], &ends[..]), "step {t}");
        for env in 0..N_ENVS {
            let seen = &theirs.floats()[4 * env..][..4];
            if ends[env] == End::No {
                for (theirs, ours) in seen.iter().zip(&obs[4 * env..]) {
                    // The same arithmetic in 64 bits; only the sine is another library's.
                    assert!((theirs - ours).abs() <= 1e-6 * theirs.abs().max(1.0), "step {t}: {theirs} and {ours}");
                    compared += 1;
                }
            } else {
                n_ends += 1;
                // Both begin anew, from different seeds: ours goes on from what theirs begins with.
                start(&mut ours, env, theirs.floats());
            }
        }
    }
    assert!(n_ends > 100 && compared > 10_000, "{n_ends} ends, {compared} numbers");
}

#[test]
fn specs_of_gymnasium_are_those_of_pronk() {
    let spec_of = |id: &str| {
        let envs = quiet(Gymnasium { python: python(), ..Gymnasium::new(id) });
        Stepped::reset(&envs, 1).unwrap().envs.spec().clone()
    };
    assert_eq!(spec_of("CartPole-v1"), CartPole::new().spec());
    assert_eq!(spec_of("Pendulum-v1"), Pendulum::new().spec());
}
