#![allow(clippy::unwrap_used, clippy::expect_used)]

use pronk_buffer::{End, FinalObs, ObsKind};
use pronk_policy::{Rng, derive_seed};

use super::*;
use crate::env::{ActionRef, CallMonitor, Env, EnvSpec, EpisodeStat, ObsMut};
use crate::envs::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use crate::vector::{SerialVectorEnv, VectorStep};
use crate::wrappers::TimeLimit;

const CONTEXT: VectorContext =
    VectorContext { worker: 3, incarnation: 1, first_env: 0, seed: 11, purpose: crate::env::EnvPurpose::Training };

/// More than one block, and a part of one.
const N_ENVS: usize = 77;

/// A vector of environments with what it wrote last.
struct Played<V> {
    envs: V,
    obs_len: usize,
    obs: Vec<f32>,
    rewards: Vec<f32>,
    ends: Vec<End>,
    final_obs: FinalObs,
    t: usize,
}

impl<V: VectorEnv> Played<V> {
    fn reset(mut envs: V) -> Self {
        let (n_envs, obs_len) = (envs.n_envs(), envs.spec().observation.obs_len());
        let mut obs = vec![-1.0; n_envs * obs_len];
        envs.reset_all(ObsMut::F32(&mut obs)).unwrap();
        let final_obs = FinalObs::new(ObsKind::F32, obs_len);
        Self { envs, obs_len, obs, rewards: vec![-9.0; n_envs], ends: vec![End::No; n_envs], final_obs, t: 0 }
    }

    fn step(&mut self, actions: &Actions) -> Result<(), EnvFailure> {
        let out = VectorStep {
            t: self.t,
            obs: ObsMut::F32(&mut self.obs),
            rewards: &mut self.rewards,
            ends: &mut self.ends,
            final_obs: &mut self.final_obs,
        };
        self.t += 1;
        self.envs.step(actions.all(), out)
    }

    fn row(&self, index: usize) -> &[f32] {
        &self.obs[index * self.obs_len..(index + 1) * self.obs_len]
    }

    fn episodes(&mut self) -> Vec<EpisodeStat> {
        let mut episodes = Vec::new();
        self.envs.drain_episodes(&mut episodes);
        episodes
    }
}

/// What every environment is to do.
enum Actions {
    Choices(Vec<u32>),
    Numbers(Vec<f32>),
}

impl Actions {
    /// Random ones. Numbers reach beyond what environments clip to.
    fn random(spec: &EnvSpec, rng: &mut Rng) -> Self {
        if spec.action.has_discrete_actions() {
            let n = spec.action.dist_len() as u64;
            Self::Choices((0..N_ENVS).map(|_| rng.below(n) as u32).collect())
        } else {
            Self::Numbers((0..N_ENVS).map(|_| 5.0 * rng.next_f32() - 2.5).collect())
        }
    }

    fn all(&self) -> ActionRef<'_> {
        match self {
            Self::Choices(choices) => ActionRef::Discrete(choices),
            Self::Numbers(numbers) => ActionRef::Continuous(numbers),
        }
    }
}

/// A scalar environment whose state can be read, and written where one that went on from it would take the
/// same steps.
trait Scalar: Env + Kernel {
    fn state(&self) -> Vec<f64>;
    fn go_on_from(&mut self, state: &[f64]);
}

macro_rules! scalar {
    ($($env:ty, $go_on_from:expr;)*) => {$(
        impl Scalar for $env {
            fn state(&self) -> Vec<f64> {
                <$env>::state(self).to_vec()
            }
            fn go_on_from(&mut self, state: &[f64]) {
                let go_on_from: fn(&mut $env, &[f64]) = $go_on_from;
                go_on_from(self, state);
            }
        }
    )*};
}

scalar! {
    Acrobot, |env, state| *env = Acrobot::from_state(state.try_into().unwrap());
    CartPole, |env, state| *env = CartPole::from_state(state.try_into().unwrap());
    MountainCar, |env, state| *env = MountainCar::from_state(state.try_into().unwrap());
    // A state of its own would be that of a reset. Its steps do not drive apart what lies close together.
    MountainCarContinuous, |_, _| {};
    Pendulum, |env, state| *env = Pendulum::from_state(state.try_into().unwrap());
}

/// Every step of `n_steps`, beside the scalar environment that begins it in the same state.
fn check_steps<E: Scalar>(make: fn() -> E, n_steps: usize, min_ends: usize) {
    let name = E::env_spec().name;
    let mut played = Played::reset(NativeVectorEnv::<E>::with_time_limit(&CONTEXT, N_ENVS, None).unwrap());
    let mut scalars: Vec<E> = (0..N_ENVS).map(|_| make()).collect();
    let mut row = vec![0.0; played.obs_len];
    let mut n_episodes = [0; N_ENVS];
    let mut begin = |env: &mut E, index: usize, row: &mut [f32]| {
        let seed = derive_seed(CONTEXT.env(index as u32).seed, &[n_episodes[index]]);
        n_episodes[index] += 1;
        env.reset(seed, ObsMut::F32(row)).unwrap();
    };
    let close = |what: &str, got: &[f64], want: &[f64], tolerance: f64| {
        let all_close = got.iter().zip(want).all(|(got, want)| (got - want).abs() <= tolerance);
        assert!(all_close, "{name}: {what} {got:?}, not {want:?}");
    };
    let wide = |numbers: &[f32]| numbers.iter().map(|number| f64::from(*number)).collect::<Vec<_>>();

    for (index, env) in scalars.iter_mut().enumerate() {
        begin(env, index, &mut row);
        close("first observation", &wide(played.row(index)), &wide(&row), 1e-7);
    }
    let (mut rng, mut n_ends) = (Rng::seed_from(3), 0);
    for _ in 0..n_steps {
        let actions = Actions::random(played.envs.spec(), &mut rng);
        played.step(&actions).unwrap();
        for (index, env) in scalars.iter_mut().enumerate() {
            let step = env.step(actions.all().part(index, 1), ObsMut::F32(&mut row)).unwrap();
            assert_eq!(played.ends[index], step.end, "{name}: environment {index}");
            let reward_tolerance = 1e-7 * f64::from(step.reward).abs().max(1.0);
            close("reward", &[played.rewards[index].into()], &[step.reward.into()], reward_tolerance);
            if step.end == End::No {
                let state = played.envs.state(index);
                let state = &state.as_ref()[..env.state().len()];
                close("state", state, &env.state(), 1e-9);
                close("observation", &wide(played.row(index)), &wide(&row), 1e-6);
                env.go_on_from(state);
            } else {
                n_ends += 1;
                begin(env, index, &mut row);
                close("first observation", &wide(played.row(index)), &wide(&row), 1e-7);
            }
        }
    }
    assert!(n_ends >= min_ends, "{name}: {n_ends} ends are too few to say that they are the same");
}

#[test]
fn every_kernel_makes_the_steps_of_its_environment() {
    check_steps(CartPole::new, 2000, 5000);
    check_steps(Acrobot::new, 2000, 0);
    check_steps(MountainCar::new, 2000, 0);
    check_steps(MountainCarContinuous::new, 2000, 10);
    check_steps(Pendulum::new, 2000, 0);
}

/// Whole runs of both kinds of vector from the same seeds, with time limits short enough to be met.
fn check_runs<E: Scalar>(make: fn() -> E, limit: u32, tolerance: f64) {
    struct Limited<E>(E, u32);
    impl<E: Env> Env for Limited<E> {
        fn spec(&self) -> EnvSpec {
            EnvSpec { max_episode_steps: Some(self.1), ..self.0.spec() }
        }
        fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), crate::env::EnvError> {
            self.0.reset(seed, obs)
        }
        fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<crate::env::Step, crate::env::EnvError> {
            self.0.step(action, obs)
        }
    }
    let mut native = Played::reset(NativeVectorEnv::<E>::with_time_limit(&CONTEXT, N_ENVS, Some(limit)).unwrap());
    let serial = SerialVectorEnv::new(&CONTEXT, N_ENVS, &CallMonitor::new(), |_| Ok(Limited(make(), limit))).unwrap();
    let mut serial = Played::reset(serial);
    let name = E::env_spec().name;
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(1.0));
    let mut rng = Rng::seed_from(4);
    for t in 0..1000 {
        let actions = Actions::random(native.envs.spec(), &mut rng);
        native.step(&actions).unwrap();
        serial.step(&actions).unwrap();
        assert_eq!(native.ends, serial.ends, "{name} at {t}");
        assert!(close(&native.obs, &serial.obs) && close(&native.rewards, &serial.rewards), "{name} at {t}");
    }
    assert_eq!(native.final_obs.index(), serial.final_obs.index(), "{name}");
    assert!(!native.final_obs.is_empty(), "{name}: nothing was truncated");
    for (t, b) in native.final_obs.index() {
        let row = |obs: &FinalObs| obs.get(*t as usize, *b as usize).and_then(|row| row.as_f32()).unwrap().to_vec();
        assert!(close(&row(&native.final_obs), &row(&serial.final_obs)), "{name} at ({t}, {b})");
    }
    let (native, serial) = (native.episodes(), serial.episodes());
    assert_eq!(native.len(), serial.len());
    for (native, serial) in native.iter().zip(&serial) {
        let without_return = |stat: &EpisodeStat| EpisodeStat { episode_return: 0.0, ..*stat };
        assert_eq!(without_return(native), without_return(serial), "{name}");
        let (native, serial) = (native.episode_return, serial.episode_return);
        assert!((native - serial).abs() <= tolerance * serial.abs().max(1.0), "{name}: {native}, not {serial}");
    }
}

#[test]
fn a_vectorised_run_has_the_episodes_of_a_serial_one() {
    check_runs(CartPole::new, 30, 0.0);
    check_runs(Acrobot::new, 50, 0.0);
    check_runs(MountainCar::new, 200, 0.0);
    check_runs(MountainCarContinuous::new, 100, 1e-7);
    check_runs(Pendulum::new, 40, 1e-6);
}

#[test]
fn a_kernel_draws_what_its_environment_draws() {
    fn check<E: Scalar>(make: fn() -> E) {
        let name = E::env_spec().name;
        let limit = Some(6);
        let mut native = Played::reset(NativeVectorEnv::<E>::with_time_limit(&CONTEXT, N_ENVS, limit).unwrap());
        let serial = SerialVectorEnv::new(&CONTEXT, N_ENVS, &CallMonitor::new(), |_| Ok(TimeLimit::new(make(), limit)));
        let mut serial = Played::reset(serial.unwrap());
        native.envs.keep_last_frames(70);
        serial.envs.keep_last_frames(70);
        let mut rng = Rng::seed_from(4);
        let mut frames = Vec::new();
        for t in 0..6 {
            assert!(native.envs.take_last_frame().is_none(), "{name} at {t}");
            frames.push(native.envs.render(70).unwrap().expect("a picture"));
            assert!(Some(&frames[t]) == serial.envs.render(70).unwrap().as_ref(), "{name} at {t}");
            let actions = Actions::random(native.envs.spec(), &mut rng);
            native.step(&actions).unwrap();
            serial.step(&actions).unwrap();
        }
        frames.push(native.envs.take_last_frame().expect("the time limit ended the episode"));
        assert!(frames.last() == serial.envs.take_last_frame().as_ref(), "{name} at its end");
        assert!(frames.windows(2).all(|pair| pair[0] != pair[1]), "{name}: something moves in every step");
        assert!(native.envs.render(70).unwrap().as_ref() != frames.last(), "{name}: the next episode has begun");
    }
    check(CartPole::new);
    check(Acrobot::new);
    check(MountainCar::new);
    check(MountainCarContinuous::new);
    check(Pendulum::new);
}

#[test]
fn an_action_that_does_not_exist_is_refused_with_its_environment_before_anything_moves() {
    let mut played = Played::reset(NativeVectorEnv::<CartPole>::new(&CONTEXT, N_ENVS).unwrap());
    let mut choices = vec![1; N_ENVS];
    played.step(&Actions::Choices(choices.clone())).unwrap();
    let before = played.obs.clone();
    choices[70] = 2;
    let failure = played.step(&Actions::Choices(choices)).expect_err("refused");
    assert_eq!((failure.index, failure.steps_made, failure.cause.key()), (70, 0, "env_error"));
    let text = failure.to_string();
    assert!(text.starts_with("environment 70 of rollout-3 (CartPole-v1, incarnation 1) failed at step 2"), "{text}");
    assert!(text.contains("the action is not in Discrete(2): got 2"), "{text}");
    assert_eq!(played.obs, before);

    let short = played.step(&Actions::Choices(vec![0; 3])).expect_err("refused").to_string();
    assert!(short.contains("77 environments take 77 actions, got 3"), "{short}");
    let numbers = played.step(&Actions::Numbers(vec![0.0; N_ENVS])).expect_err("refused").to_string();
    assert!(numbers.contains("expects discrete actions"), "{numbers}");
}

#[test]
fn numbers_that_are_not_finite_are_refused_with_their_environment() {
    let mut played = Played::reset(NativeVectorEnv::<Pendulum>::new(&CONTEXT, N_ENVS).unwrap());
    let mut numbers = vec![0.5; N_ENVS];
    numbers[66] = f32::NAN;
    let nan = played.step(&Actions::Numbers(numbers)).expect_err("refused");
    assert_eq!((nan.index, nan.cause.key()), (66, "env_error"));
    assert!(nan.to_string().contains("the action is NaN, which no bound could clip"), "{nan}");

    // What is too large is clipped, but what it costs is infinite.
    let mut played = Played::reset(NativeVectorEnv::<MountainCarContinuous>::new(&CONTEXT, N_ENVS).unwrap());
    let mut numbers = vec![0.5; N_ENVS];
    numbers[66] = f32::INFINITY;
    let infinite = played.step(&Actions::Numbers(numbers)).expect_err("refused");
    assert_eq!((infinite.index, infinite.steps_made, infinite.cause.key()), (66, N_ENVS - 1, "non_finite_reward"));

    let mut played = Played::reset(NativeVectorEnv::<CartPole>::new(&CONTEXT, N_ENVS).unwrap());
    played.envs.set_state(70, [0.0, f64::NAN, 0.0, 0.0]);
    let lost = played.step(&Actions::Choices(vec![0; N_ENVS])).expect_err("refused");
    assert_eq!((lost.index, lost.cause.key()), (70, "non_finite_observation"));
}
