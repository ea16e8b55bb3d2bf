#![allow(clippy::unwrap_used, clippy::expect_used)]

mod frames;

use pronk_buffer::{End, FinalObs, ObsKind, ObsView};
use pronk_policy::Space;

use super::*;
use crate::env::{CallMonitor, Env, EnvContext, EnvError, EnvFailureCause, FailurePlace, Step, VectorContext};
use crate::testing::{Counter, Fault, Hooked, MaskFault, Masks, N_ACTIONS, Watched};

const CONTEXT: VectorContext =
    VectorContext { worker: 3, incarnation: 1, first_env: 0, seed: 0, purpose: crate::env::EnvPurpose::Training };

/// A vector of environments with what it wrote last.
struct Played {
    envs: SerialVectorEnv<Counter>,
    obs: Vec<f32>,
    rewards: Vec<f32>,
    ends: Vec<End>,
    final_obs: FinalObs,
    t: usize,
}

impl Played {
    fn reset(envs: Vec<Counter>) -> Result<Self, EnvFailure> {
        let n_envs = envs.len();
        let envs = SerialVectorEnv::new(&CONTEXT, n_envs, &CallMonitor::new(), |context| {
            Ok(envs[context.index as usize].clone())
        })?;
        let mut played = Self {
            envs,
            obs: vec![-1.0; 3 * n_envs],
            rewards: vec![-1.0; n_envs],
            ends: vec![End::No; n_envs],
            final_obs: FinalObs::new(ObsKind::F32, 3),
            t: 0,
        };
        played.envs.reset_all(ObsMut::F32(&mut played.obs))?;
        Ok(played)
    }

    fn step(&mut self) -> Result<(), EnvFailure> {
        let out = VectorStep {
            t: self.t,
            obs: ObsMut::F32(&mut self.obs),
            rewards: &mut self.rewards,
            ends: &mut self.ends,
            final_obs: &mut self.final_obs,
        };
        self.t += 1;
        self.envs.step(ActionRef::Discrete(&vec![0; self.envs.n_envs()]), out)
    }

    /// Episode and step of an environment's observation.
    fn at(&self, index: usize) -> (f32, f32) {
        (self.obs[3 * index], self.obs[3 * index + 1])
    }

    fn episodes(&mut self) -> Vec<EpisodeStat> {
        let mut episodes = Vec::new();
        self.envs.drain_episodes(&mut episodes);
        episodes
    }
}

/// The failure of environments of which the second of three has the fault.
fn failure_of(fault: Fault) -> EnvFailure {
    let good = Counter::of_three();
    let mut played = match Played::reset(vec![good.clone(), good.clone().with_fault(fault), good]) {
        Ok(played) => played,
        Err(failure) => return failure,
    };
    (0..10).find_map(|_| played.step().err()).expect("the fault shows within ten steps")
}

#[test]
fn the_next_episode_begins_in_the_step_that_ended_the_last() {
    let mut played =
        Played::reset(vec![Counter::new(&[(2, End::Terminated)]), Counter::new(&[(5, End::Terminated)])]).unwrap();
    assert_eq!((played.at(0), played.at(1)), ((1.0, 0.0), (1.0, 0.0)));
    played.step().unwrap();
    assert_eq!((played.at(0), played.at(1)), ((1.0, 1.0), (1.0, 1.0)));
    played.step().unwrap();
    assert_eq!((played.at(0), played.at(1)), ((2.0, 0.0), (1.0, 2.0)), "row t + 1 is the reset observation");
    assert_eq!(played.rewards, [2.0, 2.0], "the reward is the old episode's");
    assert_eq!(played.ends, [End::Terminated, End::No]);
    assert!(played.final_obs.is_empty(), "nothing follows a terminal state");

    let episodes = played.episodes();
    assert_eq!(episodes.len(), 1);
    assert_eq!((episodes[0].worker, episodes[0].index), (3, 0));
    assert_eq!((episodes[0].episode_return, episodes[0].episode_len), (3.0, 2));
    assert!(played.episodes().is_empty(), "an episode is given once");

    played.step().unwrap();
    assert_eq!(played.ends, [End::No, End::No], "an end is written over");
}

#[test]
fn what_followed_a_truncated_episode_is_kept() {
    let mut played =
        Played::reset(vec![Counter::new(&[(3, End::Terminated)]), Counter::new(&[(2, End::Truncated)])]).unwrap();
    let noise = played.obs[5];
    for _ in 0..4 {
        played.step().unwrap();
    }
    assert_eq!(played.final_obs.index(), &[(1, 1), (3, 1)]);
    assert_eq!(played.final_obs.get(1, 1), Some(ObsView::F32(&[1.0, 2.0, noise])));
    assert_eq!(played.at(1), (3.0, 0.0));
}

#[test]
fn the_time_limit_truncates_and_an_end_of_its_own_on_that_step_counts_first() {
    let endless = Counter::new(&[(u32::MAX, End::Terminated)]).with_limit(3);
    let terminal = Counter::new(&[(3, End::Terminated)]).with_limit(3);
    let mut played = Played::reset(vec![endless, terminal]).unwrap();
    for expected in [[End::No; 2], [End::No; 2], [End::Truncated, End::Terminated], [End::No; 2]] {
        played.step().unwrap();
        assert_eq!(played.ends, expected);
    }
    assert_eq!(played.final_obs.index(), &[(2, 0)]);
    assert_eq!(played.episodes().iter().map(|episode| episode.episode_len).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn every_episode_has_a_seed_of_its_own_that_replays_it() {
    let one = || Counter::new(&[(1, End::Terminated)]);
    let mut played = Played::reset(vec![one(), one()]).unwrap();
    let (mut noises, mut seeds) = (vec![], vec![]);
    for _ in 0..3 {
        noises.extend([played.obs[2], played.obs[5]]);
        played.step().unwrap();
        seeds.extend(played.episodes().iter().map(|episode| episode.seed));
    }
    for (noise, seed) in noises.into_iter().zip(&seeds) {
        let mut obs = [0.0; 3];
        one().reset(*seed, ObsMut::F32(&mut obs)).unwrap();
        assert_eq!(obs[2], noise, "seed {seed} replays the episode");
    }
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 6, "no two episodes have one seed");
}

#[test]
fn a_failing_step_is_named_with_its_environment_seed_and_step() {
    for (fault, key, words) in [
        (Fault::StepErr(5), "env_error", "planted step error"),
        (Fault::StepPanic(5), "env_panic", "it panicked: planted step panic"),
        (Fault::StepNanObs(5), "non_finite_observation", "observation element 1 is NaN"),
        (Fault::StepInfReward(5), "non_finite_reward", "the reward is inf"),
    ] {
        let failure = failure_of(fault);
        // The fifth step of its life is the second of its second episode.
        let FailurePlace::Step { episode_seed, step: 2 } = failure.place else {
            panic!("{fault:?} at {:?}", failure.place)
        };
        assert_eq!((failure.worker, failure.incarnation, failure.index, failure.steps_made), (3, 1, 1, 1));
        assert_eq!(failure.cause.key(), key);
        let expected = format!(
            "environment 1 of rollout-3 (Counter, incarnation 1) failed at step 2 of the episode with seed {episode_seed}: \
             {words} (to replay: reset with seed {episode_seed}, then the 2 steps)"
        );
        assert_eq!(failure.to_string(), expected);
    }
}

#[test]
fn a_failing_reset_is_named_with_its_environment_and_seed() {
    for (fault, key, words, steps_made) in [
        (Fault::ResetErr(1), "env_error", "planted reset error", 0),
        (Fault::ResetPanic(1), "env_panic", "it panicked: planted reset panic", 0),
        (Fault::ResetNanObs(1), "non_finite_observation", "observation element 1 is NaN", 0),
        // The step before the second reset was made, its neighbour's too.
        (Fault::ResetErr(2), "env_error", "planted reset error", 2),
    ] {
        let failure = failure_of(fault);
        let FailurePlace::Reset { episode_seed } = failure.place else { panic!("{fault:?} at {:?}", failure.place) };
        assert_eq!((failure.index, failure.steps_made, failure.cause.key()), (1, steps_made, key));
        let expected = format!(
            "environment 1 of rollout-3 (Counter, incarnation 1) failed in reset with episode seed {episode_seed}: {words}"
        );
        assert_eq!(failure.to_string(), expected);
    }
}

/// Plays the lowest possible action everywhere until something fails.
fn play_possible(envs: &mut impl VectorEnv, n_steps: usize) -> Result<(), EnvFailure> {
    let n_envs = envs.n_envs();
    let (mut obs, mut rewards, mut ends) = (vec![0.0; n_envs], vec![0.0; n_envs], vec![End::No; n_envs]);
    let (mut masks, mut final_obs) = (vec![false; n_envs * N_ACTIONS], FinalObs::new(ObsKind::F32, 1));
    envs.reset_all(ObsMut::F32(&mut obs))?;
    for t in 0..n_steps {
        envs.action_masks(&mut masks)?;
        let lowest = |mask: &[bool]| mask.iter().position(|possible| *possible).unwrap() as u32;
        let actions: Vec<u32> = masks.chunks(N_ACTIONS).map(lowest).collect();
        let obs = ObsMut::F32(&mut obs);
        let out = VectorStep { t, obs, rewards: &mut rewards, ends: &mut ends, final_obs: &mut final_obs };
        envs.step(ActionRef::Discrete(&actions), out)?;
        assert_eq!(rewards, vec![1.0; n_envs], "the mask is that of the state");
    }
    Ok(())
}

#[test]
fn masks_are_those_of_the_present_states_and_without_one_everything_is_possible() {
    let given = Masks::default();
    let mut envs = SerialVectorEnv::new(&CONTEXT, 3, &CallMonitor::new(), |_| Ok(Watched::new(&given))).unwrap();
    play_possible(&mut envs, 20).unwrap();
    assert_eq!(given.lock().unwrap().len(), 60);

    let mut unmasked = SerialVectorEnv::new(&CONTEXT, 2, &CallMonitor::new(), |_| Ok(Counter::of_three())).unwrap();
    let mut masks = [false; 4];
    unmasked.action_masks(&mut masks).unwrap();
    assert_eq!(masks, [true; 4]);
}

#[test]
fn each_environment_that_is_made_is_a_call_of_its_own() {
    let monitor = CallMonitor::new();
    let _inside = monitor.enter(0);
    let seen = std::sync::Mutex::new(Vec::new());
    let made = SerialVectorEnv::new(&CONTEXT, 3, &monitor, |_| {
        seen.lock().unwrap().extend(monitor.call());
        Ok(Counter::of_three())
    });
    assert!(made.is_ok());
    let seen: Vec<_> = seen.into_inner().unwrap().into_iter().map(|call| (call.index, call.place)).collect();
    assert_eq!(seen, [0, 1, 2].map(|index| (index, FailurePlace::Make)));
}

#[test]
fn a_boxed_environment_says_what_is_possible_as_the_one_inside_does() {
    let mut envs = SerialVectorEnv::new(&CONTEXT, 2, &CallMonitor::new(), |_| {
        let boxed: Box<dyn Env> = Box::new(Watched::new(&Masks::default()));
        Ok(boxed)
    })
    .unwrap();
    play_possible(&mut envs, 20).unwrap();
}

#[test]
fn a_mask_for_numbers_is_refused_before_anything_is_played() {
    let numbers = || {
        Hooked::with_spec(|spec| {
            spec.action = Space::boxed(vec![-1.0], vec![1.0], vec![1]).unwrap();
            spec.action_mask = true;
        })
    };
    let error = SerialVectorEnv::new(&CONTEXT, 1, &CallMonitor::new(), |_| Ok(numbers()))
        .map(drop)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("action_mask is set, but actions of Box(-1..=1, [1], f32) are continuous"), "{error}");
}

#[test]
fn a_failing_mask_is_named_with_its_environment_seed_and_step() {
    for (fault, key, words) in [
        (MaskFault::Err, "env_error", "planted mask error"),
        (MaskFault::Panic, "env_panic", "it panicked: planted mask panic"),
        (
            MaskFault::AllFalse,
            "nothing_possible",
            "action_mask leaves nothing possible of choice 0: a state without a possible action must end the episode",
        ),
    ] {
        let at_fault = |context: &EnvContext| if context.index == 1 { fault } else { MaskFault::Nothing };
        let mut envs = SerialVectorEnv::new(&CONTEXT, 2, &CallMonitor::new(), |context| {
            Ok(Watched::with_fault(at_fault(context)))
        })
        .unwrap();
        let failure = play_possible(&mut envs, 10).expect_err("the fault shows");
        // The fourth step of its life is the first of its second episode.
        let FailurePlace::Mask { episode_seed, step: 1 } = failure.place else {
            panic!("{fault:?} at {:?}", failure.place)
        };
        assert_eq!((failure.worker, failure.index, failure.steps_made, failure.cause.key()), (3, 1, 0, key));
        let expected = format!(
            "environment 1 of rollout-3 (Masked, incarnation 1) failed in action_mask after step 1 of the episode with seed \
             {episode_seed}: {words} (to replay: reset with seed {episode_seed}, then the 1 steps)"
        );
        assert_eq!(failure.to_string(), expected);
    }
}

#[test]
fn a_vector_is_not_made_of_nothing_or_of_environments_that_differ_or_cannot_run() {
    let failure = |result: Result<SerialVectorEnv<Counter>, EnvFailure>| result.expect_err("refused").to_string();
    let none = failure(SerialVectorEnv::new(&CONTEXT, 0, &CallMonitor::new(), |_| Ok(Counter::of_three())));
    assert!(none.contains("at least one environment, got 0"), "{none}");

    let differing = failure(SerialVectorEnv::new(&CONTEXT, 2, &CallMonitor::new(), |context| {
        Ok(Counter::of_three().with_limit(1 + context.index))
    }));
    assert!(differing.contains("environment 1") && differing.contains("must have one spec"), "{differing}");

    let no_step =
        failure(SerialVectorEnv::new(&CONTEXT, 1, &CallMonitor::new(), |_| Ok(Counter::of_three().with_limit(0))));
    assert!(no_step.contains("max_episode_steps is 0"), "{no_step}");

    let choiceless = || Hooked::with_spec(|spec| spec.action = Space::Discrete { n: 0 });
    let no_choice =
        SerialVectorEnv::new(&CONTEXT, 1, &CallMonitor::new(), |_| Ok(choiceless())).map(drop).expect_err("refused");
    assert!(no_choice.to_string().contains("action space Discrete(0)"), "{no_choice}");

    let error = failure(SerialVectorEnv::new(&CONTEXT, 1, &CallMonitor::new(), |_| Err(EnvError::new("no licence"))));
    assert_eq!(error, "environment 0 of rollout-3 (incarnation 1) failed while it was made: no licence");

    let panic = SerialVectorEnv::<Counter>::new(&CONTEXT, 1, &CallMonitor::new(), |_| panic!("no display"))
        .expect_err("refused");
    assert!(matches!(&panic.cause, EnvFailureCause::Panic(text) if text == "no display"), "{panic}");
}

#[test]
fn observations_of_bytes_are_kept_and_reset_too() {
    struct Pixels(u8);
    impl Env for Pixels {
        fn spec(&self) -> EnvSpec {
            EnvSpec {
                name: "Pixels".into(),
                observation: Space::bytes(vec![2]).unwrap(),
                action: Space::discrete(2).unwrap(),
                max_episode_steps: Some(1),
                action_mask: false,
            }
        }
        fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
            obs.u8()?.fill(self.0);
            Ok(())
        }
        fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
            self.0 += 1;
            obs.u8()?.fill(100 + self.0);
            Ok(Step { reward: 0.0, end: End::No })
        }
    }
    let mut envs = SerialVectorEnv::new(&CONTEXT, 1, &CallMonitor::new(), |_| Ok(Pixels(0))).unwrap();
    let (mut obs, mut final_obs) = ([9; 2], FinalObs::new(ObsKind::U8, 2));
    envs.reset_all(ObsMut::U8(&mut obs)).unwrap();
    let out = VectorStep {
        t: 0,
        obs: ObsMut::U8(&mut obs),
        rewards: &mut [0.0],
        ends: &mut [End::No],
        final_obs: &mut final_obs,
    };
    envs.step(ActionRef::Discrete(&[0]), out).unwrap();
    assert_eq!(final_obs.get(0, 0), Some(ObsView::U8(&[101, 101])));
    assert_eq!(obs, [1, 1]);
}
